import { linkedController } from './signals.ts'

/**
 * Runs several at once until `signal` is aborted; then resolves, when all have ended. One that fails ends the others, and is what this rejects
 * with. That one rejects with the reason of its signal is its end, not its failure.
 */
export async function together(
  signal: AbortSignal,
  parts: readonly ((signal: AbortSignal) => Promise<unknown>)[],
): Promise<void> {
  const { controller, unlink } = linkedController(signal)
  await allEnded(
    parts.map(async (part) => {
      try {
        await part(controller.signal)
      } catch (error) {
        const ended = controller.signal.aborted && error === controller.signal.reason
        controller.abort(error)
        if (!ended) throw error
      }
    }),
  ).finally(unlink)
}

/** Waits for all of them, whatever becomes of the others; then rejects as the first in their order that did. */
export async function allEnded(work: readonly (Promise<unknown> | undefined)[]): Promise<void> {
  const ends = await Promise.allSettled(work)
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}
