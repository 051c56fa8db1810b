import { keepsLease } from './etcd-snapshot.ts'
import type { MasterLease } from './master-leases.ts'

type Phase =
  | { readonly type: 'none' }
  /** The store refuses this master's writes, or does not answer them. */
  | { readonly type: 'refused' }
  /** It takes them again; the others may not have noticed yet. */
  | { readonly type: 'recovering'; readonly untilMs: number }

/**
 * Tells leases that ended because their masters died from those that ended because nobody could renew.
 *
 * etcd ends leases by itself, also while it takes no writes (its disk is full, its users have lost their rights): then all leases
 * end although everybody lives, and the first master that can write again would find itself alone. So, while the store does not
 * take this master's own writes, and for a grace time after it does again, a lease that ended is not forgotten but doubtful.
 * One whose holder had said that it leaves is: it went on purpose. Pure but for its own memory.
 */
export class LeaseDoubt {
  readonly #graceMs: number
  #phase: Phase = { type: 'none' }
  #last: readonly MasterLease[] = []

  /** `graceMs`: how long the others may take to renew once they can, in milliseconds. */
  constructor(options: { readonly graceMs: number }) {
    this.#graceMs = options.graceMs
  }

  /** The store did not take a write. */
  refused(): void {
    this.#phase = { type: 'refused' }
  }

  /** The store took a write. */
  taken(nowMs: number): void {
    if (this.#phase.type === 'refused') this.#phase = { type: 'recovering', untilMs: nowMs + this.#graceMs }
  }

  /** Whether a lease that ends now is doubtful. */
  isDoubtful(nowMs: number): boolean {
    if (this.#phase.type === 'recovering' && nowMs >= this.#phase.untilMs) this.#phase = { type: 'none' }
    return this.#phase.type !== 'none'
  }

  /** When doubts end if the store goes on taking writes; undefined when there are none, or no end is in sight. */
  get endMs(): number | undefined {
    return this.#phase.type === 'recovering' ? this.#phase.untilMs : undefined
  }

  /** This master said that it leaves; if its lease ends, that was on purpose. */
  leaves(address: string, host: string): void {
    this.#last = this.#last.filter((lease) => lease.address !== address || lease.holder?.host !== host)
  }

  /**
   * Which leases of the last read have ended: nobody's lease is left at their address. A record of another master there that is
   * unready, and has none, tells nothing of them.
   */
  endedIn(live: readonly MasterLease[]): readonly MasterLease[] {
    const leased = new Set(
      live.filter(({ holder }) => holder === undefined || keepsLease(holder.state)).map(({ address }) => address),
    )
    const isLive = ({ address, holder }: MasterLease): boolean =>
      live.some((lease) => lease.address === address && lease.holder?.host === holder?.host)
    return this.#last.filter(
      (lease) =>
        !leased.has(lease.address) &&
        !isLive(lease) &&
        lease.holder?.state !== 'leaving' &&
        lease.holder?.state !== 'withdrawn',
    )
  }

  /** Takes in a read of the live leases; adds those that ended and may not have. */
  read(live: readonly MasterLease[], nowMs: number): readonly MasterLease[] {
    const doubtful = this.isDoubtful(nowMs) ? this.endedIn(live).map((lease) => ({ ...lease, doubtful: true })) : []
    this.#last = [...live, ...doubtful]
    return this.#last
  }
}
