import { readFileSync } from 'node:fs'
import type { Endpoints, Pod, Service } from '../../src/kube/resources.ts'
import type { StoredObject, Write } from './tables.ts'

/** The tables of upstream's Endpoints controller: see README.md in this folder. */

type Subsets = NonNullable<Endpoints['subsets']>
type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

interface Case<Given, Expect> {
  readonly name: string
  readonly given: Given
  readonly expect: Expect
}

interface File<Tables> {
  readonly file: string
  readonly tables: Tables
}

/**
 * The objects that a sync of one Service finds, and the writes that it requests. Pods and Services have only the fields
 * that upstream's test sets.
 */
export interface SyncCase
  extends Case<{ readonly objects: readonly StoredObject[] }, { readonly writes: readonly Write[] }> {
  readonly call: { readonly key: string }
}

export type AddressCase = Case<
  { readonly objects: readonly [Service, Pod] },
  { readonly family?: 'IPv4' | 'IPv6'; readonly error?: true }
>

export type OverCapacityCase = Case<
  { readonly existing: number; readonly ready: number; readonly notReady: number; readonly annotation?: string },
  { readonly ready: number; readonly notReady: number; readonly truncated: boolean }
>

interface Counts {
  readonly ready: readonly number[]
  readonly notReady: readonly number[]
}

export type BatchingCase = Case<
  {
    readonly batchPeriodMs: number
    /** The number of Pods at the start. */
    readonly pods: number
    readonly verb: 'update' | 'add' | 'delete'
    /** The delay before each change. */
    readonly delaysMs: readonly number[]
  },
  { readonly writes: number }
>

export const endpointsController =
  load<
    File<{
      readonly sync: readonly SyncCase[]
      readonly externalName: readonly SyncCase[]
      readonly addresses: readonly SyncCase[]
      readonly podToEndpointAddress: readonly AddressCase[]
      readonly overCapacity: readonly OverCapacityCase[]
      readonly truncate: readonly Case<Counts, Counts>[]
      readonly sameSubsets: readonly Case<{ readonly a: Subsets; readonly b: Subsets }, { readonly same: boolean }>[]
      readonly portFromServicePort: readonly Case<{ readonly port: ServicePort; readonly number: number }, object>[]
      readonly batching: readonly BatchingCase[]
      readonly waitsForInformers: readonly Case<
        { readonly unsynced: readonly ('pods' | 'services' | 'endpoints')[] },
        { readonly writes: number }
      >[]
    }>
  >('endpoints-controller')

type RepackCase = Case<{ readonly subsets: Subsets }, { readonly subsets: Subsets }>

export const endpointsRepack =
  load<File<{ readonly packSubsets: readonly RepackCase[]; readonly recorded: readonly RepackCase[] }>>(
    'endpoints-repack',
  )

function load<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`data/${name}.json`, import.meta.url), 'utf8')) as T
}
