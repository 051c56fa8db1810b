import type { IpAddress } from '../../kube/resources.ts'
import type { Change } from '../../kube/store.ts'
import type { Clock } from '../../runtime/clock.ts'

/** An IPAddress that has been here for this long is old; how old makes no difference. */
const oldMs = 60_000

/**
 * How long IPAddresses have been here, by this process' own clock: what servers write as the time of creation is by theirs, and a clock that
 * is wrong must not cost a Service in the making its address. Remembers the young ones only.
 */
export class IpAddressAges {
  readonly #clock: Clock
  /** When each was seen first, by uid, in this order. */
  readonly #young = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes in every change of the IPAddresses. */
  apply(change: Change<IpAddress>): void {
    const before = change.type === 'added' ? undefined : change.old.metadata?.uid
    const after = change.type === 'deleted' ? undefined : change.object.metadata?.uid
    if (before === after) return
    if (before !== undefined) this.#young.delete(before)
    if (after !== undefined) this.#young.set(after, this.#clock.monotonicMs())
  }

  /** How long one of those that {@link apply} has told of has been here: infinite when that is long ago. */
  ageMs({ metadata }: IpAddress): number {
    const sinceMs = this.#young.get(metadata?.uid ?? '')
    return sinceMs === undefined ? Number.POSITIVE_INFINITY : this.#clock.monotonicMs() - sinceMs
  }

  /** Lets go of those that have become old. */
  tidy(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const [uid, sinceMs] of this.#young) {
      if (nowMs - sinceMs < oldMs) return
      this.#young.delete(uid)
    }
  }
}
