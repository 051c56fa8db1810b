import { readFileSync } from 'node:fs'
import type { Endpoint } from '../../src/endpointslice/endpoint.ts'
import type { EndpointPort } from '../../src/endpointslice/slice.ts'
import type { EndpointSlice, Endpoints, Service } from '../../src/kube/resources.ts'
import type { EndpointAddress } from '../../src/workloads/subsets.ts'
import type { HintTables } from './topology-tables.ts'

// Upstream's tests of mirroring as data: see README.md in this folder.

interface Case<Given, Expect> {
  readonly name: string
  readonly given: Given
  readonly expect: Expect
}

export type MirrorWrite =
  | {
      readonly verb: 'create' | 'update'
      readonly object: EndpointSlice
      /** The number of endpoints of the object, if they are left out. */
      readonly endpointCount?: number
    }
  | { readonly verb: 'delete'; readonly name: string }

/** In no particular order. */
interface Outcome {
  readonly writes: readonly MirrorWrite[]
  readonly events: readonly { readonly type: string; readonly reason: string; readonly note: string }[]
}

export interface MirrorMetrics {
  readonly desiredSlices: number
  readonly actualSlices: number
  readonly desiredEndpoints: number
  readonly added: number
  readonly updated: number
  readonly removed: number
  readonly skipped: number
  readonly created: number
  readonly updates: number
  readonly deleted: number
}

interface GivenEndpoints {
  readonly endpoints: Endpoints
  /** The number of addresses in the first subset: 10.0.0.0 and following, 255 in each /24. */
  readonly generatedAddresses?: number
}

interface SliceLists {
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly delete: readonly EndpointSlice[]
}

export const mirroringReconciler = load<{
  readonly reconcile: readonly Case<
    GivenEndpoints & { readonly slices: readonly EndpointSlice[]; readonly maxEndpointsPerSubset: number },
    Outcome & { readonly metrics?: MirrorMetrics }
  >[]
}>('mirroring-reconciler')

export const mirroringHelpers = load<{ readonly recycleSlices: readonly Case<SliceLists, SliceLists>[] }>(
  'mirroring-helpers',
)

export const mirroringUtils = load<{
  readonly newEndpointSlice: readonly Case<
    { readonly endpoints: Endpoints; readonly ports: readonly EndpointPort[]; readonly addressType: 'IPv4' },
    { readonly slice: EndpointSlice }
  >[]
  readonly addressToEndpoint: readonly Case<
    { readonly address: EndpointAddress; readonly ready: boolean },
    { readonly endpoint: Endpoint; readonly addressType: string }
  >[]
}>('mirroring-utils')

export const mirroringController = load<{
  readonly syncEndpoints: readonly Case<
    GivenEndpoints & { readonly service?: Service; readonly slices: readonly EndpointSlice[] },
    Outcome
  >[]
  readonly shouldMirror: readonly Case<{ readonly endpoints: Endpoints }, { readonly mirrored: boolean }>[]
  readonly slicesMirroredForService: readonly Case<
    { readonly slice: EndpointSlice; readonly namespace: string; readonly name: string },
    { readonly found: boolean }
  >[]
}>('mirroring-controller')

/** The complete Endpoints of a case. */
export function endpointsOf({ endpoints, generatedAddresses }: GivenEndpoints): Endpoints {
  if (generatedAddresses === undefined) return endpoints
  const addresses = Array.from({ length: generatedAddresses }, (_, index) => ({
    ip: `10.0.${Math.floor(index / 255)}.${index % 255}`,
  }))
  const [first, ...others] = endpoints.subsets ?? []
  return { ...endpoints, subsets: [{ ...first, addresses }, ...others] } as Endpoints
}

function load<Tables>(name: string): HintTables<Tables> {
  return JSON.parse(readFileSync(new URL(`data/${name}.json`, import.meta.url), 'utf8')) as HintTables<Tables>
}
