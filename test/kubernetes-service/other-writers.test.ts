import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MasterSettings } from '../../src/config/master-options.ts'
import { EtcdError } from '../../src/etcd/kv.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  leases,
  type Service,
  services,
} from '../../src/kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd/leases.ts'
import { encodeMasterLease } from '../../src/protobuf/master-lease.ts'
import { EtcdRangeRegistry } from '../../src/repair/registries/etcd.ts'
import type { LogFields } from '../../src/telemetry/logger.ts'
import { OtherWritersWorld } from './other-writers-world.ts'

const everyMs = 50
const backingOff = /^another writer keeps overwriting/
const calmAgain = /^other writers no longer overwrite/

const undoEndpoints = (api: KubeApi, address = '198.51.100.1'): Promise<unknown> =>
  api.patch(endpoints, KUBERNETES_SERVICE, {
    type: 'merge',
    body: { subsets: [{ addresses: [{ ip: address }], ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] }] },
  })
const undoSlice = (api: KubeApi): Promise<unknown> => api.delete(endpointSlices, KUBERNETES_SERVICE)
const undoService = (api: KubeApi): Promise<unknown> =>
  api.patch(services, KUBERNETES_SERVICE, {
    type: 'merge',
    body: { spec: { ports: [{ name: 'x', port: 8443, targetPort: 1 }] } },
  })

const isEndpointsRight = ({ subsets }: Endpoints): boolean => subsets?.[0]?.addresses?.[0]?.ip === '192.0.2.1'
const isSliceRight = (_slice: EndpointSlice): boolean => true
const isAbout = ({ objectRef }: LogFields, resource: string): boolean =>
  (objectRef as { readonly resource?: string }).resource === resource
const isServiceRight = ({ spec }: Service): boolean => spec?.ports?.[0]?.port === 443

const fights = {
  'replaces the addresses of Endpoints': {
    kind: 'Endpoints',
    undo: undoEndpoints,
    follow: (world: OtherWritersWorld) => world.follow(endpoints, isEndpointsRight),
    writer: 'mangler',
  },
  'deletes the slice': {
    kind: 'EndpointSlice',
    undo: undoSlice,
    follow: (world: OtherWritersWorld) => world.follow(endpointSlices, isSliceRight),
    writer: undefined,
  },
  'changes the ports of the Service': {
    kind: 'Service',
    undo: undoService,
    follow: (world: OtherWritersWorld) => world.follow(services, isServiceRight),
    writer: 'mangler',
  },
}

for (const [name, { kind, undo, follow, writer }] of Object.entries(fights)) {
  test(`a writer that ${name} every 50 ms causes a back-off and one report, and a fight leaves nothing behind`, async (t) => {
    const world = new OtherWritersWorld(t)
    const { time } = world
    const master = world.start(1)
    await time.advance(3_000)
    const seen = await follow(world)
    const mangler = world.connect('mangler')
    const startedMs = time.nowMs
    await world.repeat(() => undo(mangler), { everyMs, forMs: 15_000 })
    const corrections = seen.filter(({ right }) => right).map(({ atMs }) => atMs - startedMs)
    assert.ok(corrections.filter((atMs) => atMs < 600).length <= 10, `${corrections}`)
    assert.ok(corrections.length < 45, `${corrections.length} corrections in 15 s`)
    assert.ok(
      corrections.some((atMs) => atMs > 5_000),
      'corrections continue',
    )
    assert.equal(await master.sample(`apiserver_bootstrap_backing_off{kind="${kind}"}`), 1)

    await time.advance(2_000)
    assert.equal(seen.at(-1)?.right, true)
    const [event, ...more] = await world.eventsAbout('ForeignOverwrite')
    assert.deepEqual(more, [])
    assert.equal(event?.regarding?.kind, kind)
    assert.match(event?.note ?? '', writer === undefined ? /without a trace/ : new RegExp(`field manager ${writer};`))
    assert.equal(master.logged(backingOff).length, 1)
    assert.ok((await world.eventsAbout('KubernetesServiceReset')).length <= 10, 'a fight causes few Events')
    assert.deepEqual(await world.eventsAbout('MasterRemoved'), [], 'no master was removed')
    const resource = kind.toLowerCase().replace(/s?$/, 's')
    const lines = master.logged(/^/).filter(({ fields }) => fields.audit && isAbout(fields, resource))
    assert.equal(lines.length, corrections.length + 2, 'a line for each, for the creation and for the last one')

    await time.advance(12_000)
    assert.equal(master.logged(calmAgain).length, 1)
    assert.equal(await master.sample(`apiserver_bootstrap_backing_off{kind="${kind}"}`), 0)
    assert.equal(await master.sample(`apiserver_bootstrap_backoffs_total{kind="${kind}"}`), 1)
    const label = `{kind="${kind}",writer="${writer ?? 'unknown'}"}`
    assert.equal(await master.sample(`apiserver_bootstrap_foreign_overwrites_total${label}`), corrections.length + 1)
    const { length } = seen
    await world.repeat(() => undo(mangler), { everyMs, forMs: everyMs })
    assert.deepEqual(
      seen.slice(length).map(({ right }) => right),
      [false, true],
    )
  })
}

