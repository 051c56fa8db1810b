import { constants, existsSync } from 'node:fs'
import { access, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { formatDuration } from '../documents/duration.ts'
import { InvalidInputError, unreadableReason } from '../documents/validation.ts'
import type { DrillEvent } from '../drill/event.ts'
import { renderPage } from '../drill/report/page/page.ts'
import type { DrillReport } from '../drill/report/report.ts'
import { renderTranscript, Transcript } from '../drill/report/transcript.ts'
import { printable } from '../runtime/errors.ts'
import { replaceFile } from '../runtime/system-file.ts'
import { type Screen, sizeOf } from './output.ts'

/**
 * Creates the directory of a report if it is missing, and checks that it can be written, before the drill begins.
 * Throws an {@link InvalidInputError} for a directory that cannot be created or written.
 */
export async function prepareReportDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(resolve(directory))
    // With the slash at the end, `access` fails for a file.
    await access(`${directory}/`, constants.W_OK | constants.X_OK)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const fault = code === 'ENOTDIR' ? 'is not a directory' : `cannot be made or written (${code})`
    throw new InvalidInputError([{ where: '--report', message: `${directory} ${fault}` }], { cause })
  }
}

/**
 * Creates missing parents too. Node's option `recursive` never returns if `mkdir` in an existing parent answers ENOENT,
 * as in /proc.
 */
async function makeDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const parent = dirname(directory)
    if (code !== 'ENOENT' || existsSync(parent)) throw error
    await makeDirectory(parent)
    await mkdir(directory)
  }
}

/** Writes `report.json`, `timeline.txt` and `report.html`, as {@link writeFiles} does. */
export function writeReport(directory: string, report: DrillReport): Promise<void> {
  return writeFiles(directory, {
    'timeline.txt': () => timelineOf(report),
    'report.html': () => renderPage(report),
    'report.json': () => `${JSON.stringify(report, undefined, 2)}\n`,
  })
}

/** The text of a file, or a function that renders it and throws if the text is too long for a string. */
type FileText = string | (() => string)

/**
 * Writes as many of the files as possible, by their names in `directory`. Replaces existing files and symbolic links.
 * Rejects at the end with one line that names the files that could not be written.
 */
export async function writeFiles(directory: string, files: Readonly<Record<string, FileText>>): Promise<void> {
  const faults: string[] = []
  for (const [name, text] of Object.entries(files)) {
    const file = join(directory, name)
    try {
      await replaceFile(file, (next) => writeFile(next, typeof text === 'string' ? text : text(), { flag: 'wx' }))
    } catch (cause) {
      faults.push(`cannot write ${file}: ${unreadableReason(cause)}`)
    }
  }
  if (faults.length === 0) return
  throw new Error(`${faults.join('; ')}; correct that, or give --report another directory`)
}

function timelineOf({ variants }: DrillReport): string {
  const runs = variants.flatMap(({ name, runs }) =>
    runs.flatMap((run, index) => (run.events === undefined ? [] : [{ name, run, number: index + 1 }])),
  )
  if (runs.length === 1) return runs.map(({ run }) => renderTranscript(run)).join('')
  return runs
    .map(({ name, run, number }) => `# ${name}, run ${number}, seed ${run.seed}\n${renderTranscript(run)}`)
    .join('\n')
}

const clearLine = '\r\u001b[2K'

/** Prints lines. On a terminal the last line shows the progress. */
export class DrillScreen {
  readonly #screen: Screen
  readonly inPlace: boolean
  #progress = ''

  constructor(screen: Screen) {
    this.#screen = screen
    this.inPlace = screen.isTTY === true
  }

  line(line: string): void {
    const text = printable(line)
    this.#screen.write(this.inPlace ? `${clearLine}${text}\n${this.#progress}` : `${text}\n`)
  }

