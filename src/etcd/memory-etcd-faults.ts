import { type Clock, sleep } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { EtcdKv, KeyChange, WatchOptions } from './kv.ts'

/** One call on its way to the store, or a watch that is opened or is about to tell something. */
export interface EtcdCall {
  readonly method: Exclude<keyof EtcdKv, 'close'>
  /** The key or prefix that it is about; empty for leases. */
  readonly key: string
  /** What a watch is about to tell; undefined for everything else, and for "anything may have changed". */
  readonly changes?: readonly KeyChange[] | undefined
}

/** What happens on the way. Each is given the signal of the call, and answers with nothing where nothing holds it up. */
export interface EtcdFaults {
  /** Before a call reaches the store, or a watch is opened. What it rejects with is the answer: nothing has happened. */
  before?(call: EtcdCall, signal: AbortSignal): Promise<void> | undefined
  /**
   * Before an answer is heard. What it rejects with is the answer: it has happened, and nobody hears of it. Of a watch: before it
   * tells something; a rejection breaks it, and what happens until it stands again is told as "anything may have changed".
   */
  after?(call: EtcdCall, signal: AbortSignal): Promise<void> | undefined
}

export interface FaultyEtcdOptions extends EtcdFaults {
  readonly clock: Clock
  /** How long a watch that broke waits before it is opened again, in milliseconds. @default 1000 */
  readonly reopenMs?: number | undefined
  /** Whether the caller is no more: its watches then end, and nobody hears of that. @default never */
  readonly isGone?: (() => boolean) | undefined
}

/** A store whose calls can be held up, refused and lost on their way, as the test or the drill decides. */
export function faultyEtcd(
  inner: EtcdKv,
  options: FaultyEtcdOptions,
): EtcdKv & {
  /** Breaks every open watch with this error. */
  breakWatches(error: unknown): void
} {
  const breakers = new Set<(error: unknown) => void>()
  const pass = async <T>(call: EtcdCall, signal: AbortSignal, work: () => Promise<T>): Promise<T> => {
    const held = options.before?.(call, signal)
    if (held !== undefined) await held
    const answer = await work()
    const heldBack = options.after?.(call, signal)
    if (heldBack !== undefined) await heldBack
    return answer
  }
  return {
    get: (key, signal) => pass({ method: 'get', key }, signal, () => inner.get(key, signal)),
    list: (prefix, how) => pass({ method: 'list', key: prefix }, how.signal, () => inner.list(prefix, how)),
    create: (key, value, how) => pass({ method: 'create', key }, how.signal, () => inner.create(key, value, how)),
    update: (key, value, revision, how) =>
      pass({ method: 'update', key }, how.signal, () => inner.update(key, value, revision, how)),
    delete: (key, revision, signal) =>
      pass({ method: 'delete', key }, signal, () => inner.delete(key, revision, signal)),
    grantLease: (seconds, signal) =>
      pass({ method: 'grantLease', key: '' }, signal, () => inner.grantLease(seconds, signal)),
    timeToLive: (lease, signal) =>
      pass({ method: 'timeToLive', key: '' }, signal, () => inner.timeToLive(lease, signal)),
    async watch(prefix, how) {
      while (!how.signal.aborted) {
        try {
          await watchUntilBroken(inner, prefix, how, options, breakers)
          return
        } catch (error) {
          if (how.signal.aborted) return
          how.report(error)
          await sleep(options.clock, options.reopenMs ?? 1_000, how.signal).catch(() => {})
        }
      }
    },
    close: () => inner.close(),
    breakWatches(error) {
      for (const breakIt of [...breakers]) breakIt(error)
    },
  }
}

/** Rejects with what broke the watch; resolves when it was ended on purpose. */
async function watchUntilBroken(
  inner: EtcdKv,
  prefix: string,
  { onChange, report, signal }: WatchOptions,
  { before, after, isGone = () => false }: FaultyEtcdOptions,
  breakers: Set<(error: unknown) => void>,
): Promise<void> {
  const call: EtcdCall = { method: 'watch', key: prefix }
  await before?.(call, signal)
  const { controller, unlink } = linkedController(signal)
  const broken = Promise.withResolvers<never>()
  let last: Promise<void> | undefined
  const hold = (changes: readonly KeyChange[] | undefined): Promise<void> | undefined =>
    after?.({ ...call, changes }, controller.signal)
  // One after the other, however long each is held up.
  const inOrder = (changes: readonly KeyChange[] | undefined, tell: () => void): void => {
    if (isGone()) {
      controller.abort(signal.reason)
      return
    }
    const held = last === undefined ? hold(changes) : last.then(() => hold(changes))
    const tellUnlessEnded = (): void => {
      if (!controller.signal.aborted) tell()
    }
    // Most changes of most watches are held up by nothing.
    if (held === undefined) {
      tellUnlessEnded()
      return
    }
    const told = held.then(tellUnlessEnded).finally(() => {
      if (last === told) last = undefined
    })
    last = told
    told.catch(broken.reject)
  }
  breakers.add(broken.reject)
  try {
    const watching = inner.watch(prefix, {
      onChange: (changes: readonly KeyChange[] | undefined) => inOrder(changes, () => onChange(changes)),
      report,
      signal: controller.signal,
    })
    await Promise.race([watching, broken.promise])
    if (isGone()) await new Promise<never>(() => {})
  } finally {
    breakers.delete(broken.reject)
    controller.abort(signal.reason)
    unlink()
  }
}
