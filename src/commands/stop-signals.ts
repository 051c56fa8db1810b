/**
 * A signal within this time after the first signal, in milliseconds, counts as the same request. npx forwards a
 * terminal's Ctrl-C to a child that has already received it. `timeout` sends a signal to its child, and a second signal
 * to the group of the child.
 */
const ECHO_MS = 1_000

const NAMES = ['SIGTERM', 'SIGINT'] as const

/**
 * Makes SIGTERM and SIGINT end the process until {@link stopSignals} handles them. Only the first process of a
 * container needs this: the kernel ignores these signals for it as long as it has no handler.
 */
export function exitAtSignals(): void {
  if (process.pid !== 1) return
  for (const name of NAMES) process.on(name, exitAt)
}

function exitAt(_: NodeJS.Signals, number: number): void {
  process.exit(128 + number)
}

/** The message is the name of the signal. */
export class StopRequest extends Error {
  override readonly name = 'StopRequest'
}

/**
 * Turns the first SIGTERM or SIGINT into an abort. Ignores further signals for a second ({@link ECHO_MS}). A later
 * signal ends the process at once with exit code 1. `release` restores the handling by Node, but does nothing in that
 * second. `also`: further signals that are handled in the same manner.
 *
 * Call this after the files have been read: until then a signal ends the process at once, and reading them may hang.
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
      console.error(`${name} again: exiting at once, without the orderly end`)
      process.exit(1)
    }
    stoppedMs = performance.now()
    controller.abort(new StopRequest(name))
  }
  const names = [...NAMES, ...also]
  for (const name of names) process.on(name, onSignal).off(name, exitAt)
  return {
    signal: controller.signal,
    release() {
      // If the handlers were removed here, a repeated signal could end the process before its orderly end.
      if (isEcho()) return
      for (const name of names) process.off(name, onSignal)
    },
  }
}

/** Calls `report` after an unhandled rejection or an uncaught exception, and then ends the process with 1. */
export function dieOfUnhandled(report: (error: unknown) => void): void {
  onUnhandled((error) => {
    report(error)
    process.exit(1)
  })
}

/** Passes unhandled rejections and uncaught exceptions to `take`. From then on they do not end the process. */
export function onUnhandled(take: (error: unknown) => void): void {
  process.on('unhandledRejection', take)
  process.on('uncaughtException', take)
}
