import { compositionOf } from './composition.ts'
import { describeFailure, runScenario } from './scenario.ts'

/** What came of many seeds. */
export interface CampaignReport {
  readonly failures: readonly string[]
  /** How many seeds had their leases where. */
  readonly stores: Readonly<Record<string, number>>
  readonly cpuMs: number
}

// usage: node test/simulation/campaign.ts FIRST LAST: runs the seeds and prints a CampaignReport as JSON. Not within a test, whose
// runner makes promises cost twice as much.

const [first = 1, last = 1] = process.argv.slice(2).map(Number)
const failures: string[] = []
const stores: Record<string, number> = {}
for (let seed = first; seed <= last; seed++) {
  const { leaseStore } = compositionOf(seed)
  stores[leaseStore] = (stores[leaseStore] ?? 0) + 1
  const outcome = await runScenario(seed)
  if (outcome.violations.length > 0) failures.push(describeFailure(seed, outcome))
}
const { user, system } = process.cpuUsage()
const report: CampaignReport = { failures, stores, cpuMs: (user + system) / 1000 }
console.log(JSON.stringify(report))
