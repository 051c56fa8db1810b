import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import type { RepairCampaignReport } from './repair-campaign.ts'

/** Runs seeds 1 to `seeds` in as many processes as there are processors, and merges their reports. */
export async function runRepairCampaign(seeds: number): Promise<RepairCampaignReport & { readonly seconds: number }> {
  const processes = availableParallelism()
  const startedMs = performance.now()
  const reports = await Promise.all(
    Array.from({ length: processes }, async (_, index): Promise<RepairCampaignReport> => {
      const first = Math.floor((index * seeds) / processes) + 1
      const last = Math.floor(((index + 1) * seeds) / processes)
      const args = ['test/simulation/repair-campaign.ts', `${first}`, `${last}`]
      const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 26 })
      return JSON.parse(stdout)
    }),
  )
  return {
    failures: reports.flatMap(({ failures }) => failures),
    races: sumOf(reports.map(({ races }) => races)),
    books: sumOf(reports.map(({ books }) => books)),
    digests: reports.flatMap(({ digests }) => digests),
    cpuMs: reports.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    seconds: (performance.now() - startedMs) / 1000,
  }
}

function sumOf(counts: readonly Readonly<Record<string, number>>[]): Readonly<Record<string, number>> {
  const sum: Record<string, number> = {}
  for (const [name, count] of counts.flatMap(Object.entries)) sum[name] = (sum[name] ?? 0) + count
  return sum
}
