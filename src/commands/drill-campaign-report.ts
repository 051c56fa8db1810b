import { join } from 'node:path'
import type { CampaignOutcome } from '../drill/campaign/campaign.ts'
import { type CampaignSummary, describeSummary } from '../drill/campaign/campaign-summary.ts'
import { describeFailure, replayCommand } from '../drill/campaign/failure-text.ts'
import { renderScenario } from '../drill/render-scenario.ts'

export interface CampaignReportOptions {
  /** The first one. */
  readonly seed: number
  readonly runs: number
  /** The directory that its files are for. */
  readonly report: string | undefined
  readonly version: string
}

/** What is told of a campaign. */
export interface CampaignReport {
  readonly text: string
  readonly json: string
  /** By their names. Others of such names in the directory are of other campaigns: the JSON says which are of this one. */
  readonly files: Readonly<Record<string, string>>
}

/** How many failures are told in full; of the rest the seeds. */
const MAX_TOLD = 10

/** Pure. */
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
  const told = failures.slice(0, MAX_TOLD).flatMap(({ shortest, ...failure }) => {
    return describeFailure(failure, shortest && { ...shortest, file: join(report ?? '', shortest.file) })
  })
  const untold = failures.slice(MAX_TOLD).map(({ seed }) => seed)
  const more = untold.length > 0 ? [`nor do the seeds ${untold.join(', ')}`] : []
  const text = [...told, ...more, headline(summary, failures.length), ...describeSummary(summary)].join('\n')
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
  const held = failed === 0 ? 'all held' : `${failed} did not hold`
  return `${interrupted ? 'interrupted: ' : ''}${schedules} random schedules of ten minutes: ${held}`
}
