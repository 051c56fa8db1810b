import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type CampaignOutcome, runCampaign, type ShrunkSchedule } from '../drill/campaign/campaign.ts'
import { describeSummary, summarize } from '../drill/campaign/campaign-summary.ts'
import { describeFailure, replayCommand } from '../drill/campaign/failure-text.ts'
import { ProcessPool } from '../drill/campaign/process-pool.ts'
import { describeProgress } from '../drill/campaign/progress.ts'
import { renderScenario } from '../drill/render-scenario.ts'
import type { Screen } from './embedded-screen.ts'

export interface CampaignCommandOptions {
  /** The first one; each further run takes the next. */
  readonly seed: number
  readonly runs: number
  /** In how many processes. */
  readonly jobs: number
  /** Ends after the first schedule that does not hold. */
  readonly failFast: boolean
  readonly output: 'text' | 'json'
  /** A directory that exists. */
  readonly report: string | undefined
  readonly version: string
}

/** Between two lines about the progress where there is no terminal, and between two looks on one, in milliseconds. */
const LINE_MS = 10_000
const LOOK_MS = 200
/** How many failures are told in full; of the rest the seeds. */
const MAX_TOLD = 10

/**
 * Runs the random schedules of many seeds in processes of their own, and tells how it goes. Ends with 0 when all held, 1 when one did
 * not or the campaign was interrupted; what there is then is told as well.
 */
export async function runCampaignCommand(
  options: CampaignCommandOptions,
  { signal, screen }: { readonly signal: AbortSignal; readonly screen: Screen },
): Promise<number> {
  const { seed, runs, jobs, failFast, output, report } = options
  const pool = new ProcessPool(Math.min(jobs, runs))
  const startedMs = performance.now()
  const elapsedMs = (): number => performance.now() - startedMs
  let [done, failed] = [0, 0]
  const tell = (): string => describeProgress({ done, runs, failed, elapsedMs: elapsedMs() })
  const progress = showProgress(output === 'json' ? process.stderr : screen, tell)
  // Ended at once: a task that is under way is not waited for.
  const stop = (): void => void pool.close()
  signal.addEventListener('abort', stop, { once: true })
  let outcome: CampaignOutcome
  try {
    outcome = await runCampaign(pool.workers, {
      firstSeed: seed,
      runs,
      failFast,
      signal,
      onResult({ seed: of, violations: [violation] }) {
        done++
        if (violation === undefined) return
        failed++
        progress.say(`seed ${of} does not hold: ${violation.invariant}: ${violation.detail}`)
      },
    })
  } finally {
    signal.removeEventListener('abort', stop)
    progress.end()
    await pool.close()
  }
  const summary = { ...summarize(outcome, elapsedMs()), interrupted: signal.aborted }
  const failures = await Promise.all(
    outcome.results
      .filter(({ violations }) => violations.length > 0)
      .map(async ({ seed: failedSeed, violations }) => {
        const shortest = await write(outcome, failedSeed, report)
        return { seed: failedSeed, violations, command: replayCommand(failedSeed), shortest }
      }),
  )
  const json = JSON.stringify(
    {
      kind: 'DrillCampaign',
      version: options.version,
      seed,
      runs,
      summary,
      failures: failures.map(({ shortest, ...failure }) => ({ ...failure, shortest: shortest?.schedule.scenario })),
    },
    undefined,
    2,
  )
  if (report !== undefined) await writeFile(join(report, 'campaign.json'), `${json}\n`)
  if (output === 'json') screen.write(`${json}\n`)
  else {
    const told = failures.slice(0, MAX_TOLD).flatMap((failure) => describeFailure(failure, failure.shortest))
    const untold = failures.slice(MAX_TOLD).map((failure) => failure.seed)
    const more = untold.length > 0 ? [`nor do the seeds ${untold.join(', ')}`] : []
    screen.write(`${[...told, ...more, headline(summary, failures.length), ...describeSummary(summary)].join('\n')}\n`)
  }
  return failures.length > 0 || signal.aborted ? 1 : 0
}

function headline(
  { schedules, interrupted }: { readonly schedules: number; readonly interrupted: boolean },
  failed: number,
): string {
  const held = failed === 0 ? 'all held' : `${failed} did not hold`
  return `${interrupted ? 'interrupted: ' : ''}${schedules} random schedules of ten minutes: ${held}`
}

interface Shortest {
  readonly schedule: ShrunkSchedule
  readonly file: string
  readonly yaml: string
}

async function write(
  { shrunk }: CampaignOutcome,
  seed: number,
  report: string | undefined,
): Promise<Shortest | undefined> {
  const schedule = shrunk.find((one) => one.seed === seed)
  if (schedule === undefined) return undefined
  const yaml = renderScenario(schedule.scenario)
  const file = join(report ?? '', `seed-${seed}.yaml`)
  if (report !== undefined) await writeFile(file, yaml)
  return { schedule, file, yaml }
}

/** In place on a terminal, else a line now and then; what is said stays. */
function showProgress(screen: Screen, tell: () => string): { say(line: string): void; end(): void } {
  const inPlace = screen.isTTY === true
  const show = (): void => {
    // A terminal that does not know its width says 0.
    const line = tell().slice(0, (screen.columns || 80) - 1)
    screen.write(inPlace ? `\r\u001b[2K${line}` : `${tell()}\n`)
  }
  show()
  const timer = setInterval(show, inPlace ? LOOK_MS : LINE_MS)
  return {
    say(line) {
      screen.write(inPlace ? `\r\u001b[2K${line}\n` : `${line}\n`)
    },
    end() {
      clearInterval(timer)
      if (inPlace) screen.write('\r\u001b[2K')
    },
  }
}
