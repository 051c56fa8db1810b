import { type CampaignOutcome, runCampaign } from '../drill/campaign/campaign.ts'
import { summarize } from '../drill/campaign/campaign-summary.ts'
import { ProcessPool } from '../drill/campaign/process-pool.ts'
import { describeProgress } from '../drill/campaign/progress.ts'
import { printable } from '../runtime/printable.ts'
import { type CampaignReportOptions, campaignReport } from './drill-campaign-report.ts'
import { writeFiles } from './drill-files.ts'
import type { Screen } from './embedded-screen.ts'
import { doAll, print } from './output.ts'

export interface CampaignCommandOptions extends CampaignReportOptions {
  /** In how many processes. */
  readonly jobs: number
  /** Ends after the first schedule that does not hold. */
  readonly failFast: boolean
  readonly output: 'text' | 'json'
}

/** Between two lines about the progress where there is no terminal, and between two looks on one, in milliseconds. */
const LINE_MS = 10_000
const LOOK_MS = 200

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
  const { text, json, files } = campaignReport(outcome, summary, options)
  await doAll(
    () => print(output === 'json' ? json : text),
    async () => report && writeFiles(report, files),
  )
  return summary.failed > 0 || signal.aborted ? 1 : 0
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
    say(text) {
      const line = printable(text)
      screen.write(inPlace ? `\r\u001b[2K${line}\n` : `${line}\n`)
    },
    end() {
      clearInterval(timer)
      if (inPlace) screen.write('\r\u001b[2K')
    },
  }
}
