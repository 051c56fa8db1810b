import { LeaseObserver } from '../../kube/lease-observer.ts'
import type { LeaseSighting } from './inspect.ts'

/** Whether somebody keeps a lease alive, as far as one has watched. */
export type Verdict = 'live' | 'stale' | 'unknown'

/**
 * Tells leases that are kept alive from those that nobody renews, over any number of reads.
 *
 * What the store ends itself is live, what nothing ends is stale; of the rest one is live that was renewed under our eyes, and stale
 * that was not for its whole TTL, see {@link LeaseObserver}. Pure but for its own memory.
 */
export class LeaseWatch {
  readonly #observer: LeaseObserver
  #first = new Map<string, string>()

  /** `maxGapMs`: as for {@link LeaseObserver}. */
  constructor(options: { readonly maxGapMs: number }) {
    this.#observer = new LeaseObserver(options)
  }

  /** Takes in a complete read. */
  read(sightings: readonly LeaseSighting[], nowMs: number): void {
    this.#observer.readAll(
      sightings.map((sighting) => ({ key: sighting.id, renewal: sighting.revision, ttlMs: ttlOf(sighting) })),
      nowMs,
    )
    this.#first = new Map(sightings.map(({ id, revision }) => [id, this.#first.get(id) ?? revision]))
  }

  /** A read failed: the time until the next one does not count. */
  interrupted(): void {
    this.#observer.interrupted()
  }

  /** Meaningful right after the read that showed this sighting. */
  verdict(sighting: LeaseSighting): Verdict {
    switch (sighting.life.type) {
      case 'ends':
        return 'live'
      case 'never':
        return 'stale'
      case 'renewed':
        if (this.#observer.isOver(sighting.id)) return 'stale'
        return this.#first.get(sighting.id) === sighting.revision ? 'unknown' : 'live'
    }
  }
}

/** For how long a lease must be watched to know. */
export function ttlOf({ life }: LeaseSighting): number {
  switch (life.type) {
    case 'ends':
      return life.leftMs
    case 'never':
      return 0
    case 'renewed':
      return life.ttlMs
  }
}
