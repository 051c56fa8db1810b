import type { ReadinessAnswer } from '../../kube/readiness.ts'

/** How many probes in a row must fail, and over how long, before a master counts as unready. */
const FAILURES = 3
const FAILING_MS = 3_000
/** How long probes must succeed without a break before the master counts as ready again. */
const RECOVERING_MS = 2_000

/** The readiness of this master's own API server. Times are on its monotonic clock, in milliseconds. */
export type ReadinessState =
  /**
   * The server has never been ready. `failingSinceMs`: since when each probe is answered as not ready; else undefined.
   */
  | {
      readonly phase: 'starting'
      readonly failures: number
      readonly failingSinceMs: number | undefined
      readonly reason?: string | undefined
    }
  | { readonly phase: 'ready'; readonly failures: number; readonly failingSinceMs: number | undefined }
  | {
      readonly phase: 'unready'
      readonly failures: number
      /**
       * Since when the server fails; undefined while it recovers. The first failing answer after silence starts this
       * time anew.
       */
      readonly failingSinceMs: number | undefined
      /** Whether the server was silent in every failed probe since it became unready, or since its last success. */
      readonly onlySilent: boolean
      readonly recoveringSinceMs: number | undefined
      readonly reason: string
    }

export const neverReady: ReadinessState = { phase: 'starting', failures: 0, failingSinceMs: undefined }
const ready: ReadinessState = { phase: 'ready', failures: 0, failingSinceMs: undefined }

/**
 * The readiness after an answer. Pure.
 *
 * The server is ready at its first success after the start, unready after three failures in a row over at least three
 * seconds, and ready again after two seconds of success. A failing `etcd` check counts like any other check: a server
 * whose own etcd is dead serves nobody. If all servers fail together, all stay listed: no master confirms a departure.
 */
export function nextReadiness(state: ReadinessState, answer: ReadinessAnswer, nowMs: number): ReadinessState {
  const serving = isServing(answer)
  switch (state.phase) {
    case 'starting':
      if (answer.answered && answer.ready) return ready
      if (serving || !answer.answered) return neverReady
      return {
        phase: 'starting',
        failures: state.failures + 1,
        failingSinceMs: state.failingSinceMs ?? nowMs,
        reason: unreadyReason(answer),
      }
    case 'ready': {
      if (serving) return ready
      const failures = state.failures + 1
      const failingSinceMs = state.failingSinceMs ?? nowMs
      return failures >= FAILURES && nowMs - failingSinceMs >= FAILING_MS
        ? { phase: 'unready', ...failingIn(answer, failures, failingSinceMs) }
        : { phase: 'ready', failures, failingSinceMs }
    }
    case 'unready': {
      // The server lives, but its readiness is unknown.
      if (answer.answered && answer.refused !== undefined) return state
      if (!serving) {
        const sinceMs = state.onlySilent && answer.answered ? undefined : state.failingSinceMs
        const failures = sinceMs === undefined ? 1 : state.failures + 1
        const onlySilent = (sinceMs === undefined || state.onlySilent) && !answer.answered
        return { phase: 'unready', ...failingIn(answer, failures, sinceMs ?? nowMs), onlySilent }
      }
      const recoveringSinceMs = state.recoveringSinceMs ?? nowMs
      return nowMs - recoveringSinceMs >= RECOVERING_MS
        ? ready
        : { ...state, failingSinceMs: undefined, recoveringSinceMs }
    }
  }
}

/**
 * Whether the server has failed for long enough that its master wants to leave the list. The count of failures and
 * their time start anew when a silent server answers, because it is most likely starting. Pure.
 */
export function isFailing(state: ReadinessState, nowMs: number): boolean {
  if (state.phase === 'ready' || state.failingSinceMs === undefined) return false
  return state.failures >= FAILURES && nowMs - state.failingSinceMs >= FAILING_MS
}

function failingIn(answer: ReadinessAnswer, failures: number, failingSinceMs: number) {
  return {
    failures,
    failingSinceMs,
    onlySilent: !answer.answered,
    recoveringSinceMs: undefined,
    reason: unreadyReason(answer),
  }
}

/** Whether the server answers that it is ready, or answers without reporting its readiness. */
export function isServing(answer: ReadinessAnswer): boolean {
  return answer.answered && (answer.ready || answer.refused !== undefined)
}

export function failsByEtcd(answer: ReadinessAnswer): boolean {
  if (!answer.answered || answer.ready) return false
  const failing = answer.checks.filter((check) => !check.ok)
  return failing.length > 0 && failing.every(({ name }) => name === 'etcd' || name === 'etcd-readiness')
}

function unreadyReason(answer: ReadinessAnswer): string {
  if (!answer.answered) return answer.reason
  const failing = answer.checks.filter((check) => !check.ok).map((check) => check.name)
  return failing.length > 0 ? `failing checks: ${failing.join(', ')}` : 'not ready'
}