test('during a fight for Endpoints all else is corrected at once, and a new master is listed', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const master = world.start(1)
  await time.advance(3_000)
  const mangler = world.connect('mangler')
  const fight = (forMs: number) => world.repeat(() => undoEndpoints(mangler), { everyMs, forMs })
  await fight(30_000)
  assert.equal(master.logged(backingOff).length, 1)
  for (const { follow, undo } of [fights['deletes the slice'], fights['changes the ports of the Service']]) {
    const seen = await follow(world)
    await undo(mangler)
    await fight(everyMs)
    assert.deepEqual(
      seen.map(({ right }) => right),
      [false, true],
    )
  }
  const slice = await mangler.get(endpointSlices, KUBERNETES_SERVICE)
  assert.deepEqual(
    slice.endpoints?.map((endpoint) => endpoint.addresses),
    [['192.0.2.1']],
    'the EndpointSlice stays correct',
  )
  world.start(2)
  const seen = await world.follow(
    endpoints,
    ({ subsets }) => subsets?.[0]?.addresses?.some(({ ip }) => ip === '192.0.2.2') === true,
  )
  await fight(1_000)
  assert.ok(seen.some(({ right }) => right))
})

test('a writer that changes Endpoints every 50 ms does not make this program flood the API server', async (t) => {
  const world = new OtherWritersWorld(t)
  world.start(1)
  await world.time.advance(3_000)
  const mangler = world.connect('mangler')
  let round = 0
  const fight = (forMs: number) =>
    world.repeat(() => undoEndpoints(mangler, `198.51.100.${(round++ % 9) + 1}`), { everyMs, forMs })
  await fight(15_000)
  const before = world.requests.get('apiserver-bootstrap') ?? 0
  await fight(15_000)
  const asked = (world.requests.get('apiserver-bootstrap') ?? 0) - before
  assert.ok(asked < 50, `${asked} requests while the other writer made 300`)
})

test('a fight is neither an outage nor a refusal, and does not delay a master that is stopped', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const [master] = [world.start(1), world.start(2)]
  await time.advance(3_000)
  const mangler = world.connect('mangler')
  await world.repeat(() => undoEndpoints(mangler), { everyMs, forMs: 60_000 })
  assert.deepEqual(master.logged(/lost|refuses|operation failed/), [])
  assert.equal(await master.sample('apiserver_bootstrap_api_available'), 1)
  master.stop()
  await time.advance(200)
  await master.ended
  assert.deepEqual(await world.listed(), ['192.0.2.2'])
})

test('a list that a kube-apiserver overwrites every ten seconds is reported once, with the flag that ends it', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const master = world.start(1)
  await time.advance(3_000)
  const server = world.connect('kube-apiserver')
  const overwrite = (forMs: number) => world.repeat(() => undoEndpoints(server), { everyMs: 10_000, forMs })
  await overwrite(10_000)
  assert.deepEqual(await world.eventsAbout('OtherReconcilerActive'), [])
  await overwrite(300_000)
  const [event, ...more] = await world.eventsAbout('OtherReconcilerActive')
  assert.deepEqual(more, [])
  assert.match(
    event?.note ?? '',
    /^kube-apiserver overwrites .* --endpoint-reconciler-type=none, or give this program --etcd-servers/,
  )
  assert.equal(master.logged(/--endpoint-reconciler-type=none/).length, 1)
  assert.deepEqual(master.logged(backingOff), [])
})

test('two overwrites by kube-apiservers within seconds, and two more a minute later, are not reported', async (t) => {
  const world = new OtherWritersWorld(t)
  world.start(1)
  await world.time.advance(3_000)
  const server = world.connect('kube-apiserver')
  const overwrite = () => world.repeat(() => undoEndpoints(server), { everyMs: 1_000, forMs: 2_000 })
  await overwrite()
  await world.time.advance(70_000)
  await overwrite()
  assert.deepEqual(await world.eventsAbout('OtherReconcilerActive'), [])
})

