import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withdrawMaster } from '../../src/bootstrap/master.ts'
import { defineMaster } from '../../src/config/define-master.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { endpointSlices, endpoints, events, services } from '../../src/kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { OtherWritersWorld, type RunningMaster } from './other-writers-world.ts'

const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }
const unready: ReadinessAnswer = { answered: true, ready: false, checks: [{ name: 'informer-sync', ok: false }] }
const silent: ReadinessAnswer = { answered: false, reason: 'refused' }

/** A server whose health can be changed. */
function changing() {
  let answer = ready
  return {
    ports: { readiness: { probe: async () => answer } },
    becomes(next: ReadinessAnswer) {
      answer = next
    },
  }
}

async function notes(world: OtherWritersWorld, reason: string): Promise<readonly (string | undefined)[]> {
  return (await world.told(reason)).map(({ note }) => note).sort()
}

const master = (number: number) => ({ address: `192.0.2.${number}`, host: `host-${number}` })

/** Every change of the list that the masters' logs tell of, once each, the arrivals first. */
function changesIn(masters: readonly RunningMaster[]) {
  const lines = masters.flatMap((each) => each.said(/^resetting endpoints/).filter(({ level }) => level === 'info'))
  return lines
    .filter(({ fields }) => fields.kind === 'Endpoints' || fields.verb !== 'create')
    .map(({ fields: { added, removed } }) => ({ added, removed }) as { added: unknown[]; removed: unknown[] })
    .sort((a, b) => b.added.length - a.added.length || JSON.stringify(a).localeCompare(JSON.stringify(b)))
}

test('each master that comes or goes is told of once in the fleet, in the log and by an event, with the reason that it goes for', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const [second, third] = [changing(), changing()]
  const masters = [
    world.start(1),
    world.start(2, {}, second.ports),
    world.start(3, { readinessGate: 'startup' }, third.ports),
    world.start(4),
  ]
  await time.advance(3_000)
  const all = [1, 2, 3, 4].map((number) => `192.0.2.${number} (host-${number})`)
  assert.deepEqual(
    await notes(world, 'MasterListed'),
    all.map((name) => `${name} is listed`),
  )

  second.becomes(unready)
  await time.advance(6_000)
  third.becomes(silent)
  await time.advance(30_000)
  masters[3]?.stop()
  await time.advance(1_000)
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
  assert.deepEqual(await notes(world, 'MasterRemoved'), [
    `${all[1]} is no longer listed: its API server is not ready (failing checks: informer-sync)`,
    `${all[2]} is no longer listed: its lease has ended`,
    `${all[3]} is no longer listed: it is leaving`,
  ])
  assert.deepEqual(changesIn(masters), [
    { added: [1, 2, 3, 4].map(master), removed: [] },
    { added: [], removed: [{ ...master(2), reason: 'unready', detail: 'failing checks: informer-sync' }] },
    { added: [], removed: [{ ...master(3), reason: 'lease-ended' }] },
    { added: [], removed: [{ ...master(4), reason: 'leaving' }] },
  ])
  const delays = await Promise.all(
    masters.map((each) => each.sample('apiserver_bootstrap_removal_delay_seconds_count')),
  )
  assert.equal(
    delays.reduce((sum, count) => sum + count, 0),
    3,
    'measured by whoever removed it, once each',
  )
  const states = ['ready', 'failing', 'unready', 'leaving', 'withdrawn', 'foreign', 'doubtful']
  const counts = await Promise.all(
    states.map((state) => masters[0]?.sample(`apiserver_bootstrap_masters{state="${state}"}`)),
  )
  assert.deepEqual(counts, [1, 0, 1, 0, 0, 0, 0])
  assert.equal(await masters[0]?.sample('apiserver_bootstrap_listed_addresses'), 1)
})

