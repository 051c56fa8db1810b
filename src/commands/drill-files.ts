import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidInputError } from '../documents/validation.ts'
import { renderPage } from '../drill/report/page.ts'
import { renderTranscript } from '../drill/report/transcript.ts'
import type { DrillReport } from '../drill/report.ts'

/** What a directory of reports has; anything else in it was put there by somebody else. */
const marks = ['report.json', 'campaign.json']

/**
 * Makes sure, before a drill begins, that its report has a place. Throws an {@link InvalidInputError} for a directory that holds
 * something else than a report, or that cannot be made.
 */
export async function prepareReportDirectory(directory: string): Promise<void> {
  const refuse = (message: string, cause?: unknown): never => {
    throw new InvalidInputError([{ where: '--report', message: `${directory} ${message}` }], { cause })
  }
  let names: readonly string[] = []
  try {
    await mkdir(directory, { recursive: true })
    names = await readdir(directory)
  } catch (error) {
    const { code = 'it failed' } = error as NodeJS.ErrnoException
    refuse(code === 'EEXIST' || code === 'ENOTDIR' ? 'is not a directory' : `cannot be made (${code})`, error)
  }
  if (names.length > 0 && !marks.some((mark) => names.includes(mark))) {
    refuse('holds other files and no report.json; give an empty directory or a new one')
  }
}

/** Writes `report.json`, `timeline.txt` and `report.html`. What was there of the same names is gone. */
export async function writeReport(directory: string, report: DrillReport): Promise<void> {
  const files = {
    'timeline.txt': timelineOf(report),
    'report.html': renderPage(report),
    'report.json': `${JSON.stringify(report, undefined, 2)}\n`,
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
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
