import { readFileSync } from 'node:fs'
import type { EndpointSlice, Pod, Service } from '../../src/kube/resources.ts'

/**
 * Upstream's tests of the common code of the Endpoints and EndpointSlice controllers, as data: see README.md in this
 * folder.
 */
interface WorkloadTables<Tables> {
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

type Endpoint = NonNullable<EndpointSlice['endpoints']>[number]

export const controllerUtils = load<{
  readonly determineNeededServiceUpdates: readonly Case<
    { readonly old: readonly string[]; readonly new: readonly string[] },
    { readonly labelsChanged: readonly string[]; readonly podChangedToo: readonly string[] }
  >[]
  readonly shouldPodBeInEndpoints: readonly Case<{ readonly pod: Pod; readonly includeTerminating: boolean }, boolean>[]
  readonly shouldSetHostname: readonly Case<{ readonly pod: Pod; readonly service: Service }, boolean>[]
  readonly getPodServicesToUpdate: readonly Case<
    { readonly pod: Pod; readonly services: readonly Service[] },
    readonly string[]
  >[]
  readonly podChanged: readonly Case<
    { readonly old: Pod; readonly new: Pod },
    { readonly podChanged: boolean; readonly labelsChanged: boolean }
  >[]
  readonly endpointsEqualBeyondHash: readonly Case<{ readonly a: Endpoint; readonly b: Endpoint }, boolean>[]
}>('endpointslice-controller-utils')

/** Each case is a history of one tracker; `expect` is absent where there is no time. */
export const triggerTimes = load<{
  readonly triggerTimes: readonly {
    readonly name: string
    readonly steps: readonly (
      | { readonly delete: string }
      | { readonly service: Service; readonly pods: readonly Pod[]; readonly expect?: string }
    )[]
  }[]
}>('trigger-times')

function load<Tables>(name: string): WorkloadTables<Tables> {
  return JSON.parse(readFileSync(new URL(`data/${name}.json`, import.meta.url), 'utf8')) as WorkloadTables<Tables>
}
