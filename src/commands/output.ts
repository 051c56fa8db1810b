import { messageOf, printable, printableLines } from '../runtime/errors.ts'
import { withoutSecrets } from '../telemetry/secrets.ts'

export interface OutputWatch {
  /** Aborted as soon as standard output cannot be written. */
  readonly gone: AbortSignal
  /**
   * Why standard output cannot be written, in one line; undefined if it can be written, or if its reader has exited.
   */
  fault(): string | undefined
}

let watched: OutputWatch | undefined

/** Watches standard output from the first call on. Ignores failures of standard error, which cannot be reported. */
export function watchOutput(): OutputWatch {
  if (watched !== undefined) return watched
  const gone = new AbortController()
  process.stdout.on('error', (error) => gone.abort(error))
  process.stderr.on('error', () => {})
  watched = { gone: gone.signal, fault: () => faultOf(gone.signal.reason) }
  return watched
}

/**
 * Prints a text as {@link printableLines} renders it. Resolves when the text is written, or when the reader has gone.
 * Rejects with one line if the text cannot be written.
 */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) =>
    process.stdout.write(printableLines(text), (error) => {
      const fault = faultOf(error)
      if (fault === undefined) resolve()
      else reject(new Error(fault))
    }),
  )
}

export interface Screen {
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
  write(text: string): unknown
}

/** The size of a terminal. A missing or zero size counts as 80 by 24. */
export function sizeOf({ columns, rows }: Screen): { readonly columns: number; readonly rows: number } {
  return { columns: columns || 80, rows: rows || 24 }
}

/** Draws the lines, as far as they fit, over the `drawn` lines of the last call. Returns the number of lines drawn. */
export function redraw(screen: Screen, lines: readonly string[], drawn: number): number {
  const { columns, rows } = sizeOf(screen)
  // The cursor needs the row below the last line.
  const visible = lines.slice(0, rows - 1).map((line) => clip(line, columns))
  screen.write(`${drawn === 0 ? '' : `\u001b[${drawn}A`}\u001b[0J${visible.join('\n')}\n`)
  return visible.length
}

/** A line without blanks at its end, cut to at most `columns` characters. */
function clip(line: string, columns: number): string {
  const plain = line.trimEnd()
  return plain.length > columns ? `${plain.slice(0, columns - 1)}…` : plain
}

/** Text of other programs, such as the message of a server, as one line for a person: printable, without secrets. */
export function presentable(text: string): string {
  return printable(withoutSecrets(text))
}

/** Runs the functions one after the other, even if some fail. Rejects with one line that names all failures. */
export async function runAll(...tasks: readonly (() => Promise<unknown>)[]): Promise<void> {
  const faults: string[] = []
  for (const task of tasks) await task().catch((error) => faults.push(messageOf(error)))
  if (faults.length > 0) throw new Error(faults.join('; '))
}

function faultOf(error: NodeJS.ErrnoException | null | undefined): string | undefined {
  const code = error?.code
  return code === undefined || code === 'EPIPE' ? undefined : `the output cannot be written: ${code}`
}
