import type { Cancel, Clock } from '../runtime/clock.ts'
import { linkedController } from '../runtime/signals.ts'
import type { KubeError } from './errors.ts'
import type { ObjectMap } from './object-map.ts'
import type { KubeObject } from './resources.ts'
import { smallerPage } from './transport.ts'

/**
 * The state of a reflector. Each phase has its own requests, but a streaming list and the watch after it share one.
 * `objects`: the objects received so far.
 */
export type ReflectorState<T extends KubeObject> =
  /** `breaks`: how many streaming lists in a row broke before. */
  | { readonly phase: 'streaming'; readonly objects: ObjectMap<T>; readonly breaks?: number }
  /** Lists page by page, or all objects in one request if `limit` is undefined. */
  | {
      readonly phase: 'paging'
      readonly objects: ObjectMap<T>
      /** The resourceVersion of the first page: later pages may show a newer state. Undefined before that page. */
      readonly resourceVersion?: string
      readonly continue: string | undefined
      readonly limit: number | undefined
    }
  /**
   * Knows the state at `resourceVersion` and follows changes from there. `silences`: how many watches from that version
   * ended because no event came. `failures`: how many watches in a row failed with a ServerError or Timeout before they
   * worked. `shared`: several changes had that resourceVersion, and more may follow.
   */
  | {
      readonly phase: 'watching'
      readonly resourceVersion: string
      readonly silences: number
      readonly failures?: number | undefined
      readonly shared?: boolean | undefined
    }

/**
 * How a request ended. `proven`: the end is no sign of an outage, because the server has served the watch, or may be
 * slow and gets more time for the page.
 */
export type Ending =
  /**
   * The server closed the watch normally. `brief`: it did so within a second, and the watch had delivered nothing new.
   */
  | { readonly kind: 'closed'; readonly proven: boolean; readonly brief?: boolean }
  /** Nothing arrived for too long. */
  | { readonly kind: 'silent'; readonly proven: boolean }
  /** The request failed. `watchError`: because of an ERROR event inside the watch. */
  | { readonly kind: 'failed'; readonly proven: boolean; readonly error: KubeError; readonly watchError: boolean }

export interface RetryPlan<T extends KubeObject> {
  readonly next: ReflectorState<T>
  /** `short`: after an outage, whose end should be noticed within a second. `long`: after a refusal. */
  readonly wait: 'none' | 'short' | 'long'
  /** The server does not support streaming lists: do not request them again. */
  readonly noStreaming?: true
}

interface RetryContext<T extends KubeObject> {
  /** Makes the map for the objects of a new list. */
  readonly empty: () => ObjectMap<T>
  readonly streaming: boolean
  /** Whether the last list ended less than a second ago, so that the next one must wait. */
  readonly justListed: boolean
}

const PAGE_SIZE = 500

/**
 * After this many watches in a row that the server or a proxy answered with an error, or did not answer, we list again:
 * perhaps only streams are broken, while the copy becomes older and older.
 */
const MOST_FAILURES = 60

/** After this many silent watches (half an hour) from one resourceVersion we list again. */
const MOST_SILENCES = 20

/** After this many broken streaming lists in a row we list in pages, because a proxy may block only the streams. */
const MOST_BREAKS = 3

/** The state in which to request everything again. */
export function startState<T extends KubeObject>(streaming: boolean, empty: () => ObjectMap<T>): ReflectorState<T> {
  return streaming
    ? { phase: 'streaming', objects: empty() }
    : { phase: 'paging', objects: empty(), continue: undefined, limit: PAGE_SIZE }
}

/** The resourceVersion from which a watch would go on; undefined before the end of the first list. */
export function versionOf<T extends KubeObject>(state: ReflectorState<T>): string | undefined {
  return state.phase === 'watching' ? state.resourceVersion : undefined
}

/** Decides how to continue after a watch has ended or a page has failed. Pure. */
export function planRetry<T extends KubeObject>(
  state: ReflectorState<T>,
  ending: Ending,
  context: RetryContext<T>,
): RetryPlan<T> {
  switch (state.phase) {
    case 'streaming':
      return planStreaming(state, ending, context)
    case 'paging':
      if (ending.kind === 'failed') return planPaging(state, ending.error, context)
      // A list in one request that takes longer than the server allows is begun again, as a stream or in pages.
      return { next: state.limit === undefined ? startState(context.streaming, context.empty) : state, wait: 'short' }
    case 'watching': {
      const plan: RetryPlan<T> = planWatching<T>(state, ending, context)
      // Deleting a prefix from etcd changes many objects at one revision. A watch from that revision misses the changes
      // that were not received yet, and so does a list until the server has processed them. So we wait and list.
      if (state.shared !== true || plan.next.phase !== 'watching') return plan
      return { next: startState(context.streaming, context.empty), wait: 'short' }
    }
  }
}

