import { type Clock, sleep } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { EtcdKv, KeyChange, WatchOptions } from './kv.ts'

/** One call on its way to the store, or a watch that is opened or is about to deliver changes. */
export interface EtcdCall {
  readonly method: Exclude<keyof EtcdKv, 'close'>
  /** The key or prefix of the call; empty for `grantLease` and `timeToLive`. */
  readonly key: string
  /**
   * The changes that a watch is about to deliver. Undefined if the watch is about to report that anything may have
   * changed, when it is opened, and for all other calls.
   */
  readonly changes?: readonly KeyChange[] | undefined
}

/** `before` and `after` inject faults: each gets the signal of the call, and returns undefined for no delay. */
interface FaultyEtcdOptions {
  readonly clock: Clock
  /**
   * Whether the caller's process has ended. Its watches then deliver no more changes, and do not settle. @default never
   */
  readonly isGone?: (() => boolean) | undefined
  /**
   * Called before a call or a new watch reaches the store. If this rejects, the call rejects without an effect; a watch
   * is tried again after {@link REOPEN_MS}.
   */
  before?(call: EtcdCall, signal: AbortSignal): Promise<void> | undefined
  /**
   * Called before an answer arrives. If this rejects, so does the call: the store has done its work, but the result is
   * lost. For a watch, `after` is called before changes are delivered. If it then rejects, the watch breaks, and the
   * reopened watch calls `onChange` with undefined.
   */
  after?(call: EtcdCall, signal: AbortSignal): Promise<void> | undefined
}

/** How long a broken watch waits before it is reopened, in milliseconds. */
const REOPEN_MS = 1_000

/** A client of `inner` whose calls `options` can delay, refuse and lose. */
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
      let mistake: { readonly error: unknown } | undefined
      const recorded =
        <Given>(call: (given: Given) => void) =>
        (given: Given): void => {
          try {
            call(given)
          } catch (error) {
            mistake = { error }
            throw error
          }
        }
      const watcher = { ...how, onChange: recorded(how.onChange), report: recorded(how.report) }
      while (!how.signal.aborted) {
        try {
          await watchUntilBroken(inner, prefix, watcher, options, breakers)
          return
        } catch (error) {
          if (how.signal.aborted) return
          // An error that the caller's function threw is not a fault of the watch.
          if (mistake !== undefined) throw mistake.error
          how.report(error)
          await sleep(options.clock, REOPEN_MS, how.signal).catch(() => {})
        }
      }
    },
    close: () => inner.close(),
    breakWatches(error) {
      for (const breakIt of [...breakers]) breakIt(error)
    },
  }
}

/** Rejects with the error when the watch breaks. Resolves when `signal` is aborted or `inner` is closed. */
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
  // Changes are delivered one after the other, whatever their delays.
  const inOrder = (changes: readonly KeyChange[] | undefined, deliver: () => void): void => {
    if (isGone()) {
      controller.abort(signal.reason)
      return
    }
    const held = last === undefined ? hold(changes) : last.then(() => hold(changes))
    const deliverUnlessEnded = (): void => {
      if (!controller.signal.aborted) deliver()
    }
    // Most changes of most watches have no delay, and are delivered at once.
    if (held === undefined) {
      deliverUnlessEnded()
      return
    }
    const delivered = held.then(deliverUnlessEnded).finally(() => {
      if (last === delivered) last = undefined
    })
    last = delivered
    delivered.catch(broken.reject)
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
