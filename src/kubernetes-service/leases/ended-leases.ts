import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type Lease, leases } from '../../kube/resources.ts'
import { type Backoff, exponentialBackoff } from '../../runtime/backoff.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { within } from '../../runtime/request-limit.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Holder } from './master-leases.ts'

/** How long a list of the leases waits for a deletion, in milliseconds. */
const DELETE_LIMIT_MS = 1_000
/** How many are deleted at once; the others at a later list. */
const MAX_AT_ONCE = 100
/** Between two attempts to delete the same Lease. */
const pauses = { firstMs: 2_000, maxMs: 60_000, jitter: 0.1 } as const

export interface EndedLeasesOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** A Lease from a list, with its holder. */
export interface HeldLease {
  readonly lease: Lease
  readonly holder: Holder
}

/** The attempts to delete one Lease. */
interface Tries {
  readonly backoff: Backoff
  dueMs: number
  failed: boolean
}

/**
 * Deletes Leases that this observer has found over, guarded by uid and resourceVersion, so that all masters agree,
 * including those that start later. One that cannot be deleted is over all the same: that is logged once, and retried
 * with back-off.
 */
export class EndedLeases {
  readonly #options: EndedLeasesOptions
  /** By the name of the Lease. */
  #tries = new Map<string, Tries>()

  constructor(options: EndedLeasesOptions) {
    this.#options = options
  }

  /** Takes all Leases that are over. Resolves, within a second, with those that were written since they were listed. */
  async collect(over: readonly HeldLease[], signal: AbortSignal): Promise<ReadonlySet<HeldLease>> {
    const names = new Set(over.map(({ lease }) => nameOf(lease)))
    this.#tries = new Map([...this.#tries].filter(([name]) => names.has(name)))
    const nowMs = this.#options.clock.monotonicMs()
    const due = over
      .filter(({ lease }) => nowMs >= (this.#tries.get(nameOf(lease))?.dueMs ?? nowMs))
      .slice(0, MAX_AT_ONCE)
    const isWritten = await Promise.all(due.map((held) => this.#isWritten(held, signal)))
    return new Set(due.filter((_, index) => isWritten[index]))
  }

  async #isWritten({ lease, holder }: HeldLease, signal: AbortSignal): Promise<boolean> {
    const { clock, random, logger } = this.#options
    const name = nameOf(lease)
    const known = this.#tries.get(name)
    const tries = known ?? { backoff: exponentialBackoff(pauses, random), dueMs: clock.monotonicMs(), failed: false }
    const error = await this.#delete(lease, signal)
    signal.throwIfAborted()
    if (isKubeError(error, 'Conflict')) return true
    const who = { address: holder.addresses[0], host: holder.host }
    if (known === undefined) logger.info(who, 'lease ended without renewal')
    this.#tries.set(name, tries)
    // A deleted one may remain for longer, because of a finalizer.
    tries.dueMs = clock.monotonicMs() + tries.backoff.next()
    if (error === undefined || isKubeError(error, 'NotFound')) return false
    if (!tries.failed) logger.warn({ ...who, error }, 'a lease that ended cannot be deleted: here it counts as gone')
    tries.failed = true
    return false
  }

  /** Returns the failure; undefined after success. */
  #delete(lease: Lease, signal: AbortSignal): Promise<unknown> {
    const { api, clock } = this.#options
    return within(clock, DELETE_LIMIT_MS, signal, (limited) =>
      deleteAsRead(api, lease, { urgent: true, signal: limited }),
    ).then(
      () => undefined,
      (error: unknown) => error,
    )
  }
}

/** Deletes a Lease unless it was written since it was read: then it rejects with a Conflict. */
export async function deleteAsRead(
  api: KubeApi,
  lease: Lease,
  options: { readonly urgent?: true; readonly signal: AbortSignal },
): Promise<void> {
  const { namespace, uid, resourceVersion } = lease.metadata ?? {}
  await api.delete(leases, { namespace, name: nameOf(lease) }, { uid, resourceVersion, ...options })
}

export function nameOf(lease: Lease): string {
  return lease.metadata?.name ?? ''
}
