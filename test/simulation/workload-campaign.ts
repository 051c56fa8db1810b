import { describeWorkloadFailure, runWorkloadScenario } from './workload-scenario.ts'

/** The results of many seeds. */
export interface WorkloadCampaignReport {
  readonly failures: readonly string[]
  /** How often each kind of step and fault occurred. */
  readonly coverage: Readonly<Record<string, number>>
  /** One digest for each seed, in order. */
  readonly digests: readonly string[]
  /** The longest time until everything was right again, in milliseconds. */
  readonly settledMs: number
  readonly cpuMs: number
}

// usage: node test/simulation/workload-campaign.ts FIRST LAST: runs the seeds and prints a WorkloadCampaignReport as
// JSON. It does not run inside a test, because the test runner doubles the cost of promises.

// Refusals are frequent here, and nobody reads their stack traces.
Error.stackTraceLimit = 0

const [first = 1, last = 1] = process.argv.slice(2).map(Number)
const failures: string[] = []
const digests: string[] = []
const coverage: Record<string, number> = {}
let settledMs = 0
for (let seed = first; seed <= last; seed++) {
  const outcome = await runWorkloadScenario(seed)
  digests.push(outcome.digest)
  settledMs = Math.max(settledMs, outcome.settledMs)
  for (const [what, count] of outcome.coverage) coverage[what] = (coverage[what] ?? 0) + count
  if (outcome.violations.length > 0) failures.push(describeWorkloadFailure(seed, outcome))
}
const { user, system } = process.cpuUsage()
const report: WorkloadCampaignReport = { failures, coverage, digests, settledMs, cpuMs: (user + system) / 1000 }
console.log(JSON.stringify(report))
