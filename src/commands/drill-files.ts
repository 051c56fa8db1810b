import { constants, existsSync } from 'node:fs'
import { access, mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { unreadableReason } from '../documents/unreadable.ts'
import { InvalidInputError } from '../documents/validation.ts'
import { renderPage } from '../drill/report/page.ts'
import { renderTranscript } from '../drill/report/transcript.ts'
import type { DrillReport } from '../drill/report.ts'

/**
 * Makes sure, before a drill begins, that its report has a place. What else is in the directory is left alone. Throws an
 * {@link InvalidInputError} for one that cannot be made or written.
 */
export async function prepareReportDirectory(directory: string): Promise<void> {
  try {
    await makeDirectory(resolve(directory))
    // With a slash at its end it is nothing but a directory.
    await access(`${directory}/`, constants.W_OK | constants.X_OK)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const fault = code === 'ENOTDIR' ? 'is not a directory' : `cannot be made or written (${code})`
    throw new InvalidInputError([{ where: '--report', message: `${directory} ${fault}` }], { cause })
  }
}

/** With `recursive`, mkdir never ends below a directory that is there and says that it is not, as /proc does. */
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
    'timeline.txt': timelineOf(report),
    'report.html': renderPage(report),
    'report.json': `${JSON.stringify(report, undefined, 2)}\n`,
  })
}

/** Writes all that can be written; what was there of the same names is overwritten. Rejects, in one line, when something could not. */
export async function writeFiles(directory: string, files: Readonly<Record<string, string>>): Promise<void> {
  const faults: string[] = []
  for (const [name, text] of Object.entries(files)) {
    const file = join(directory, name)
    await writeFile(file, text).catch((cause) => faults.push(`cannot write ${file}: ${unreadableReason(cause)}`))
  }
  if (faults.length === 0) return
  throw new Error(`${faults.join('; ')}; put that right, or give --report another directory`)
}

/** Every run whose events are kept, one after the other; with a heading each where there are more. */
function timelineOf({ variants }: DrillReport): string {
  const runs = variants.flatMap(({ name, runs }) =>
    runs.flatMap((run, index) => (run.events === undefined ? [] : [{ name, run, number: index + 1 }])),
  )
  if (runs.length === 1) return runs.map(({ run }) => renderTranscript(run)).join('')
  return runs
    .map(({ name, run, number }) => `# ${name}, run ${number}, seed ${run.seed}\n${renderTranscript(run)}`)
    .join('\n')
}
