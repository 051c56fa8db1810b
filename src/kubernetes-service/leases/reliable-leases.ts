import { exponentialBackoff } from '../../runtime/backoff.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { messageOf } from '../../runtime/message-of.ts'
import type { Random } from '../../runtime/random.ts'
import { RemoteError } from '../../runtime/remote-error.ts'
import type { RequestLimit } from '../../runtime/request-limit.ts'
import { abortable } from '../../runtime/signals.ts'
import type { Logger } from '../../telemetry/logger.ts'
import { type Holder, LeaseNotFound, LeaseWithdrawn, type MasterLease, type MasterLeases } from './master-leases.ts'

/** Between two tries to watch, in milliseconds. */
const pauses = { firstMs: 500, maxMs: 10_000, jitter: 0.1 } as const

/** A lease store failed with something that its contract does not name: it counts as away. */
export class LeaseStoreError extends RemoteError {
  override readonly name = 'LeaseStoreError'
  readonly code = 'LeaseStoreFailed'
  readonly nature = 'away'
  constructor(what: string, cause: unknown) {
    super(`lease store: ${what}: ${messageOf(cause)}`, { cause })
  }
}

/**
 * A store of somebody else as the program can rely on it: whatever it throws is a {@link RemoteError}, one of the errors of the contract or the
 * signal's reason, and comes at once when the signal is aborted, also from a store that does not heed it. A watch that ends or fails is begun
 * again, with a look each time.
 */
export function reliableLeases(
  store: MasterLeases,
  options: {
    readonly clock: Clock
    readonly random: Random
    readonly logger: Logger
    /** Gives up calls that take too long. */
    readonly limit: RequestLimit
  },
): MasterLeases {
  const attempt = async <T>(
    what: string,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    signal.throwIfAborted()
    try {
      return await options.limit.run(signal, work)
    } catch (error) {
      signal.throwIfAborted()
      throw asPromised(what, error)
    }
  }
  return {
    list: (signal): Promise<readonly MasterLease[]> => attempt('list', signal, (limited) => store.list(limited)),
    update: (holder: Holder, signal) => attempt('update', signal, (limited) => store.update(holder, limited)),
    mark: (holder: Holder, signal) => attempt('mark', signal, (limited) => store.mark(holder, limited)),
    remove: (holder: Holder, signal) => attempt('remove', signal, (limited) => store.remove(holder, limited)),
    async watch(look, signal) {
      const { clock, random, logger } = options
      const backoff = exponentialBackoff(pauses, random)
      while (!signal.aborted) {
        const startedMs = clock.monotonicMs()
        let error: unknown = new Error('it ended')
        try {
          // A store that does not heed the signal is left alone with its watch.
          await abortable(store.watch(look, signal), signal)
        } catch (failure) {
          error = failure
        }
        if (signal.aborted) return
        if (clock.monotonicMs() - startedMs > pauses.maxMs) backoff.reset()
        logger.debug({ error: asPromised('watch', error) }, 'the watch of the leases has ended and is begun again')
        await sleep(clock, backoff.next(), signal).catch(() => {})
        if (!signal.aborted) look()
      }
    },
  }
}

/** What the contract allows a call to reject with. */
function asPromised(what: string, error: unknown): unknown {
  const isOfTheContract =
    error instanceof RemoteError || error instanceof LeaseNotFound || error instanceof LeaseWithdrawn
  return isOfTheContract ? error : new LeaseStoreError(what, error)
}
