/** A SIGINT that follows another so closely is the same Ctrl-C, in milliseconds. */
const ECHO_MS = 300

/** Why a run was ended: the signal's name. */
export class StopRequest extends Error {
  override readonly name = 'StopRequest'
}

/**
 * Turns the first SIGTERM or SIGINT into an abort. A second one, of either kind, ends the process at once with 1, unless it is a SIGINT
 * that comes with the first: who hands a terminal's Ctrl-C on, as npx does, makes two of one. `release` gives the signals back to Node.
 */
export function stopSignals(): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController()
  let interruptedMs = Number.NEGATIVE_INFINITY
  const onSignal = (name: NodeJS.Signals): void => {
    const isEcho = name === 'SIGINT' && performance.now() - interruptedMs < ECHO_MS
    if (controller.signal.aborted && !isEcho) process.exit(1)
    if (isEcho) return
    if (name === 'SIGINT') interruptedMs = performance.now()
    controller.abort(new StopRequest(name))
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
      // The echo of what has just been obeyed must not end the process before it has said so.
      if (performance.now() - interruptedMs < ECHO_MS) process.once('SIGINT', () => {})
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
