import type { InformerContext } from '../../kube/informer.ts'
import { exponentialBackoff } from '../../runtime/backoff.ts'
import { sleep } from '../../runtime/clock.ts'
import { messageOf, RemoteError } from '../../runtime/errors.ts'
import type { RequestLimit } from '../../runtime/request-limit.ts'
import { abortable } from '../../runtime/signals.ts'
import type { Logger } from '../../telemetry/logger.ts'
import { isHeldBy } from '../members.ts'
import { addressOf, type Holder, LeaseWithdrawn, type MasterLease, type MasterLeases } from './master-leases.ts'

const pauses = { firstMs: 500, maxMs: 10_000, jitter: 0.1 } as const

/** A lease store failed with an error outside its contract, which counts as `away`. */
export class LeaseStoreError extends RemoteError {
  override readonly name = 'LeaseStoreError'
  readonly code = 'LeaseStoreFailed'
  readonly nature = 'away'
  constructor(what: string, cause: unknown) {
    super(`lease store: ${what}: ${messageOf(cause)}`, { cause })
  }
}

/**
 * Wraps an embedding program's store, so that masters can rely on it. Each rejection is a {@link RemoteError}, a
 * {@link LeaseWithdrawn} or the signal's reason. A call rejects at once when its signal is aborted, even if the store
 * ignores the signal. A watch that ends or fails is opened again after a pause, and `onChange` is called each time.
 */
export function reliableLeases(
  store: MasterLeases,
  options: Pick<InformerContext, 'clock' | 'random' | 'logger'> & { readonly limit: RequestLimit },
): MasterLeases {
  const attempt = async <T>(
    what: 'list' | 'update' | 'mark' | 'remove',
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    signal.throwIfAborted()
    try {
      return await options.limit.run(what === 'list' ? 'read' : 'write', signal, work)
    } catch (error) {
      signal.throwIfAborted()
      throw asPromised(what, error)
    }
  }
  return {
    list: (signal) => attempt('list', signal, (limited) => store.list(limited)),
    update: (holder, signal) => attempt('update', signal, (limited) => store.update(holder, limited)),
    mark: (holder, signal) => attempt('mark', signal, (limited) => store.mark(holder, limited)),
    remove: (holder, signal) => attempt('remove', signal, (limited) => store.remove(holder, limited)),
    async watch(onChange, signal) {
      const { clock, random, logger } = options
      const backoff = exponentialBackoff(pauses, random)
      while (!signal.aborted) {
        const startedMs = clock.monotonicMs()
        let error: unknown = new Error('the watch ended')
        try {
          // If a store ignores the signal, we do not wait for its watch.
          await abortable(store.watch(onChange, signal), signal)
        } catch (failure) {
          error = failure
        }
        if (signal.aborted) return
        if (clock.monotonicMs() - startedMs > pauses.maxMs) backoff.reset()
        logger.debug({ error: asPromised('watch', error) }, 'the watch of the leases ended; restarting it')
        await sleep(clock, backoff.next(), signal).catch(() => {})
        if (!signal.aborted) onChange()
      }
    },
  }
}

/** The error itself if the contract allows it, else a LeaseStoreError. */
function asPromised(what: string, error: unknown): unknown {
  const isOfTheContract = error instanceof RemoteError || error instanceof LeaseWithdrawn
  return isOfTheContract ? error : new LeaseStoreError(what, error)
}

/**
 * The leases of a dry run: those of other masters, and this master's own, which is not written. The other masters never
 * see this master's record, so they confirm none of its departures. This wrapper simulates the confirmations; otherwise
 * this master would wait for them in vain.
 */
export function dryRunLeases(inner: MasterLeases, logger: Logger): MasterLeases {
  let own: (MasterLease & { readonly holder: Holder }) | undefined
  return {
    async list(signal) {
      const live = await inner.list(signal)
      if (own === undefined) return live
      const { holder } = own
      const isStopped = holder.state === 'leaving' || holder.state === 'unready'
      const others = live.filter((lease) => !isHeldBy(lease, holder))
      return [...(isStopped ? others.map((lease) => confirming(lease, holder.departure)) : others), own]
    },
    async update(holder) {
      logger.info({ address: addressOf(holder), host: holder.host }, 'dry run: would create and renew a lease')
      own = { address: addressOf(holder), holder }
    },
    async mark(holder) {
      if (own !== undefined) own = { ...own, holder }
    },
    async remove() {
      own = undefined
    },
    watch: (onChange, signal) => inner.watch(onChange, signal),
  }
}

function confirming(lease: MasterLease, departure: string | undefined): MasterLease {
  const { holder } = lease
  if (holder?.state !== 'ready' || departure === undefined) return lease
  return { ...lease, holder: { ...holder, confirms: [...(holder.confirms ?? []), departure] } }
}