test('a master that is withdrawn by the command is told of as such', async (t) => {
  const world = new OtherWritersWorld(t)
  world.start(1)
  world.start(2)
  await world.time.advance(3_000)
  const ports = {
    api: world.connect('apiserver-bootstrap'),
    readiness: changing().ports.readiness,
    clock: world.time.view(),
    random: seededRandom(2, 'withdraw'),
    logger: silentLogger,
    metrics: prometheusMetrics(),
  }
  const options = defineMaster({ advertiseAddress: '192.0.2.2' }, 'host-2')
  assert.equal((await withdrawMaster(options, ports, new AbortController().signal)).type, 'withdrawn')
  await world.time.advance(1_000)
  assert.deepEqual(await notes(world, 'MasterRemoved'), ['192.0.2.2 (host-2) is no longer listed: it was withdrawn'])
})

test('a master that takes itself out is leaving, though its lease has gone first', async (t) => {
  const world = new OtherWritersWorld(t)
  const only = world.start(1, { onShutdown: 'always' })
  await world.time.advance(3_000)
  only.stop()
  await world.time.advance(1_000)
  assert.deepEqual(await notes(world, 'MasterRemoved'), ['192.0.2.1 (host-1) is no longer listed: it is leaving'])
})

test('a master at an address that another host holds says so; one that is started again does not', async (t) => {
  const world = new OtherWritersWorld(t)
  world.start(1)
  await world.time.advance(3_000)
  const again = world.start(1)
  await world.time.advance(3_000)
  again.stop()
  assert.deepEqual(await notes(world, 'LeaseTakenOver'), [])
  world.start(2, { advertiseAddress: '192.0.2.1' })
  await world.time.advance(3_000)
  const [note, ...more] = await notes(world, 'LeaseTakenOver')
  assert.match(note ?? '', /^192\.0\.2\.1 is now held by host-2, and still by host-1:/)
  assert.deepEqual(more, [])
})

test('what somebody changed and what was wrong from the start is told of, a list that follows the masters is not', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const vandal = world.connect('vandal')
  const ports = [{ name: 'x', port: 8443, targetPort: 1 }]
  world.start(1)
  await time.advance(3_000)
  assert.deepEqual(await notes(world, 'KubernetesServiceReset'), [])
  await vandal.patch(services, KUBERNETES_SERVICE, { type: 'merge', body: { spec: { ports } } })
  await vandal.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { metadata: { labels: null } } })
  await vandal.delete(endpointSlices, KUBERNETES_SERVICE)
  await time.advance(1_000)
  assert.deepEqual(await notes(world, 'KubernetesServiceReset'), [
    'EndpointSlice default/kubernetes was deleted; it was made again',
    'Endpoints default/kubernetes was changed (skip-mirror-label) and put right',
    'Service default/kubernetes was changed by vandal (ports) and put right',
  ])
  const [service] = (await world.told('KubernetesServiceReset')).filter(
    ({ regarding }) => regarding?.kind === 'Service',
  )
  assert.equal(service?.regarding?.uid, (await vandal.get(services, KUBERNETES_SERVICE)).metadata?.uid)
})

test('a dry run tells nothing', async (t) => {
  const world = new OtherWritersWorld(t)
  const master = world.start(1)
  await world.time.advance(3_000)
  master.stop()
  await world.time.advance(30_000)
  const api = world.connect('somebody')
  const before = (await api.list(events)).items.length
  const dry = world.start(2, { dryRun: 'true' })
  let round = 0
  const rename = () => {
    const subsets = [{ addresses: [{ ip: `198.51.100.${++round % 9}` }], ports: [{ port: 1 }] }]
    return api.patch(endpoints, KUBERNETES_SERVICE, { type: 'merge', body: { subsets } })
  }
  await world.repeat(rename, { everyMs: 100, forMs: 15_000 })
  assert.deepEqual(dry.said(/keeps undoing/), [], 'what is never written is never undone')
  await world.time.advance(60_000)
  dry.stop()
  await world.time.advance(30_000)
  assert.equal((await api.list(events)).items.length, before)
  assert.deepEqual(
    dry.said(/would write/).filter((line) => JSON.stringify(line).includes('"Event"')),
    [],
  )
})