test('a kube-apiserver that displaces a master with the master-count reconciler is reported too', async (t) => {
  const world = new OtherWritersWorld(t)
  world.start(1, { endpointReconcilerType: 'master-count' })
  await world.time.advance(3_000)
  const server = world.connect('kube-apiserver')
  await world.repeat(() => undoEndpoints(server), { everyMs: 10_000, forMs: 60_000 })
  assert.equal((await world.eventsAbout('OtherReconcilerActive')).length, 1)
})

test('another master with another lease store is reported as such', async (t) => {
  const world = new OtherWritersWorld(t)
  const masters = [world.start(1), world.start(2, { leaseStore: 'memory' })]
  await world.time.advance(30_000)
  const notes = (await world.eventsAbout('ForeignOverwrite')).map(
    ({ note, regarding }) => `${regarding?.kind}: ${note}`,
  )
  assert.ok(notes.length > 0)
  for (const note of notes)
    assert.match(note, /overwritten each time by another apiserver-bootstrap;.*the same lease store/)
  for (const master of masters) assert.deepEqual(master.logged(/lost|refuses|operation failed/), [])
  const others = masters.map((master) => master.logged(/uses another lease store.*docs\/lease-stores\.md/))
  assert.deepEqual(
    others.map((lines) => lines.map(({ fields }) => fields.others)),
    [[['192.0.2.2']], [['192.0.2.1']]],
  )
  assert.equal((await world.eventsAbout('OtherLeaseStore')).length, 2)
})

test('damage of one object every 1.2 s for two minutes is corrected each time and is no fight', async (t) => {
  const world = new OtherWritersWorld(t)
  const master = world.start(1)
  await world.time.advance(3_000)
  const seen = await world.follow(endpoints, isEndpointsRight)
  const vandal = world.connect('vandal')
  await world.repeat(() => undoEndpoints(vandal), { everyMs: 1_200, forMs: 120_000 })
  assert.equal(seen.length, 200)
  assert.deepEqual(master.logged(backingOff), [])
})

test('in a rolling restart of five masters no write counts as a foreign overwrite', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const numbers = [1, 2, 3, 4, 5]
  let masters = numbers.map((number) => world.start(number))
  const all = [...masters]
  await time.advance(3_000)
  for (let round = 0; round < 3; round++) {
    const next = []
    for (const [index, master] of masters.entries()) {
      master.stop()
      await time.advance(400)
      next.push(world.start(index + 1))
      await time.advance(400)
    }
    masters = next
    all.push(...next)
  }
  await time.advance(5_000)
  assert.deepEqual(
    [...(await world.listed())].sort(),
    numbers.map((number) => `192.0.2.${number}`),
  )
  for (const master of all) {
    const label = '{kind="Endpoints",writer="apiserver-bootstrap"}'
    assert.equal(await master.sample(`apiserver_bootstrap_foreign_overwrites_total${label}`), Number.NaN)
    assert.deepEqual(master.logged(/keeps overwriting|another lease store/), [])
  }
})

const inEtcd: Partial<MasterSettings> = { etcdServers: 'http://127.0.0.1:2379' }
const leaseStores = {
  kubernetes: {
    settings: {},
    async takeAway(world: OtherWritersWorld): Promise<boolean> {
      const api = world.connect('vandal')
      const [lease] = (await api.list(leases, { namespace: 'kube-system' })).items
      if (lease?.metadata?.name === undefined) return false
      await api.delete(leases, { namespace: 'kube-system', name: lease.metadata.name })
      return true
    },
  },
  etcd: {
    settings: inEtcd,
    async takeAway(world: OtherWritersWorld): Promise<boolean> {
      const { signal } = new AbortController()
      const etcd = world.etcd.client()
      const [lease] = (await etcd.list('/registry/masterleases/', { signal })).items
      return lease !== undefined && (await etcd.delete(lease.key, lease.modRevision, signal))
    },
  },
}

test('a lease that expired during an outage does not count as overwritten; a live lease that is deleted does', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  let away = false
  const kv = faultyEtcd(world.etcd.client(), {
    clock: time.view(),
    before: ({ method }) =>
      away && method !== 'watch' ? Promise.reject(new EtcdError('Unreachable', 'etcd is away')) : undefined,
  })
  const master = world.start(1, inEtcd, { etcd: { kv, Leases: EtcdLeases, Ranges: EtcdRangeRegistry } })
  const overwrites = () => master.sample('apiserver_bootstrap_foreign_overwrites_total{kind="Lease",writer="unknown"}')
  await time.advance(3_000)
  away = true
  await time.advance(20_000)
  const { signal } = new AbortController()
  assert.deepEqual(
    (await world.etcd.client().list('/registry/masterleases/', { signal })).items,
    [],
    'the fight has ended',
  )
  away = false
  await time.advance(5_000)
  assert.deepEqual(await world.listed(), ['192.0.2.1'])
  assert.equal(await overwrites(), Number.NaN)
  assert.ok(await leaseStores.etcd.takeAway(world))
  await time.advance(1_000)
  assert.equal(await overwrites(), 1)
})

