import { readFileSync } from 'node:fs'
import type { Service } from '../../src/kube/resources.ts'
import type { FindingType } from '../../src/repair/reporter.ts'

/** Upstream's tests of its bitmap repairs as data: see README.md in this folder. */
export interface RangeRepairTables<Tables> {
  readonly module: string
  readonly version: string
  readonly file: string
  readonly tables: Tables
}

/** The items of ranges, ports or addresses, are text. */
export interface RangeRepairCase {
  readonly name: string
  readonly given: {
    readonly objects: readonly Service[]
    readonly ranges: readonly { readonly range: string; readonly allocated: readonly string[] }[]
    /** The error with which each write is refused. */
    readonly writeError?: string
  }
  readonly call: { readonly ranges: readonly string[]; readonly passes: number }
  readonly expect: {
    readonly ranges: readonly {
      readonly range: string
      /** The items after each pass. */
      readonly allocated: readonly (readonly string[])[]
      readonly free: number
    }[]
    /** The metric of errors by type, over all passes; absent types are zero. */
    readonly errors: Readonly<Partial<Record<FindingType, number>>>
    /** The metric of passes that failed. */
    readonly reconcileErrors: number
  }
}

export interface CollectPortsCase {
  readonly name: string
  readonly given: { readonly objects: readonly [Service] }
  readonly expect: { readonly ports: readonly number[] }
}

export interface FamiliesCase {
  readonly name: string
  readonly call: { readonly ranges: readonly string[] }
  readonly expect: { readonly families: readonly string[] }
}

export const nodePortRepair = load<{
  readonly repair: readonly RangeRepairCase[]
  readonly collectServiceNodePorts: readonly CollectPortsCase[]
}>('node-port-repair')

export const clusterIpRepair = load<{
  readonly repair: readonly RangeRepairCase[]
  readonly dualStack: readonly RangeRepairCase[]
  readonly shouldWorkOnSecondary: readonly FamiliesCase[]
}>('cluster-ip-repair')

function load<Tables>(name: string): RangeRepairTables<Tables> {
  return JSON.parse(readFileSync(new URL(`data/${name}.json`, import.meta.url), 'utf8'))
}
