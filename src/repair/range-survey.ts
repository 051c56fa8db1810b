import type { Service } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import { Bitmap } from '../net/bitmap.ts'
import type { Finding } from './finding.ts'
import type { RangeClaims } from './range-claims.ts'

/** What Services hold, all together. Arrays are by range. */
export interface RangeSurvey {
  readonly held: readonly Bitmap[]
  /** Held more than once. */
  readonly contested: readonly Bitmap[]
  /** What is held of no range. */
  readonly faults: readonly Finding[]
}

export function surveyServices(services: Iterable<Service>, claims: RangeClaims): RangeSurvey {
  const held = claims.ranges.map(({ size }) => new Bitmap(size))
  const contested = claims.ranges.map(({ size }) => new Bitmap(size))
  const faults: Finding[] = []
  const hold = (range: number, offset: number): void => {
    if (held[range]?.add(offset) === false) contested[range]?.add(offset)
  }
  const fault = (finding: Finding): void => {
    faults.push(finding)
  }
  for (const service of services) claims.visit(service, hold, fault)
  return { held, contested, faults }
}

/**
 * Who holds these numbers of each range: by number, the oldest Service first, and one of two of the same second by its name. So all masters
 * agree on who keeps a number that several hold. A Service that holds a number twice is there twice.
 */
export function claimantsOf(
  services: Iterable<Service>,
  claims: RangeClaims,
  wanted: readonly (Bitmap | undefined)[],
): readonly ReadonlyMap<number, readonly Service[]>[] {
  const found = wanted.map(() => new Map<number, Service[]>())
  if (wanted.every((numbers) => numbers === undefined || numbers.count === 0)) return found
  for (const service of services) {
    claims.visit(service, (range, offset) => {
      if (wanted[range]?.has(offset) !== true) return
      const known = found[range]?.get(offset)
      if (known === undefined) found[range]?.set(offset, [service])
      else known.push(service)
    })
  }
  for (const claimants of found) for (const several of claimants.values()) several.sort(oldestFirst)
  return found
}

function oldestFirst(a: Service, b: Service): number {
  return compare(createdAt(a), createdAt(b)) || compare(keyOfObject(a), keyOfObject(b))
}

function createdAt({ metadata }: Service): string {
  return metadata?.creationTimestamp ?? ''
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