function planStreaming<T extends KubeObject>(
  { breaks = 0 }: Extract<ReflectorState<T>, { readonly phase: 'streaming' }>,
  ending: Ending,
  { empty }: RetryContext<T>,
): RetryPlan<T> {
  const list = startState(false, empty)
  // A server that does not know the parameter `sendInitialEvents` ignores it, and never marks the end of the initial
  // events.
  if (ending.kind === 'silent') return { next: list, wait: 'none', noStreaming: true }
  if (ending.kind === 'closed') return { next: list, wait: 'short' }
  const { error } = ending
  if (refusesParameter(error)) return { next: list, wait: 'none', noStreaming: true }
  switch (error.code) {
    case 'BadRequest':
    case 'Invalid':
    case 'Refused':
      return { next: list, wait: 'none', noStreaming: true }
    case 'Forbidden':
    case 'NotFound':
      return { next: startState(true, empty), wait: 'long' }
    case 'Unreachable':
    case 'Timeout': {
      const broken = breaks + 1
      const again: ReflectorState<T> = { phase: 'streaming', objects: empty(), breaks: broken }
      return { next: broken < MOST_BREAKS ? again : list, wait: 'short' }
    }
    case 'TooManyRequests':
    case 'Unauthorized':
    case 'NoCredentials':
      return { next: startState(true, empty), wait: 'short' }
    default:
      // A server that fails on a streaming list may still answer pages.
      return { next: list, wait: 'short' }
  }
}

function planPaging<T extends KubeObject>(
  state: Extract<ReflectorState<T>, { readonly phase: 'paging' }>,
  error: KubeError,
  context: RetryContext<T>,
): RetryPlan<T> {
  const { empty } = context
  // A list in one request cannot expire between pages. So it succeeds where paging takes longer than the server retains
  // its history, unless the answer is too large.
  const whole: ReflectorState<T> = { phase: 'paging', objects: empty(), continue: undefined, limit: undefined }
  switch (error.code) {
    case 'Expired':
      return { next: whole, wait: 'short' }
    case 'BadRequest':
    case 'Invalid':
    case 'Refused':
      return { next: whole, wait: 'long' }
    case 'Forbidden':
    case 'NotFound':
      return { next: startState(false, empty), wait: 'long' }
    case 'TooLarge': {
      if (state.limit === undefined) return { next: startState(false, empty), wait: 'long' }
      const limit = smallerPage(state.limit)
      // A continue token names the last key, so a smaller page continues where the larger one would have.
      return limit === undefined ? { next: state, wait: 'short' } : { next: { ...state, limit }, wait: 'none' }
    }
    case 'Unreachable':
    case 'Timeout': {
      // Earlier streaming lists may have broken only because of an outage, so they are tried again.
      const streams = context.streaming && state.continue === undefined
      return { next: streams ? startState(true, empty) : state, wait: 'short' }
    }
    default:
      return { next: state, wait: 'short' }
  }
}

function planWatching<T extends KubeObject>(
  state: Extract<ReflectorState<T>, { readonly phase: 'watching' }>,
  ending: Ending,
  context: RetryContext<T>,
): RetryPlan<T> {
  const start = startState(context.streaming, context.empty)
  if (ending.kind === 'silent') {
    const silences = state.silences + 1
    // A server whose store was restored from a backup sends nothing until it has reached this resourceVersion again.
    return { next: silences < MOST_SILENCES ? { ...state, silences } : start, wait: 'none' }
  }
  if (ending.kind === 'closed') return { next: state, wait: ending.proven && ending.brief !== true ? 'none' : 'short' }
  const { code } = ending.error
  // A restarted server has no history, so the watch expires. The recovery must be quick, so we list at once.
  if (code === 'Expired') return { next: start, wait: context.justListed ? 'short' : 'none' }
  if (ending.watchError && code !== 'TooManyRequests') return { next: start, wait: 'short' }
  switch (code) {
    case 'BadResponse':
    case 'TooLarge':
      // The unreadable event may have been a change.
      return { next: start, wait: 'short' }
    case 'NotFound':
    case 'BadRequest':
    case 'Invalid':
    case 'Refused':
      return { next: start, wait: 'long' }
    case 'Forbidden':
      return { next: state, wait: 'long' }
    case 'Timeout':
    case 'ServerError': {
      const failures = ending.proven ? 0 : (state.failures ?? 0) + 1
      return { next: failures < MOST_FAILURES ? { ...state, failures } : start, wait: 'short' }
    }
    default:
      return { next: state, wait: 'short' }
  }
}

