import { readFileSync } from 'node:fs'
import type { EndpointSlice, Node } from '../../src/kube/resources.ts'

/** Upstream's tests of hints as data: see README.md in this folder. */
export interface HintTables<Tables> {
  readonly module: string
  readonly version: string
  readonly file: string
  readonly tables: Tables
}

interface Case<Given, Expect> {
  readonly name: string
  readonly given: Given
  readonly expect: Expect
}

type ByZone<T> = Readonly<Record<string, T>>

/** The slices of one address type before hints are decided. */
interface GivenSlices {
  readonly toCreate: readonly EndpointSlice[]
  readonly toUpdate: readonly EndpointSlice[]
  readonly unchanged: readonly EndpointSlice[]
}

type Counts = readonly { readonly ready: number; readonly unready: number }[]

export const topologyCache = load<{
  readonly addHints: readonly Case<
    GivenSlices & { readonly serviceKey: string; readonly addressType: 'IPv4'; readonly ratios?: ByZone<number> },
    {
      readonly create: readonly EndpointSlice[]
      readonly update: readonly EndpointSlice[]
      readonly events: readonly { readonly type: string; readonly reason: string; readonly note: string }[]
      readonly hintsByZone?: Readonly<Record<string, ByZone<number>>>
    }
  >[]
  readonly setNodes: readonly Case<
    { readonly nodes: readonly Node[] },
    { readonly sufficientNodeInfo: boolean; readonly ratios?: ByZone<number>; readonly cpu?: ByZone<string> }
  >[]
}>('topology-cache')

export const topologySliceInfo = load<{
  readonly totalReadyEndpoints: readonly Case<
    { readonly toCreate: Counts; readonly toUpdate: Counts; readonly unchanged: Counts },
    { readonly ready: number }
  >[]
}>('topology-slice-info')

export const topologyUtils = load<{
  readonly redistributeHints: readonly Case<
    { readonly slices: readonly EndpointSlice[]; readonly giving: ByZone<number>; readonly receiving: ByZone<number> },
    { readonly redistributions: ByZone<number> }
  >[]
  readonly givingAndReceivingZones: readonly Case<
    { readonly allocations: ByZone<{ readonly desired: number }>; readonly allocated: ByZone<number> },
    { readonly giving: ByZone<number>; readonly receiving: ByZone<number> }
  >[]
  readonly hintsByZone: readonly Case<
    {
      readonly slice: EndpointSlice
      readonly allocations: ByZone<{ readonly maximum: number }>
      readonly allocated: ByZone<number>
    },
    { readonly hints?: ByZone<number> }
  >[]
}>('topology-utils')

export const trafficDistribution = load<{
  readonly reconcileHints: readonly Case<
    GivenSlices & { readonly trafficDistribution?: string },
    {
      readonly create: readonly EndpointSlice[]
      readonly update: readonly EndpointSlice[]
      readonly unchanged: readonly EndpointSlice[]
    }
  >[]
}>('traffic-distribution')

function load<Tables>(name: string): HintTables<Tables> {
  return JSON.parse(readFileSync(new URL(`data/${name}.json`, import.meta.url), 'utf8')) as HintTables<Tables>
}
