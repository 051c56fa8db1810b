import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MasterOptions } from '../../src/bootstrap/master-options.ts'
import { addressesOf } from '../../src/drill/listings.ts'
import { runDrill } from '../../src/drill/run-drill.ts'
import type { FleetPlan, Step } from '../../src/drill/scenario/scenario.ts'
import { Fleet } from '../../src/drill/simulator/fleet.ts'
import { SimulatedKubeApiserver } from '../../src/drill/simulator/kube-apiserver.ts'
import type { SimulatedMaster } from '../../src/drill/simulator/master.ts'
import { isKubeError } from '../../src/kube/errors.ts'
import {
  type EndpointSlice,
  endpointSlices,
  endpoints,
  leases,
  namespaces,
  type Service,
  services,
} from '../../src/kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { parseAddress } from '../../src/net/address.ts'
import { parseCidr } from '../../src/net/cidr.ts'
import { type Random, randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { scenarioOf } from '../drill/drilled.ts'
import { fleetPlan, masterPlan } from '../drill/simulator/fleet-under-test.ts'
import { inUnitOrFloor } from '../support/tier.ts'

const ranges = ['10.96.0.0/16', 'fd00:10:96::/112'].map(parseCidr)
const primaryRange = ranges.slice(0, 1)
const first = (number: number): string => `192.0.2.${number}`
const second = (number: number): string => `2001:db8::${number}`

type Settings = Pick<MasterOptions, 'advertiseAddresses' | 'serviceClusterIpRanges'>

function dual(number: number): Settings {
  return { advertiseAddresses: [first(number), second(number)].map(parseAddress), serviceClusterIpRanges: ranges }
}

function single(number: number): Settings {
  return { advertiseAddresses: [parseAddress(first(number))], serviceClusterIpRanges: primaryRange }
}

interface Undo {
  after(undo: () => Promise<void>): void
}

/** A fleet of three masters that starts those with settings. */
async function startedFleet(
  t: Undo,
  settings: readonly Settings[],
  master: Partial<MasterOptions> = {},
): Promise<Fleet> {
  const fleet = new Fleet({ seed: 1, masters: 3, master })
  t.after(() => fleet.close())
  for (const [index, of] of settings.entries()) masterOf(fleet, index + 1).start(of)
  await fleet.advance(8_000)
  return fleet
}

function masterOf(fleet: Fleet, number: number): SimulatedMaster {
  return fleet.masters[number - 1] as SimulatedMaster
}

interface State {
  readonly policy: string | undefined
  readonly clusterIPs: readonly string[] | undefined
  readonly listed: readonly string[] | undefined
  /** Undefined if the second slice does not exist. */
  readonly second: readonly string[] | undefined
}

async function stateOf(fleet: Fleet): Promise<State> {
  const { api } = fleet
  const orUndefined = <T>(read: Promise<T>): Promise<T | undefined> =>
    read.catch((error: unknown) => {
      if (isKubeError(error, 'NotFound')) return undefined
      throw error
    })
  const [service, listed, slice] = await Promise.all([
    orUndefined<Service>(api.get(services, KUBERNETES_SERVICE)),
    orUndefined(api.get(endpoints, KUBERNETES_SERVICE)),
    orUndefined<EndpointSlice>(api.get(endpointSlices, { ...KUBERNETES_SERVICE, name: 'kubernetes-ipv6' })),
  ])
  return {
    policy: service?.spec?.ipFamilyPolicy,
    clusterIPs: service?.spec?.clusterIPs,
    listed: listed && addressesOf(listed),
    second: slice && addressesOf(slice),
  }
}

function dualState(...numbers: readonly number[]): State {
  return {
    policy: 'PreferDualStack',
    clusterIPs: ['10.96.0.1', 'fd00:10:96::1'],
    listed: numbers.map(first),
    second: numbers.map(second),
  }
}

function singleState(...numbers: readonly number[]): State {
  return { policy: 'SingleStack', clusterIPs: ['10.96.0.1'], listed: numbers.map(first), second: undefined }
}

/** What the masters wrote to the Service, the Endpoints and the slices since a moment. */
function writesSince(fleet: Fleet, atMs: number): readonly string[] {
  return fleet.requests
    .filter(({ atMs: at, request: { method, path } }) => at > atMs && method !== 'GET' && path.includes('/default/'))
    .map(({ by, request: { method, path } }) => `${by} ${method} ${path.split('/default/')[1]}`)
}

async function assertQuiet(fleet: Fleet): Promise<void> {
  const fromMs = fleet.time.nowMs
  await fleet.advance(30_000)
  assert.deepEqual(writesSince(fleet, fromMs), [])
}

test('masters that all have two addresses write a Service and slices of both families, and then nothing more', async (t) => {
  const fleet = await startedFleet(t, [dual(1), dual(2), dual(3)])
  assert.deepEqual(await stateOf(fleet), dualState(1, 2, 3))
  await assertQuiet(fleet)
})

test('a master with one address removes the second family when it joins; the family returns when its lease ends', async (t) => {
  const fleet = await startedFleet(t, [dual(1), dual(2)])
  masterOf(fleet, 3).start(single(3))
  await fleet.advance(4_000)
  assert.deepEqual(await stateOf(fleet), singleState(1, 2, 3))
  await assertQuiet(fleet)
  masterOf(fleet, 3).kill()
  const { time } = fleet
  await fleet.advance(25_000)
  assert.deepEqual(await stateOf(fleet), dualState(1, 2))
  const goneMs = fleet.listings.findLast(({ object }) => object === 'endpoints')?.atMs ?? 0
  const raised = fleet.requests.find(
    ({ atMs, request }) => atMs >= goneMs && request.method === 'POST' && request.path.endsWith('/endpointslices'),
  )
  assert.ok(raised !== undefined && raised.atMs - goneMs < 100, `${raised?.atMs} after ${goneMs} of ${time.nowMs}`)
  await assertQuiet(fleet)
})

test('a fleet rolled to two addresses and back has the expected families after each step, with few writes', async (t) => {
  const fleet = await startedFleet(t, [single(1), single(2), single(3)])
  assert.deepEqual(await stateOf(fleet), singleState(1, 2, 3))
  const roll = async (number: number, settings: Settings, expected: State): Promise<void> => {
    const fromMs = fleet.time.nowMs
    masterOf(fleet, number).terminate()
    await fleet.advance(3_000)
    masterOf(fleet, number).start(settings)
    await fleet.advance(8_000)
    assert.deepEqual(await stateOf(fleet), expected)
    // Leaving and coming back are two changes of up to four objects, each noticed by at most three masters.
    const writes = writesSince(fleet, fromMs)
    assert.ok(writes.length <= 24, writes.join('\n'))
    await assertQuiet(fleet)
  }
  await roll(1, dual(1), singleState(1, 2, 3))
  await roll(2, dual(2), singleState(1, 2, 3))
  await roll(3, dual(3), dualState(1, 2, 3))
  await roll(1, single(1), singleState(1, 2, 3))
  await roll(2, single(2), singleState(1, 2, 3))
  await roll(3, single(3), singleState(1, 2, 3))
})

test('two overlapping processes of one master with different addresses settle on one family, and write nothing more', async (t) => {
  const fleet = await startedFleet(t, [dual(1), dual(2)])
  masterOf(fleet, 1).start(single(1))
  await fleet.advance(5_000)
  assert.deepEqual(await stateOf(fleet), singleState(1, 2))
  await assertQuiet(fleet)
})

test('readiness changes the second slice, but not the Service', async (t) => {
  const fleet = await startedFleet(t, [dual(1), dual(2)])
  const { server } = masterOf(fleet, 1)
  server.ready = false
  await fleet.advance(6_000)
  assert.deepEqual(await stateOf(fleet), dualState(2))
  server.ready = true
  await fleet.advance(5_000)
  assert.deepEqual(await stateOf(fleet), dualState(1, 2))
  const toService = fleet.requests.filter(
    ({ request }) => request.method === 'PUT' && /\/services\//.test(request.path),
  )
  assert.ok(toService.length <= 2, `${toService.length} updates of the Service`)
})

test('damage to the second slice, the families or the Service is repaired within 1.5 s', async (t) => {
  const fleet = await startedFleet(t, [dual(1), dual(2)])
  const { api } = fleet
  const ref = { ...KUBERNETES_SERVICE, name: 'kubernetes-ipv6' }
  const slice = await api.get(endpointSlices, ref)
  const patch = (body: object) => api.patch(endpointSlices, ref, { type: 'merge', body })
  const policy = (ipFamilyPolicy: string) =>
    api.patch(services, KUBERNETES_SERVICE, { type: 'merge', body: { spec: { ipFamilyPolicy } } })
  const { resourceVersion: _version, uid: _uid, ...metadata } = slice.metadata ?? {}
  const foreign = [{ addresses: ['2001:db8::bad'], conditions: { ready: true } }]
  const damages: Readonly<Record<string, () => Promise<unknown>>> = {
    deleted: () => api.delete(endpointSlices, ref),
    'without labels': () => patch({ metadata: { labels: null } }),
    'without endpoints': () => patch({ endpoints: [] }),
    'with a foreign endpoint': () => patch({ endpoints: foreign }),
    'with a foreign port': () => patch({ ports: [{ name: 'https', port: 1, protocol: 'TCP' }] }),
    'with an owner': () => patch({ metadata: { labels: { 'endpointslice.kubernetes.io/managed-by': 'x' } } }),
    'of the other type': async () => {
      await api.delete(endpointSlices, ref)
      const endpointsOfType = [{ addresses: ['192.0.2.9'], conditions: { ready: true } }]
      await api.create(endpointSlices, { ...slice, metadata, addressType: 'IPv4', endpoints: endpointsOfType })
    },
    'Service with one family': () => policy('SingleStack'),
    'Service that requires both': () => policy('RequireDualStack'),
    'Service deleted': () => api.delete(services, KUBERNETES_SERVICE),
    'Endpoints with a foreign port': () =>
      api.patch(endpoints, KUBERNETES_SERVICE, {
        type: 'merge',
        body: { subsets: [{ addresses: [{ ip: first(1) }], ports: [{ name: 'https', port: 1, protocol: 'TCP' }] }] },
      }),
  }
  for (const [name, damage] of Object.entries(damages)) {
    // A master that has not yet received the slice's last creation may create the slice before the damage does.
    await damage().catch((error: unknown) => assert.ok(isKubeError(error, 'AlreadyExists'), `${name}: ${error}`))
    await fleet.advance(1_500)
    assert.deepEqual(await stateOf(fleet), dualState(1, 2), name)
    const corrected = await api.get(endpointSlices, ref)
    assert.deepEqual(corrected.metadata?.labels, slice.metadata?.labels, name)
    assert.deepEqual([corrected.ports, corrected.addressType], [slice.ports, slice.addressType], name)
  }
  await assertQuiet(fleet)
})

test('left-over second slices of either family are removed, and slices of other owners stay', async (t) => {
  const fleet = await startedFleet(t, [])
  const labels = { 'kubernetes.io/service-name': 'kubernetes' }
  const make = (name: string, more: object = {}) =>
    fleet.api.create(endpointSlices, {
      metadata: { name, namespace: 'default', labels: { ...labels, ...more } },
      addressType: 'IPv6',
      endpoints: [],
    })
  await fleet.api.create(namespaces, {
    metadata: { name: 'default' },
  })
  await make('kubernetes-ipv6')
  await make('kubernetes-ipv4')
  await make('kubernetes-other')
  masterOf(fleet, 1).start(single(1))
  await fleet.advance(5_000)
  const names = async () => (await fleet.api.list(endpointSlices)).items.map(({ metadata }) => metadata?.name)
  assert.deepEqual(await names(), ['kubernetes', 'kubernetes-other'])
  await make('kubernetes-ipv6', { 'endpointslice.kubernetes.io/managed-by': 'somebody.example' })
  await fleet.advance(15_000)
  assert.deepEqual(await names(), ['kubernetes', 'kubernetes-ipv6', 'kubernetes-other'])
  await assertQuiet(fleet)
})

test('with `always` the last master empties Endpoints and deletes the second slice', async (t) => {
  const fleet = await startedFleet(t, [dual(1), dual(2)], { onShutdown: 'always' })
  masterOf(fleet, 1).terminate()
  await fleet.advance(1_000)
  assert.deepEqual(await stateOf(fleet), dualState(2))
  masterOf(fleet, 2).terminate()
  await fleet.advance(1_000)
  assert.deepEqual(await stateOf(fleet), { ...dualState(), second: undefined })
  masterOf(fleet, 1).start(single(1))
  await fleet.advance(5_000)
  assert.deepEqual(await stateOf(fleet), singleState(1))
})

test('a lone master that restarts without a lease preserves both families and writes nothing', async (t) => {
  const fleet = await startedFleet(t, [dual(1)])
  const fromMs = fleet.time.nowMs
  masterOf(fleet, 1).kill()
  for (const { metadata } of (await fleet.api.list(leases)).items) {
    await fleet.api.delete(leases, { namespace: metadata?.namespace, name: metadata?.name ?? '' })
  }
  await fleet.advance(1_000)
  masterOf(fleet, 1).start(dual(1))
  await fleet.advance(10_000)
  assert.deepEqual(writesSince(fleet, fromMs), [])
  assert.deepEqual(await stateOf(fleet), dualState(1))
})

test('a graceful restart of a lone master preserves both families and writes nothing', async (t) => {
  const fleet = await startedFleet(t, [dual(1)])
  const fromMs = fleet.time.nowMs
  masterOf(fleet, 1).terminate()
  await fleet.advance(3_000)
  masterOf(fleet, 1).start(dual(1))
  await fleet.advance(10_000)
  assert.deepEqual(writesSince(fleet, fromMs), [])
  assert.deepEqual(await stateOf(fleet), dualState(1))
})

test('masters drop the second family while a kube-apiserver has a lease, and restore it when the lease ends', async (t) => {
  const fleet = new Fleet({ seed: 1, masters: 2, etcd: 'etcd' })
  t.after(() => fleet.close())
  for (const number of [1, 2]) masterOf(fleet, number).start(dual(number))
  await fleet.advance(8_000)
  assert.deepEqual(await stateOf(fleet), dualState(1, 2))
  const other = new SimulatedKubeApiserver(fleet.surroundings, { name: 'kube-apiserver', address: first(3) })
  other.start()
  await fleet.advance(8_000)
  assert.deepEqual(await stateOf(fleet), singleState(1, 2, 3))
  await assertQuiet(fleet)
  other.kill()
  await fleet.advance(17_000)
  assert.deepEqual(await stateOf(fleet), dualState(1, 2))
  await assertQuiet(fleet)
})

/** A sidecar restarts while no master can renew. */
const outage: readonly Step[] = [
  { atMs: 10_000, jitterMs: 5_000, action: 'datastore-outage', how: 'full', forMs: 25_000 },
  {
    atMs: 15_000,
    jitterMs: 20_000,
    action: 'restart',
    masters: ['master-2'],
    part: 'sidecar',
    signal: 'kill',
    pauseMs: 3_000,
  },
]

const hangs: readonly Step[] = [
  { atMs: 10_000, jitterMs: 5_000, action: 'readyz-fails', masters: 'all', how: 'hangs', forMs: 30_000 },
  {
    atMs: 12_000,
    jitterMs: 20_000,
    action: 'restart',
    masters: ['master-2'],
    part: 'sidecar',
    signal: 'kill',
    pauseMs: 2_000,
  },
  { atMs: 12_000, jitterMs: 20_000, action: 'terminate', masters: ['master-1'], part: 'sidecar', forMs: 15_000 },
]

const terminated: readonly Step[] = [
  { atMs: 10_000, jitterMs: 5_000, action: 'datastore-outage', how: 'away', forMs: 25_000 },
  { atMs: 12_000, jitterMs: 20_000, action: 'terminate', masters: 'all', part: 'sidecar', forMs: 10_000 },
]

const killed: Step = {
  atMs: 14_000,
  jitterMs: 15_000,
  action: 'kill',
  masters: ['master-1'],
  part: 'both',
  forMs: 100_000,
}

/** The seed, the lease stores, the steps and the number of addresses of master-1. */
const outages: Readonly<Record<string, readonly [number, readonly FleetPlan['leaseStore'][], readonly Step[], 1 | 2]>> =
  {
    'a sidecar is restarted in an outage': [5, ['etcd'], outage, 2],
    'servers hang, and sidecars are restarted': [12, ['etcd', 'kubernetes', 'memory'], hangs, 2],
    'all sidecars are stopped and started in an outage': [1, ['etcd'], terminated, 2],
    'a master has one address': [5, ['etcd'], outage, 1],
    'a master with one address ends in the outage': [5, ['etcd'], [...outage, killed], 1],
  }

for (const [name, [seed, stores, steps, addresses]] of Object.entries(outages)) {
  test(`no invariant is violated although a restarted master does not know which families the fleet has: ${name}`, async () => {
    const numbers = [1, 2, 3]
    const masters = numbers.map((number) =>
      masterPlan(number, { addresses: [first(number), second(number)].slice(0, number === 1 ? addresses : 2) }),
    )
    const variants = stores.map((leaseStore) => ({ name: leaseStore, fleet: { leaseStore } }))
    const scenario = scenarioOf(fleetPlan(3, { masters }), steps, 80_000)
    const report = await runDrill(scenario, { seed, variants })
    assert.deepEqual(
      report.variants.flatMap(({ runs }) => runs.flatMap(({ violations }) => violations)),
      [],
    )
  })
}

const SEEDS = inUnitOrFloor(15, 40)

test(`${SEEDS} random schedules of masters with one or two addresses end in the state of the living masters, without writes`, async () => {
  for (let seed = 1; seed <= SEEDS; seed++) await runSchedule(seed)
})

async function runSchedule(seed: number): Promise<void> {
  const fleet = new Fleet({ seed, masters: 3, etcd: seed % 2 === 0 ? 'etcd' : undefined })
  const random = seededRandom(seed, 'schedule')
  const schedule: string[] = []
  /** The running masters, and whether each has two addresses. */
  const alive = new Map<number, boolean>()
  try {
    for (let step = 0; step < 12; step++) {
      schedule.push(disturb(fleet, random, alive))
      await fleet.advance(randomInteger(random, 6_000))
    }
    // By now killed masters are removed, started ones are listed, and of two overlapping lives the earlier has ended.
    await fleet.advance(25_000)
    const expected = [...alive.values()].every((isDual) => isDual) ? dualState : singleState
    if (alive.size > 0) assert.deepEqual(await stateOf(fleet), expected(...[...alive.keys()].sort()))
    await assertQuiet(fleet)
  } catch (error) {
    throw new Error(`seed ${seed}: ${schedule.join(', ')}`, { cause: error })
  } finally {
    await fleet.close()
  }
}

function disturb(fleet: Fleet, random: Random, alive: Map<number, boolean>): string {
  const number = 1 + randomInteger(random, 3)
  const master = masterOf(fleet, number)
  const before = master.life
  const how = ['overlapping', 'killed', 'terminated'][randomInteger(random, 3)]
  if (before !== undefined && how === 'killed') {
    master.kill()
    alive.delete(number)
    return `kill ${number}`
  }
  if (before !== undefined && how === 'terminated') master.terminate()
  else before?.clock.schedule(4_000, () => before.stop.abort(new Error('SIGTERM')))
  const isDual = randomInteger(random, 3) > 0
  master.start(isDual ? dual(number) : single(number))
  alive.set(number, isDual)
  return `start ${number} ${isDual ? 'dual' : 'single'} ${before === undefined ? '' : how}`.trimEnd()
}
