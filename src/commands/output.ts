import { messageOf } from '../runtime/message-of.ts'
import { printableLines } from '../runtime/printable.ts'

/** Whether standard output still takes anything. */
export interface OutputWatch {
  /** Aborted when it takes nothing any more. */
  readonly gone: AbortSignal
  /** In one line, why it could not be written, as on a full disk. Whoever went away before the end is no fault. */
  fault(): string | undefined
}

let watched: OutputWatch | undefined

/** Watches standard output, from the first call on. What becomes of standard error is nobody's concern: there is no other place to tell it. */
export function watchOutput(): OutputWatch {
  if (watched !== undefined) return watched
  const gone = new AbortController()
  process.stdout.on('error', (error) => gone.abort(error))
  process.stderr.on('error', () => {})
  watched = { gone: gone.signal, fault: () => faultOf(gone.signal.reason) }
  return watched
}

/** Shows a text as {@link printableLines} has it. Resolves when it is written, or nobody reads on. Rejects, in one line, when it could not be. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) =>
    process.stdout.write(printableLines(text), (error) => {
      const fault = faultOf(error)
      if (fault === undefined) resolve()
      else reject(new Error(fault))
    }),
  )
}

/** Does one after the other, whatever becomes of each. Rejects, in one line, with all that went wrong. */
export async function doAll(...deeds: readonly (() => Promise<unknown>)[]): Promise<void> {
  const faults: string[] = []
  for (const deed of deeds) await deed().catch((error) => faults.push(messageOf(error)))
  if (faults.length > 0) throw new Error(faults.join('; '))
}

function faultOf(error: NodeJS.ErrnoException | null | undefined): string | undefined {
  const code = error?.code
  return code === undefined || code === 'EPIPE' ? undefined : `the output cannot be written: ${code}`
}
