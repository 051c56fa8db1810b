import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { promisify } from 'node:util'
import type { CampaignReport } from '../simulation/campaign.ts'

const SEEDS = 1_000

test(`${SEEDS} random schedules, on every lease store: what must hold does`, async (t) => {
  const processes = availableParallelism()
  const startedMs = performance.now()
  const reports = await Promise.all(
    Array.from({ length: processes }, async (_, index): Promise<CampaignReport> => {
      const first = Math.floor((index * SEEDS) / processes) + 1
      const last = Math.floor(((index + 1) * SEEDS) / processes)
      const args = ['test/simulation/campaign.ts', `${first}`, `${last}`]
      const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 2 ** 26 })
      return JSON.parse(stdout)
    }),
  )
  const seconds = (performance.now() - startedMs) / 1000
  const cpuMs = reports.reduce((sum, report) => sum + report.cpuMs, 0) / SEEDS
  const stores = ['kubernetes', 'etcd', 'kine'].map((store) => {
    const count = reports.reduce((sum, report) => sum + (report.stores[store] ?? 0), 0)
    return `${count} in ${store}`
  })
  const speed = `${(SEEDS / seconds).toFixed(1)} seeds/s in ${processes} processes, ${cpuMs.toFixed(0)} ms of CPU each`
  t.diagnostic(`${speed}; leases of ${stores.join(', ')}`)
  const failures = reports.flatMap((report) => report.failures)
  assert.equal(failures.length, 0, `${failures.length} of ${SEEDS}\n${failures.slice(0, 3).join('\n')}`)
})
