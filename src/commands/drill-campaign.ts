import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import {
  type CampaignOutcome,
  type CampaignSummary,
  describeFailure,
  describeProgress,
  describeSummary,
  replayCommand,
  runCampaign,
  summarize,
} from '../drill/campaign/campaign.ts'
import { ProcessPool } from '../drill/campaign/process-pool.ts'
import { renderScenario } from '../drill/scenario/render.ts'
import { DrillScreen, REFRESH_MS, writeFiles } from './drill-output.ts'
import type { DrillValues } from './options.ts'
import { print, runAll, type Screen } from './output.ts'

export type CampaignCommandOptions = CampaignReportOptions & Pick<DrillValues, 'jobs' | 'failFast' | 'output'>

/** The interval of progress lines, in milliseconds, if the output is not a terminal. */
const LINE_MS = 10_000

/**
 * Runs the random schedules of many seeds in separate processes, and reports the progress. Resolves with 0 if all
 * invariants held in all runs, and with 1 if an invariant was broken or the campaign was interrupted. An interrupted
 * campaign reports its results up to the interruption.
 */
export async function runCampaignCommand(
  options: CampaignCommandOptions,
  { signal, screen }: { readonly signal: AbortSignal; readonly screen: Screen },
): Promise<number> {
  const { seed, runs, jobs = availableParallelism(), failFast, output, report } = options
  const pool = new ProcessPool(Math.min(jobs, runs))
  const startedMs = performance.now()
  const elapsedMs = (): number => performance.now() - startedMs
  let [done, failed] = [0, 0]
  const describe = (): string => describeProgress({ done, runs, failed, elapsedMs: elapsedMs() })
  const shown = new DrillScreen(output === 'json' ? process.stderr : screen)
  const showProgress = (): void => (shown.inPlace ? shown.progress(describe()) : shown.line(describe()))
  showProgress()
  const timer = setInterval(showProgress, shown.inPlace ? REFRESH_MS : LINE_MS)
  // The pool ends its processes at once, without waiting for a running schedule.
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
        shown.line(`seed ${of} violates: ${violation.invariant}: ${violation.detail}`)
      },
    })
  } finally {
    signal.removeEventListener('abort', stop)
    clearInterval(timer)
    shown.end()
    await pool.close()
  }
  const summary = { ...summarize(outcome, elapsedMs()), interrupted: signal.aborted }
  const { text, json, files } = campaignReport(outcome, summary, options)
  await runAll(
    () => print(output === 'json' ? json : text),
    async () => report && writeFiles(report, files),
  )
  return summary.failed > 0 || signal.aborted ? 1 : 0
}

export type CampaignReportOptions = Pick<DrillValues, 'seed' | 'runs' | 'report'> & { readonly version: string }

export interface CampaignReport {
  readonly text: string
  readonly json: string
  /** The contents of files by name. `campaign.json` names the other files: the directory may contain older files. */
  readonly files: Readonly<Record<string, string>>
}

/** How many failures are described in full. Of further failures only the seeds are listed. */
const MAX_DESCRIBED = 10

export function campaignReport(
  { results, shrunk }: CampaignOutcome,
  summary: CampaignSummary & { readonly interrupted: boolean },
  { seed: firstSeed, runs, report, version }: CampaignReportOptions,
): CampaignReport {
  const failures = results
    .filter(({ violations }) => violations.length > 0)
    .map(({ seed, violations }) => {
      const schedule = shrunk.find((one) => one.seed === seed)
      const shortest = schedule && { schedule, file: `seed-${seed}.yaml`, yaml: renderScenario(schedule.scenario) }
      return { seed, violations, shortest }
    })
  const described = failures.slice(0, MAX_DESCRIBED).flatMap(({ shortest, ...failure }) => {
    return describeFailure(failure, shortest && { ...shortest, file: join(report ?? '', shortest.file) })
  })
  const notDescribed = failures.slice(MAX_DESCRIBED).map(({ seed }) => seed)
  const more = notDescribed.length > 0 ? [`these seeds also failed: ${notDescribed.join(', ')}`] : []
  const text = [...described, ...more, headline(summary, failures.length), ...describeSummary(summary)].join('\n')
  const json = JSON.stringify(
    {
      kind: 'DrillCampaign',
      version,
      seed: firstSeed,
      runs,
      summary,
      failures: failures.map(({ seed, violations, shortest }) => ({
        seed,
        violations,
        command: replayCommand(seed),
        shortest: shortest?.schedule.scenario,
        file: report === undefined ? undefined : shortest?.file,
      })),
    },
    undefined,
    2,
  )
  const schedules = failures.flatMap(({ shortest }) => (shortest ? [[shortest.file, shortest.yaml] as const] : []))
  return {
    text: `${text}\n`,
    json: `${json}\n`,
    files: { ...Object.fromEntries(schedules), 'campaign.json': `${json}\n` },
  }
}

function headline(
  { schedules, interrupted }: { readonly schedules: number; readonly interrupted: boolean },
  failed: number,
): string {
  const result = failed === 0 ? 'no failure' : `${failed} failed`
  return `${interrupted ? 'interrupted: ' : ''}${schedules} random schedules of ten minutes: ${result}`
}
