import type { KubeApi } from '../../kube/api.ts'
import { ifFound, isKubeError } from '../../kube/errors.ts'
import type { InformerContext } from '../../kube/informer.ts'
import { type Lease, leases } from '../../kube/resources.ts'
import { type Backoff, exponentialBackoff } from '../../runtime/backoff.ts'
import { within } from '../../runtime/request-limit.ts'
import type { Holder } from './master-leases.ts'
import { trimLease } from './trimmed-lease.ts'

/** How long one deletion may delay the caller that listed the leases, in milliseconds. */
const DELETE_LIMIT_MS = 1_000
/** How many Leases are deleted after one list; the rest follow after later lists. */
const MAX_AT_ONCE = 100
/** The waits between two attempts to delete the same Lease. */
const pauses = { firstMs: 2_000, maxMs: 60_000, jitter: 0.1 } as const

export type EndedLeasesOptions = Pick<InformerContext, 'api' | 'clock' | 'random' | 'logger'>

export interface HeldLease {
  /** Trimmed: see {@link trimLease}. */
  readonly lease: Lease
  readonly holder: Holder
}

interface Attempts {
  readonly backoff: Backoff
  dueMs: number
  failed: boolean
}

/**
 * Deletes Leases that this master has found expired, so that all masters agree, including those that start later. Each
 * deletion is guarded by uid and resourceVersion. A Lease counts as expired even if it cannot be deleted: the failure
 * is logged once, and the deletion retried with back-off.
 */
export class EndedLeases {
  readonly #options: EndedLeasesOptions
  /** By the name of the Lease. */
  #attempts = new Map<string, Attempts>()

  constructor(options: EndedLeasesOptions) {
    this.#options = options
  }

  /**
   * Deletes expired Leases; `expired` must be all of them. Resolves within a second with the Leases that have not
   * expired after all: their masters renewed them after `expired` was read. Rejects only with the signal's reason.
   */
  async collect(expired: readonly HeldLease[], signal: AbortSignal): Promise<ReadonlySet<HeldLease>> {
    const names = new Set(expired.map(({ lease }) => nameOf(lease)))
    this.#attempts = new Map([...this.#attempts].filter(([name]) => names.has(name)))
    const nowMs = this.#options.clock.monotonicMs()
    const due = expired
      .filter(({ lease }) => nowMs >= (this.#attempts.get(nameOf(lease))?.dueMs ?? nowMs))
      .slice(0, MAX_AT_ONCE)
    const isRenewed = await Promise.all(due.map((held) => this.#isRenewed(held, signal)))
    return new Set(due.filter((_, index) => isRenewed[index]))
  }

  async #isRenewed({ lease, holder }: HeldLease, signal: AbortSignal): Promise<boolean> {
    const { api, clock, random, logger } = this.#options
    const name = nameOf(lease)
    const known = this.#attempts.get(name)
    const attempts = known ?? { backoff: exponentialBackoff(pauses, random), dueMs: clock.monotonicMs(), failed: false }
    let error: unknown
    let isRenewed = false
    try {
      await within(clock, DELETE_LIMIT_MS, signal, async (limited) => {
        const options = { urgent: true, signal: limited } as const
        try {
          await deleteAsRead(api, lease, options)
        } catch (failure) {
          if (!isKubeError(failure, 'Conflict')) throw failure
          // The master has probably renewed the Lease, and counts as alive if the read fails. But other clients may
          // write the Lease too, and an admission webhook may answer with a conflict.
          isRenewed = true
          const { namespace } = lease.metadata ?? {}
          const stored = await ifFound(api.get(leases, { namespace, name }, options))
          isRenewed = stored !== undefined && renewalOf(trimLease(stored)) !== renewalOf(lease)
          if (stored !== undefined) throw failure
        }
      })
    } catch (failure) {
      error = failure
    }
    signal.throwIfAborted()
    if (isRenewed) return true
    const who = { address: holder.addresses[0], host: holder.host }
    if (known === undefined) logger.info(who, 'lease expired without renewal')
    this.#attempts.set(name, attempts)
    // Even a deleted Lease may remain for some time, because of a finalizer.
    attempts.dueMs = clock.monotonicMs() + attempts.backoff.next()
    if (error === undefined || isKubeError(error, 'NotFound')) return false
    if (!attempts.failed) logger.warn({ ...who, error }, 'an expired lease cannot be deleted; this master ignores it')
    attempts.failed = true
    return false
  }
}

/** Deletes a Lease; rejects with a Conflict if it was written since it was read. */
export async function deleteAsRead(
  api: KubeApi,
  lease: Lease,
  options: { readonly urgent?: true; readonly signal: AbortSignal },
): Promise<void> {
  const { namespace, uid, resourceVersion } = lease.metadata ?? {}
  await api.delete(leases, { namespace, name: nameOf(lease) }, { uid, resourceVersion, ...options })
}

/** A text that changes with each renewal of a trimmed Lease, and with nothing else. */
export function renewalOf({ spec }: Lease): string {
  return `${spec?.holderIdentity} ${spec?.renewTime}`
}

export function nameOf(lease: Lease): string {
  return lease.metadata?.name ?? ''
}
