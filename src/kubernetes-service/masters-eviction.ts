import type { LeaseSighting } from './leases/inspect.ts'
import { ttlOf, type Verdict } from './leases/lease-watch.ts'

/** What is to be done about a request to evict an address. */
export type EvictionPlan =
  /** There is no lease of it. */
  | { readonly type: 'absent' }
  /** Nobody knows yet: whoever watches for that long does. */
  | { readonly type: 'watch'; readonly forMs: number }
  /** Nobody else would be left. */
  | { readonly type: 'refuse'; readonly because: 'last' }
  /** It lives. */
  | { readonly type: 'refuse'; readonly because: 'live'; readonly leases: readonly LeaseSighting[] }
  | { readonly type: 'evict'; readonly leases: readonly LeaseSighting[] }

/**
 * Decides whether the leases of `address` may be removed. Pure.
 *
 * Live ones only with `force`; of several leases of one address, as two hosts have them, without it those that are stale. An address is
 * never removed, not with `force` either, while no other one is listed or live: clients would have no API server.
 */
export function planEviction(options: {
  readonly address: string
  readonly sightings: readonly LeaseSighting[]
  readonly verdict: (sighting: LeaseSighting) => Verdict
  /** What Endpoints list; undefined when they could not be read. */
  readonly listed: readonly string[] | undefined
  readonly force: boolean
}): EvictionPlan {
  const { address, sightings, verdict, listed = [], force } = options
  const own = sightings.filter((sighting) => sighting.address === address)
  if (own.length === 0) return { type: 'absent' }
  const undecided = own.filter((sighting) => verdict(sighting) === 'unknown')
  if (!force && undecided.length > 0) return watch(undecided)
  const stale = own.filter((sighting) => verdict(sighting) === 'stale')
  if (!force && stale.length === 0) return { type: 'refuse', because: 'live', leases: own }

  const going = force ? own : stale
  const staying = sightings.filter((sighting) => !going.includes(sighting) && sighting.leased)
  const safe = listed.some((other) => other !== address) || staying.some((sighting) => verdict(sighting) === 'live')
  if (safe) return { type: 'evict', leases: going }
  const hopeful = staying.filter((sighting) => verdict(sighting) === 'unknown')
  return hopeful.length > 0 ? watch(hopeful) : { type: 'refuse', because: 'last' }
}

function watch(sightings: readonly LeaseSighting[]): EvictionPlan {
  return { type: 'watch', forMs: Math.max(...sightings.map(ttlOf)) }
}
