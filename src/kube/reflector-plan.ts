import { smallerPage } from './answer-limits.ts'
import type { KubeError } from './errors.ts'

/** Where a reflector stands. Each state is one request, or (streaming, then watching) one stretch of a request. */
export type ReflectorState<T> =
  /** Is being sent the present state as events, by key. */
  | { readonly phase: 'streaming'; readonly objects: Map<string, T> }
  /** Is listing page by page; `limit` is undefined when the whole is asked for at once. */
  | {
      readonly phase: 'paging'
      readonly items: readonly T[]
      readonly continue: string | undefined
      readonly limit: number | undefined
    }
  /**
   * Knows the state at `resourceVersion` and follows from there. `silences`: how many watches from there told nothing. `shared`: several changes
   * had that resourceVersion, and there may be more.
   */
  | {
      readonly phase: 'watching'
      readonly resourceVersion: string
      readonly silences: number
      readonly shared?: boolean | undefined
    }

/** How a request ended. `proven`: as a watch it had worked for a while. */
export type Ending =
  /** The server ended the watch in order. */
  | { readonly kind: 'closed'; readonly proven: boolean }
  /** Nothing came for too long. */
  | { readonly kind: 'silent'; readonly proven: boolean }
  /** It failed; `told`: by an ERROR event inside the watch. */
  | { readonly kind: 'failed'; readonly proven: boolean; readonly error: KubeError; readonly told: boolean }

export interface RetryPlan<T> {
  readonly next: ReflectorState<T>
  /** `short`: an outage, whose end should be noticed within a second. `long`: a refusal, which time rarely mends. */
  readonly wait: 'none' | 'short' | 'long'
  /** This server does not do streaming lists: do not ask again. */
  readonly noStreaming?: true
}

/** What a plan depends on beside the state. */
export interface RetryContext {
  /** Whether this server may be asked for streaming lists. */
  readonly streaming: boolean
  /** The last list is so young that another would come too soon. */
  readonly justListed: boolean
}

const pageSize = 500

/** After so many silent watches (half an hour) from one resourceVersion it may be one that the server has never heard of. */
const mostSilences = 20

/** The state in which everything is asked for anew. */
export function startState<T>(streaming: boolean): ReflectorState<T> {
  return streaming
    ? { phase: 'streaming', objects: new Map() }
    : { phase: 'paging', items: [], continue: undefined, limit: pageSize }
}

/** Decides how to go on when a request has ended before its time. Pure. */
export function planRetry<T>(state: ReflectorState<T>, ending: Ending, context: RetryContext): RetryPlan<T> {
  switch (state.phase) {
    case 'streaming':
      return planStreaming(ending)
    case 'paging':
      return ending.kind === 'failed' ? planPaging(state, ending.error) : { next: state, wait: 'short' }
    case 'watching': {
      const plan: RetryPlan<T> = planWatching<T>(state, ending, context)
      // Who removes a prefix from etcd changes many objects at one revision, and a watch from that revision tells nothing more of it.
      // Nor does a list, until the server itself has got through all of it.
      if (state.shared !== true || plan.next.phase !== 'watching') return plan
      return { next: startState(context.streaming), wait: 'short' }
    }
  }
}

function planStreaming<T>(ending: Ending): RetryPlan<T> {
  const list = startState<T>(false)
  // A server that does not know `sendInitialEvents` ignores it, and then never says where the initial events end.
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
      return { next: startState(true), wait: 'long' }
    case 'Unreachable':
    case 'Timeout':
    case 'TooManyRequests':
    case 'Unauthorized':
    case 'NoCredentials':
      return { next: startState(true), wait: 'short' }
    default:
      // A server that stumbles over the streaming list may well manage the plain one.
      return { next: list, wait: 'short' }
  }
}

function planPaging<T>(
  state: Extract<ReflectorState<T>, { readonly phase: 'paging' }>,
  error: KubeError,
): RetryPlan<T> {
  // Asked for at once, a list cannot expire between its pages: this ends even where listing outlasts the server's history, unless it is longer than what is read.
  const whole: ReflectorState<T> = { phase: 'paging', items: [], continue: undefined, limit: undefined }
  switch (error.code) {
    case 'Expired':
      return { next: whole, wait: 'short' }
    case 'BadRequest':
    case 'Invalid':
    case 'Refused':
      return { next: whole, wait: 'long' }
    case 'Forbidden':
    case 'NotFound':
      return { next: startState(false), wait: 'long' }
    case 'TooLarge': {
      if (state.limit === undefined) return { next: startState(false), wait: 'long' }
      const limit = smallerPage(state.limit)
      // A continue token names the last key, so that a smaller page goes on where the larger one would have.
      return limit === undefined ? { next: state, wait: 'short' } : { next: { ...state, limit }, wait: 'none' }
    }
    default:
      return { next: state, wait: 'short' }
  }
}

function planWatching<T>(
  state: Extract<ReflectorState<T>, { readonly phase: 'watching' }>,
  ending: Ending,
  context: RetryContext,
): RetryPlan<T> {
  const start = startState<T>(context.streaming)
  if (ending.kind === 'silent') {
    const silences = state.silences + 1
    // A server whose store was put back to a backup says nothing until it has come as far again.
    return { next: silences < mostSilences ? { ...state, silences } : start, wait: 'none' }
  }
  if (ending.kind === 'closed') return { next: state, wait: ending.proven ? 'none' : 'short' }
  const { code } = ending.error
  // A server that has restarted knows no history: the way back from an outage leads through here, and must be quick.
  if (code === 'Expired') return { next: start, wait: context.justListed ? 'short' : 'none' }
  if (ending.told && code !== 'TooManyRequests') return { next: start, wait: 'short' }
  switch (code) {
    case 'BadResponse':
    case 'TooLarge':
      // What could not be read may have been a change.
      return { next: start, wait: 'short' }
    case 'NotFound':
    case 'BadRequest':
    case 'Invalid':
    case 'Refused':
      return { next: start, wait: 'long' }
    case 'Forbidden':
      return { next: state, wait: 'long' }
    default:
      return { next: state, wait: 'short' }
  }
}

/** Whether it is the parameter that is forbidden, not the resource. */
function refusesParameter(error: KubeError): boolean {
  const parameter = 'sendInitialEvents'
  return error.message.includes(parameter) || error.status?.details?.causes?.some((c) => c.field === parameter) === true
}
