/** Why a run was ended: the signal's name. */
export class StopRequest extends Error {
  override readonly name = 'StopRequest'
}

/**
 * Turns the first SIGTERM or SIGINT into an abort. A second one, of either kind, ends the process at once with 1.
 * `release` gives the signals back to Node.
 */
export function stopSignals(): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController()
  const onSignal = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(1)
    controller.abort(new StopRequest(name))
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
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
