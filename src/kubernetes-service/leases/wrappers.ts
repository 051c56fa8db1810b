import type { InformerContext } from '../../kube/informer.ts'
import { exponentialBackoff } from '../../runtime/backoff.ts'
import { sleep } from '../../runtime/clock.ts'
import { messageOf, RemoteError } from '../../runtime/errors.ts'
import type { RequestLimit } from '../../runtime/request-limit.ts'
import { abortable } from '../../runtime/signals.ts'
import type { Logger } from '../../telemetry/logger.ts'
import { withoutSecrets } from '../../telemetry/secrets.ts'
import { isListable } from '../identity.ts'
import { isHeldBy } from '../members.ts'
import {
  addressOf,
  decodeHolder,
  type Holder,
  LeaseWithdrawn,
  type MasterLease,
  type MasterLeases,
} from './master-leases.ts'

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
 * Entries that cannot be used are left out of the list (see {@link UsableEntries}).
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
  const usable = new UsableEntries(store, options.logger)
  return {
    list: (signal) => attempt('list', signal, async (limited) => usable.of(await store.list(limited))),
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

/**
 * Checks what an embedding program's store lists, because the types of its entries may promise more than the parsed
 * records hold. Each unusable entry is logged once, for as long as it exists.
 */
class UsableEntries {
  /** The class of the store, as the log names it. */
  readonly #store: string
  readonly #logger: Logger
  #unusable: ReadonlySet<string> = new Set()

  constructor(store: MasterLeases, logger: Logger) {
    this.#store = store.constructor?.name ?? ''
    this.#logger = logger
  }

  /** The usable leases in `listed`. Throws a TypeError if that is no array. */
  of(listed: unknown): readonly MasterLease[] {
    if (!Array.isArray(listed)) throw new TypeError('the store did not return an array')
    const unusable = new Set<string>()
    const usable = listed.flatMap((entry: unknown) => {
      const { lease, reason } = readEntry(entry)
      if (lease !== undefined) return [lease]
      const who = namesIn(entry)
      const key = `${who.address} ${who.host}`
      if (!this.#unusable.has(key) && !unusable.has(key)) {
        this.#logger.warn({ store: this.#store, ...who, reason }, 'an entry in the lease store cannot be used')
      }
      unusable.add(key)
      return []
    })
    this.#unusable = unusable
    return usable
  }
}

/** Any field may have any value, or be missing. */
type Unchecked<T> = { readonly [Field in keyof T]?: unknown } | null | undefined

/**
 * The lease in an entry, with its holder as {@link decodeHolder} reads it, so that a custom store has the same rules
 * for records of other versions; or the reason why there is none, which ends a sentence that begins with the entry. An
 * unreadable record spoils the whole entry: without its holder the lease would count as that of a kube-apiserver.
 */
function readEntry(entry: unknown): { readonly lease?: MasterLease; readonly reason?: string } {
  const { address, holder } = (entry as Unchecked<MasterLease>) ?? {}
  if (typeof address !== 'string' || !isListable(address)) return { reason: 'has no address that can be listed' }
  if (holder === undefined) return { lease: entry as MasterLease }
  const read = decodeHolder(textOf(holder))
  return read === undefined
    ? { reason: 'has no valid holder record' }
    : { lease: { ...(entry as MasterLease), holder: read } }
}

/**
 * The text of a holder, whose decoding is cached. Nothing is remembered by the identity of the object, because a store
 * may change its objects. Undefined for a value without a text.
 */
function textOf(holder: unknown): string | undefined {
  try {
    return JSON.stringify(holder)
  } catch {
    return undefined
  }
}

/** The address and the host in an unusable entry, as far as it has any, for the log. */
function namesIn(entry: unknown): { readonly address: string | undefined; readonly host: string | undefined } {
  const { address, holder } = (entry as Unchecked<MasterLease>) ?? {}
  const { host } = (holder as Unchecked<Holder>) ?? {}
  return { address: shortText(address), host: shortText(host) }
}

function shortText(value: unknown): string | undefined {
  return typeof value === 'string' ? withoutSecrets(value).slice(0, 80) : undefined
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
