import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import type { WorkloadCampaignReport } from './workload-campaign.ts'
import { workloadFaultNames } from './workload-faults.ts'

/** Runs seeds 1 to `seeds` in as many processes as there are processors, and merges their reports. */
export async function runWorkloadCampaign(
  seeds: number,
): Promise<WorkloadCampaignReport & { readonly seconds: number }> {
  const processes = availableParallelism()
  const startedMs = performance.now()
  const reports = await Promise.all(
    Array.from({ length: processes }, async (_, index): Promise<WorkloadCampaignReport> => {
      const first = Math.floor((index * seeds) / processes) + 1
      const last = Math.floor(((index + 1) * seeds) / processes)
      const args = ['test/simulation/workload-campaign.ts', `${first}`, `${last}`]
      const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 26 })
      return JSON.parse(stdout)
    }),
  )
  const coverage: Record<string, number> = {}
  for (const [what, count] of reports.flatMap((report) => Object.entries(report.coverage))) {
    coverage[what] = (coverage[what] ?? 0) + count
  }
  return {
    failures: reports.flatMap(({ failures }) => failures),
    coverage,
    digests: reports.flatMap(({ digests }) => digests),
    settledMs: Math.max(...reports.map(({ settledMs }) => settledMs)),
    cpuMs: reports.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    seconds: (performance.now() - startedMs) / 1000,
  }
}

const steps = ['add', 'change', 'delete', 'end', 'flap', 'flip', 'move', 'relabel', 'remove', 'spoil', 'write']
const occurrences = [...workloadFaultNames, ...steps.map((step) => `step ${step}`), 'leading', 'conflicts']

/** The kinds of steps and faults that occurred less often than `least`: the campaign proves nothing about them. */
export function tooRareIn({ coverage }: Pick<WorkloadCampaignReport, 'coverage'>, least: number): readonly string[] {
  return occurrences.filter((what) => (coverage[what] ?? 0) < least)
}