  /** On a terminal, shows the progress in the last line. Elsewhere does nothing. */
  progress(line: string): void {
    if (!this.inPlace) return
    const text = printable(line)
    const { columns } = sizeOf(this.#screen)
    const clipped = text.length < columns ? text : `${text.slice(0, columns - 2)}…`
    if (clipped === this.#progress) return
    this.#progress = clipped
    this.#screen.write(`${clearLine}${clipped}`)
  }

  end(): void {
    if (this.#progress !== '') this.#screen.write(clearLine)
    this.#progress = ''
  }
}

export const REFRESH_MS = 200

interface TimelineOptions {
  readonly screen: DrillScreen
  readonly durationMs: number
  readonly variants: readonly string[]
  readonly runs: number
  readonly seed: number
  readonly live: boolean
  /** If false, only the progress is shown. */
  readonly showsEvents: boolean
}

interface Run {
  readonly variant: string
  readonly index: number
}

/**
 * Prints the events of a drill as they happen. All live runs are printed in full. Simulated runs pass quickly, so only
 * the first run of each variant is printed in full. Of later runs, only violations of invariants that held in the
 * variant so far are printed.
 */
export class DrillTimeline {
  readonly #options: TimelineOptions
  readonly #timer: NodeJS.Timeout
  #run: Run | undefined
  #transcript = new Transcript()
  #atMs: number | undefined
  #lastEventMs = 0
  /** The invariants that were broken in this run or an earlier run of the variant. */
  #broken = new Set<string>()

  constructor(options: TimelineOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#showProgress(), REFRESH_MS)
    this.#showProgress()
  }

  take(event: DrillEvent, run: Run): void {
    if (this.#run?.variant !== run.variant || this.#run.index !== run.index) this.#begin(run)
    // Events may come out of order, because a connection is reported at its end with the time of its start.
    if (this.#atMs === undefined || event.atMs > this.#atMs) {
      this.#atMs = event.atMs
      this.#lastEventMs = performance.now()
    }
    const isFirst = event.type === 'violation' && !this.#broken.has(event.invariant)
    if (event.type === 'violation') this.#broken.add(event.invariant)
    if (!this.#options.showsEvents) return
    if (this.#showsAll(run)) this.#print(this.#transcript.take(event))
    // The last line of a new transcript is about this event. Earlier lines are about the start of the run.
    else if (isFirst) {
      this.#print(
        new Transcript()
          .take(event)
          .slice(-1)
          .map((line) => `${this.#titleOf(run)}: ${line}`),
      )
    }
  }

  end(): void {
    clearInterval(this.#timer)
    this.#endRun()
    this.#options.screen.end()
  }

  #begin(run: Run): void {
    this.#endRun()
    if (this.#run?.variant !== run.variant) this.#broken = new Set()
    this.#run = run
    this.#transcript = new Transcript()
    this.#atMs = undefined
    const { variants, runs, showsEvents } = this.#options
    if (showsEvents && this.#showsAll(run) && variants.length * runs > 1) this.#print(['', this.#titleOf(run)])
  }

  #endRun(): void {
    if (this.#options.showsEvents && this.#run !== undefined && this.#showsAll(this.#run))
      this.#print(this.#transcript.end())
  }

  #showsAll({ index }: Run): boolean {
    return index === 0 || this.#options.live
  }

  #titleOf({ variant, index }: Run): string {
    const { runs, seed } = this.#options
    return runs === 1 ? variant : `${variant}, run ${index + 1} of ${runs}, seed ${seed + index}`
  }

  #print(lines: readonly string[]): void {
    for (const line of lines) this.#options.screen.line(line)
  }

  #showProgress(): void {
    const { screen, variants, runs } = this.#options
    const { variant, index } = this.#run ?? { variant: variants[0] ?? '', index: 0 }
    const number = Math.max(variants.indexOf(variant), 0) * runs + index + 1
    const which = variants.length * runs === 1 ? '' : `run ${number} of ${variants.length * runs} · `
    screen.progress(`${which}${variant}${this.#howFar()}`)
  }

  /** The elapsed time and the duration of a live run; empty for a simulated run, which passes quickly. */
  #howFar(): string {
    const { durationMs, live } = this.#options
    if (!live) return ''
    if (this.#atMs === undefined || this.#atMs < 0) return ' · coming up'
    // Time also passes between two events.
    const atMs = this.#atMs + performance.now() - this.#lastEventMs
    const shownMs = Math.floor(Math.min(atMs, durationMs) / 1000) * 1000
    return ` · ${formatDuration(shownMs)} of ${formatDuration(durationMs)}`
  }
}
