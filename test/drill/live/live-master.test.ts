import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Datastore } from '../../../src/drill/datastore.ts'
import { Watchdog } from '../../../src/drill/live/child.ts'
import { openCluster } from '../../../src/drill/live/cluster.ts'
import { LiveMaster } from '../../../src/drill/live/live-master.ts'
import { parseScenario } from '../../../src/drill/scenario/parse.ts'
import { systemClock, systemRandom } from '../../../src/runtime/system-clock.ts'
import { isAlive } from '../../support/is-alive.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { eventually } from '../../support/with-timeout.ts'

const scenario = `
apiVersion: apiserver-bootstrap/v1alpha1
kind: Drill
name: test
description: One master.
fleet:
  masters: 1
  leaseStore: kubernetes
steps: []
`
/** A sidecar that writes its process ID to a file, and exits with 0 on SIGTERM. */
const sidecar = `echo $$ >> "$0"; trap 'exit 0' TERM; while :; do sleep 0.05; done`
const timeout = 20_000

for (const [action, ends] of [
  [{ type: 'kill', part: 'sidecar' }, [0, 1]],
  [{ type: 'retire' }, [0, 1]],
  [{ type: 'terminate', part: 'sidecar' }, [0, 1]],
  [{ type: 'terminate-earlier' }, [0]],
] as const) {
  const which = ends.length === 2 ? 'both lives' : 'the earlier life'
  test(`${action.type} ends ${which} of a sidecar with two overlapping processes`, { timeout }, async (t) => {
    const { master, pids } = await overlapping(t)
    await master.perform({ ...action, master: 'master-1' })
    await eventually('the end', () => ends.every((index) => !isAlive(pids[index] ?? 0)))
    assert.deepEqual(
      pids.map(isAlive),
      pids.map((_, index) => !ends.some((one) => one === index)),
    )
    await eventually('the state', () => master.ended === (ends.length === 2))
  })
}

test('a sidecar has not ended while an earlier process of it runs', { timeout }, async (t) => {
  const { master, pids } = await overlapping(t)
  process.kill(pids[1] ?? 0, 'SIGTERM')
  await eventually('the end of the later life', () => !isAlive(pids[1] ?? 0))
  await eventually('the state', () => !master.running)
  assert.equal(master.ended, false)
})

/** A master with two lives of its sidecar at once, and their process IDs. */
async function overlapping(t: TestContext): Promise<{ master: LiveMaster; pids: readonly number[] }> {
  const directory = await tempDir(t)
  const [kubeconfig, noted] = [join(directory, 'kubeconfig'), join(directory, 'pids')]
  const content = {
    'current-context': 'test',
    contexts: [{ name: 'test', context: { cluster: 'test' } }],
    clusters: [{ name: 'test', cluster: { server: 'https://127.0.0.1:1' } }],
  }
  writeFileSync(kubeconfig, JSON.stringify(content))
  const program = ['sh', '-c', sidecar, noted]
  const options = { kubeconfig, etcdPrefix: '/registry', etcdFiles: {}, program, log: () => {} }
  const cluster = await openCluster(options, 'kubernetes')
  const watchdog = new Watchdog()
  const around = { cluster, options, etcdProxyTargets: [], serviceClusterIpRange: '10.96.0.0/12', directory, watchdog }
  const { fleet } = parseScenario(scenario, 'test.yaml')
  const [plan] = fleet.masters
  assert.ok(plan)
  const datastore = new Datastore({ clock: systemClock, random: systemRandom() })
  const master = await LiveMaster.open(around, fleet, plan, datastore, () => {})
  t.after(async () => {
    await master.close()
    watchdog.close()
    await cluster.close()
  })
  // The shell creates the file a moment before it writes the first line.
  const pids = (): number[] =>
    (existsSync(noted) ? readFileSync(noted, 'utf8') : '')
      .split('\n')
      .flatMap((line) => (line === '' ? [] : Number(line)))
  for (const count of [1, 2]) {
    await master.perform({ type: 'start', master: 'master-1', part: 'sidecar' })
    await eventually('the process', () => pids().length === count)
  }
  return { master, pids: pids() }
}
