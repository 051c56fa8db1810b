/**
 * A signal that follows the first within this time is the same request, in milliseconds: npx forwards a terminal's
 * Ctrl-C to a child that has already received it, and `timeout` sends one signal to its child and one to its child's
 * group.
 */
const ECHO_MS = 1_000

/** Why a run was ended: the signal's name. */
export class StopRequest extends Error {
  override readonly name = 'StopRequest'
}

/**
 * Turns the first SIGTERM or SIGINT into an abort. A later one, of either kind, ends the process at once with 1, unless
 * it arrives within a second of the first. `release` restores Node's own handling. `also`: signals that do the same.
 */
export function stopSignals(also: readonly NodeJS.Signals[] = []): {
  readonly signal: AbortSignal
  readonly release: () => void
} {
  const controller = new AbortController()
  let stoppedMs: number | undefined
  const isEcho = (): boolean => stoppedMs !== undefined && performance.now() - stoppedMs < ECHO_MS
  const onSignal = (name: NodeJS.Signals): void => {
    if (isEcho()) return
    if (stoppedMs !== undefined) {
      console.error(`${name} came again: ended at once, whatever was under way`)
      process.exit(1)
    }
    stoppedMs = performance.now()
    controller.abort(new StopRequest(name))
  }
  const names = ['SIGTERM', 'SIGINT', ...also] as const
  for (const name of names) process.on(name, onSignal)
  return {
    signal: controller.signal,
    release() {
      // A repetition of the same request must not end the process before its orderly end.
      if (isEcho()) return
      for (const name of names) process.off(name, onSignal)
    },
  }
}

/** Ends the process with 1 after an unhandled rejection or an uncaught exception; `report` gets it first. */
export function dieOfUnhandled(report: (error: unknown) => void): void {
  onUnhandled((error) => {
    report(error)
    process.exit(1)
  })
}

/** Unhandled rejections and uncaught exceptions do not end the process any more; `take` gets each. */
export function onUnhandled(take: (error: unknown) => void): void {
  process.on('unhandledRejection', take)
  process.on('uncaughtException', take)
}