/** Whether the server refuses the parameter `sendInitialEvents`, and not the resource. */
function refusesParameter(error: KubeError): boolean {
  const parameter = 'sendInitialEvents'
  return error.message.includes(parameter) || error.status?.details?.causes?.some((c) => c.field === parameter) === true
}

/** A watch that stayed open for this many milliseconds without an event has proven that the server serves it. */
export const PROVEN_AFTER_MS = 1_000

/** How long a request may be silent, and how long it may take in all (without limit if undefined), in milliseconds. */
export interface Patience {
  readonly quietMs: number
  readonly totalMs?: () => number
}

/**
 * Guards one request: ends it when its patience is over, and records when the server has shown that it serves the
 * watch. Holds at most two timers and one listener, and none after {@link end}.
 */
export class WatchGuard {
  readonly #clock: Clock
  readonly #link: ReturnType<typeof linkedController>
  readonly #onProven: () => void
  readonly #startedMs: number
  #patience: Patience
  #patienceMs: number
  #lastReceivedMs: number
  #cancelQuiet: Cancel
  #cancelProof: Cancel = () => {}
  #opened = false
  #proven = false
  #ranOut = false

  constructor(options: {
    readonly clock: Clock
    readonly signal: AbortSignal
    readonly patience: Patience
    readonly onProven: () => void
  }) {
    this.#clock = options.clock
    this.#link = linkedController(options.signal)
    this.#onProven = options.onProven
    this.#patience = options.patience
    this.#startedMs = options.clock.monotonicMs()
    this.#lastReceivedMs = this.#startedMs
    this.#patienceMs = this.#startedMs
    this.#cancelQuiet = this.#arm(options.patience.quietMs)
  }

  /** Aborted when the caller aborts the request, or when the patience is over. */
  get signal(): AbortSignal {
    return this.#link.controller.signal
  }

  /** When something arrived last, in monotonic time; at first, when the request began. */
  get lastReceivedMs(): number {
    return this.#lastReceivedMs
  }

  get proven(): boolean {
    return this.#proven
  }

  /** Whether this guard ended the request. */
  get ranOut(): boolean {
    return this.#ranOut
  }

  get ageMs(): number {
    return this.#clock.monotonicMs() - this.#startedMs
  }

  /** Records that the server has accepted the watch. Returns false if that was known. */
  open(): boolean {
    if (this.#opened) return false
    this.#opened = true
    this.received()
    this.#cancelProof = this.#clock.schedule(PROVEN_AFTER_MS, () => this.prove())
    return true
  }

  received(): void {
    this.#lastReceivedMs = this.#clock.monotonicMs()
  }

  prove(): void {
    this.#cancelProof()
    if (this.#proven) return
    this.#proven = true
    this.#onProven()
  }

  /** Replaces the patience. The new times begin now. */
  allow(patience: Patience): void {
    this.received()
    this.#patience = patience
    this.#patienceMs = this.#lastReceivedMs
    this.#cancelQuiet()
    this.#cancelQuiet = this.#arm(patience.quietMs)
  }

  end(): void {
    this.#cancelQuiet()
    this.#cancelProof()
    this.#link.unlink()
  }

  /** Starts one timer that checks the last receipt when it fires, which is cheaper than a timer for every event. */
  #arm(delayMs: number): Cancel {
    return this.#clock.schedule(delayMs, () => {
      const { quietMs, totalMs = () => Number.POSITIVE_INFINITY } = this.#patience
      const endMs = Math.min(this.#lastReceivedMs + quietMs, this.#patienceMs + totalMs())
      const leftMs = endMs - this.#clock.monotonicMs()
      if (leftMs > 0) {
        this.#cancelQuiet = this.#arm(leftMs)
      } else {
        this.#ranOut = true
        this.#link.controller.abort()
      }
    })
  }
}

/**
 * How long one page may take, in milliseconds. The first page gets as much time as other requests, because the
 * connection may be dead. Each timeout doubles the time, up to the server's own limit for lists, because the server may
 * be slow. Quick pages shorten the time again.
 */
export const pagePatience = { firstMs: 10_000, mostMs: 60_000 }

/** How long the next page may take, in milliseconds, after a page that was allowed `patienceMs`. */
export function nextPatienceMs(patienceMs: number, { ranOut, ageMs }: WatchGuard): number {
  if (ranOut) return Math.min(2 * patienceMs, pagePatience.mostMs)
  return Math.max(pagePatience.firstMs, Math.min(patienceMs, 2 * ageMs))
}
