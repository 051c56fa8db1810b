import { repairCompositionOf } from './repair-composition.ts'
import { RepairCoverage } from './repair-coverage.ts'
import { describeRepairFailure, runRepairScenario } from './repair-scenario.ts'

/** The results of many seeds. */
export interface RepairCampaignReport {
  readonly failures: readonly string[]
  /** How often each race occurred. */
  readonly races: Readonly<Record<string, number>>
  /** How many seeds used each address book. */
  readonly books: Readonly<Record<string, number>>
  /** One digest for each seed, in order. */
  readonly digests: readonly string[]
  readonly cpuMs: number
}

// usage: node test/simulation/repair-campaign.ts FIRST LAST: runs the seeds and prints a RepairCampaignReport as JSON.
// It does not run inside a test, because the test runner doubles the cost of promises.

// Refusals are frequent here, and nobody reads their stack traces.
Error.stackTraceLimit = 0

const [first = 1, last = 1] = process.argv.slice(2).map(Number)
const failures: string[] = []
const books: Record<string, number> = {}
const digests: string[] = []
const coverage = new RepairCoverage()
for (let seed = first; seed <= last; seed++) {
  const { book } = repairCompositionOf(seed)
  books[book] = (books[book] ?? 0) + 1
  const outcome = await runRepairScenario(seed, { coverage })
  digests.push(outcome.digest)
  if (outcome.violations.length > 0) failures.push(describeRepairFailure(seed, outcome))
}
const { user, system } = process.cpuUsage()
const races = Object.fromEntries(coverage.counts)
const report: RepairCampaignReport = { failures, races, books, digests, cpuMs: (user + system) / 1000 }
console.log(JSON.stringify(report))
