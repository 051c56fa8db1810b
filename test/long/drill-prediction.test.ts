import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createLiveTarget } from '../../src/drill/live/live-target.ts'
import { computeFigures } from '../../src/drill/report/figures.ts'
import { runOnce } from '../../src/drill/run-drill.ts'
import { loadScenario } from '../../src/drill/scenario/load-scenario.ts'
import type { Scenario } from '../../src/drill/scenario/scenario.ts'
import { simulatedLatency } from '../../src/drill/simulator/etcd-link.ts'
import { SimulatedTarget } from '../../src/drill/simulator/target.ts'
import type { DrillTarget } from '../../src/drill/target.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { serviceRange } from '../peers/apiserver.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { programPath } from '../peers/program.ts'

const liveRuns = 24
const simulatedRuns = 200
/** How far the simulator may differ from real processes. */
const medianWithinMs = 500
const distanceUnder = 0.35

/** TTL and interval, in milliseconds. */
type Lease = readonly [ttlMs: number, intervalMs: number]

const { signal } = new AbortController()

/**
 * One of three masters dies at a moment that the seed determines; each phase of its lease is equally likely. The phases
 * of `runs` runs are spread evenly, apart from a random part: the median of so few freely drawn phases would be off by
 * a second by itself.
 */
async function crashAt(seed: number, runs: number, [leaseTtlMs, reconcileIntervalMs]: Lease): Promise<Scenario> {
  const crash = await loadScenario('crash')
  const phase = (seed - 1 + seededRandom(seed, 'phase').next()) / runs
  const atMs = Math.round(1_000 + phase * reconcileIntervalMs)
  return {
    ...crash,
    fleet: { ...crash.fleet, masters: crash.fleet.masters.slice(0, 3), leaseTtlMs, reconcileIntervalMs },
    clients: { ...crash.clients, count: 0 },
    steps: [{ atMs, action: 'kill', masters: ['master-2'], part: 'both' }],
    durationMs: atMs + leaseTtlMs + 2_000,
  }
}

/** How long the dead master stayed listed. */
async function removalOf(scenario: Scenario, target: DrillTarget, seed: number): Promise<number> {
  const { events, violations, untilMs } = await runOnce(scenario, { target, seed, signal })
  assert.deepEqual(violations, [])
  const { samples } = computeFigures([{ events, untilMs }], { deadUntilMs: untilMs }).timeToRemove
  assert.deepEqual(
    samples.map(({ master, cause }) => `${cause} ${master}`),
    ['kill master-2'],
  )
  return samples[0]?.tookMs ?? Number.NaN
}

describe('the simulator and real processes', () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  before(async () => {
    cluster = await startCluster(owner, { kind: 'bare' })
  })

  const leases: readonly Lease[] = [
    [3_000, 1_000],
    [15_000, 10_000],
  ]
  for (const lease of leases) {
    const [leaseTtlMs] = lease
    test(`agree on how long a dead master stays listed, with a lease of ${leaseTtlMs} ms`, async (t) => {
      const simulated: number[] = []
      for (let seed = 1; seed <= simulatedRuns; seed++) {
        const scenario = await crashAt(seed, simulatedRuns, lease)
        simulated.push(await removalOf(scenario, new SimulatedTarget(scenario.fleet, seed), seed))
      }
      const live: number[] = []
      for (let seed = 1; seed <= liveRuns; seed++) {
        const scenario = await crashAt(seed, liveRuns, lease)
        const { kubeconfig } = cluster.server
        const target = await createLiveTarget(scenario, seed, {
          kubeconfig,
          etcdServers: [cluster.etcd.url],
          etcdPrefix: '/registry',
          etcdFiles: {},
          serviceClusterIpRange: serviceRange,
          program: [process.execPath, programPath()],
          log: () => {},
        })
        live.push(await removalOf(scenario, target, seed))
      }
      const [simulatedMs, liveMs] = [medianOf(simulated), medianOf(live)]
      const distance = distanceOf(simulated, live)
      const { fromMs, toMs } = simulatedLatency
      t.diagnostic(
        `medians ${liveMs.toFixed(0)} ms of ${live.length} live runs and ${simulatedMs.toFixed(0)} ms of ${simulated.length} simulated ones ` +
          `(a message takes ${fromMs} to ${toMs} ms), Kolmogorov-Smirnov distance ${distance.toFixed(3)}, longest live ${Math.max(...live).toFixed(0)} ms`,
      )
      t.diagnostic(`live: ${live.map((ms) => ms.toFixed(0)).join(' ')}`)
      assert.ok(Math.max(...live) <= leaseTtlMs + 1_000, 'a dead master is gone a second after its lease at the latest')
      assert.ok(Math.abs(simulatedMs - liveMs) <= medianWithinMs)
      assert.ok(distance < distanceUnder)
    })
  }
})

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2
}

/** The two-sample Kolmogorov-Smirnov distance: the largest difference between the shares of values up to some value. */
function distanceOf(a: readonly number[], b: readonly number[]): number {
  const share = (values: readonly number[], limit: number): number =>
    values.filter((value) => value <= limit).length / values.length
  return Math.max(...[...a, ...b].map((limit) => Math.abs(share(a, limit) - share(b, limit))))
}
