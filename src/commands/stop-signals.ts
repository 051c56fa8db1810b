/**
 * A signal that follows the first so closely is the same request, in milliseconds: npx hands a terminal's Ctrl-C on to a child that has had it already,
 * and `timeout` sends one signal to its child and one to its child's group.
 */
const ECHO_MS = 1_000

/** Why a run was ended: the signal's name. */
export class StopRequest extends Error {
  override readonly name = 'StopRequest'
}

/**
 * Turns the first SIGTERM or SIGINT into an abort. A later one, of either kind, ends the process at once with 1, unless it comes within a second of the first.
 * `release` gives the signals back to Node.
 */
export function stopSignals(): { readonly signal: AbortSignal; readonly release: () => void } {
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
  const names = ['SIGTERM', 'SIGINT'] as const
  for (const name of names) process.on(name, onSignal)
  return {
    signal: controller.signal,
    release() {
      // The echo of what has just been obeyed must not end the process before it has said so.
      if (isEcho()) return
      for (const name of names) process.off(name, onSignal)
    },
  }
}

/** Ends the process with 1 when a promise is rejected or an exception thrown that nobody catches; `say` gets it first. */
export function dieOfUnhandled(say: (error: unknown) => void): void {
  const die = (error: unknown): void => {
    say(error)
    process.exit(1)
  }
  process.on('unhandledRejection', die)
  process.on('uncaughtException', die)
}