test('ports of the Service that are changed while the leases cannot be read are corrected once they can be read', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  let away = false
  const kv = faultyEtcd(world.etcd.client(), {
    clock: time.view(),
    before: ({ method }) =>
      away && method === 'list' ? Promise.reject(new EtcdError('Unreachable', 'etcd is away')) : undefined,
  })
  world.start(1, inEtcd, { etcd: { kv, Leases: EtcdLeases, Ranges: EtcdRangeRegistry } })
  await time.advance(3_000)
  const api = world.connect('somebody')
  const port = async () => (await api.get(services, KUBERNETES_SERVICE)).spec?.ports?.[0]?.port
  away = true
  await time.advance(11_000)
  await undoService(api)
  await time.advance(2_000)
  assert.equal(await port(), 8443, 'other masters may require this port')
  away = false
  await time.advance(12_000)
  assert.equal(await port(), 443)
})

for (const [store, { settings, takeAway }] of Object.entries(leaseStores)) {
  test(`a lease in ${store} that is deleted every 50 ms is created again ten times, then with back-off, then at once again`, async (t) => {
    const world = new OtherWritersWorld(t)
    const { time } = world
    const master = world.start(1, settings)
    await time.advance(3_000)
    let taken = 0
    const steal = async (): Promise<void> => {
      if (await takeAway(world)) taken += 1
    }
    await world.repeat(steal, { everyMs, forMs: 500 })
    assert.equal(taken, 10)
    await world.repeat(steal, { everyMs, forMs: 59_500 })
    assert.ok(taken > 20 && taken < 50, `made again ${taken} times in a minute`)
    assert.deepEqual(master.logged(/lost|refuses|operation failed/), [])
    const [event, ...more] = await world.eventsAbout('LeaseContested')
    assert.deepEqual(more, [])
    assert.match(event?.note ?? '', /^The lease of 192\.0\.2\.1 was deleted and created again 10 times in /)
    assert.equal(await master.sample('apiserver_bootstrap_backing_off{kind="Lease"}'), 1)
    // The attempts are at most a third of the TTL of the lease apart.
    await time.advance(5_100)
    assert.deepEqual(await world.listed(), ['192.0.2.1'])
    await time.advance(10_000)
    assert.equal(await master.sample('apiserver_bootstrap_backing_off{kind="Lease"}'), 0)
    assert.equal(await master.sample('apiserver_bootstrap_backoffs_total{kind="Lease"}'), 1)
    await steal()
    await time.advance(everyMs)
    assert.ok(await takeAway(world), 'the lease was created again at once')
  })
}

test('a fleet with kube-apiservers that list the same masters causes no report', async (t) => {
  const world = new OtherWritersWorld(t)
  const { time } = world
  const masters = [world.start(1, inEtcd), world.start(2, inEtcd)]
  await time.advance(3_000)
  const server = world.connect('kube-apiserver')
  const list = async (...addresses: readonly string[]): Promise<unknown> =>
    server.patch(endpoints, KUBERNETES_SERVICE, {
      type: 'merge',
      body: {
        subsets: [
          { addresses: addresses.map((ip) => ({ ip })), ports: [{ name: 'https', port: 6443, protocol: 'TCP' }] },
        ],
      },
    })
  for (let round = 0; round < 6; round++) {
    const { signal } = new AbortController()
    const etcd = world.etcd.client()
    const lease = (await etcd.grantLease(15, signal)).id
    await etcd.create('/registry/masterleases/192.0.2.9', encodeMasterLease('192.0.2.9'), { lease, signal })
    await list('192.0.2.1', '192.0.2.2', '192.0.2.9')
    await time.advance(4_000)
    assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.2', '192.0.2.9'])
    await time.advance(20_000)
    assert.deepEqual(await world.listed(), ['192.0.2.1', '192.0.2.2'])
  }
  for (const master of masters) {
    assert.deepEqual(master.logged(/endpoint-reconciler-type|keeps overwriting/), [])
    const label = '{kind="Endpoints",writer="kube-apiserver"}'
    assert.equal(await master.sample(`apiserver_bootstrap_foreign_overwrites_total${label}`), Number.NaN)
  }
})
