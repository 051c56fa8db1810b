import type { KubeObject } from '../kube/json.ts'
import type { Service } from '../kube/resources.ts'
import type { Finding } from './finding.ts'
import type { RangeName } from './registries/range-registry.ts'
import type { RepairKind } from './repair-metrics.ts'

/** A range that a repair keeps the bitmap of. */
export interface KeptRange {
  readonly name: RangeName
  /** As it is stored beside the bitmap: `10.96.0.0/12`, `30000-32767`. */
  readonly text: string
  /** How many items can be given out. */
  readonly size: number
  /** The item with a number below `size`, as text. */
  textAt(offset: number): string
  /** The number of an item, given as {@link textAt} of any range gives it; undefined when it is not in this range. */
  offsetOf(item: string): number | undefined
  /** The flag with which the server's range would be `text`: `--service-node-port-range=30000-31000`. */
  flagFor(text: string): string
}

/** What Services hold of the ranges of one repair. Numbers are those of {@link KeptRange}; `range` is the place in `ranges`. */
export interface RangeClaims {
  readonly kind: RepairKind
  readonly ranges: readonly KeptRange[]
  /** The range that a stored text names; undefined when it names none, or one that no server keeps a bitmap of. */
  parse(text: string): Pick<KeptRange, 'size' | 'textAt'> | undefined
  /** Calls `hold` with each number that a Service holds, as often as it holds it, and `fault` with what it holds of no range. */
  visit(service: Service, hold: (range: number, offset: number) => void, fault?: (finding: Finding) => void): void
  /** A Service holds a number that is not taken. `repairing`: it is being taken. */
  notAllocated(service: Service, range: number, offset: number, repairing: boolean): Finding
  /** A Service holds a number that another one had before, or holds it twice. */
  duplicate(service: Service, range: number, offset: number): Finding
  /** A number has been taken for long, and no Service holds it. */
  leaked(range: number, offset: number, repairing: boolean): Finding
}

/** What a finding says of the Service that it is about: who it is. Items of a list come without their kind. */
export function regardingService({ metadata }: Service): KubeObject {
  return { apiVersion: 'v1', kind: 'Service', metadata }
}
