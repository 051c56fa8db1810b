import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inProcessTransport } from '../../src/apiserver/api-server.ts'
import { createMaster, withdrawMaster } from '../../src/bootstrap/master.ts'
import { defineMaster } from '../../src/config/master-options.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import {
  endpointSlices,
  events,
  ipAddresses,
  namespaces,
  type Service,
  serviceCidrs,
  services,
} from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { newIpAddress } from '../../src/repair/ip-address/ip-address.ts'
import { noneRegistry, type RangeRegistry } from '../../src/repair/registries/range-registry.ts'
import { setUp } from './masters-world.ts'

const kubernetes = { namespace: 'default', name: 'kubernetes' }
const hooks = {
  'system-namespaces': 'start-system-namespaces-controller',
  'default-service-cidr': 'start-kubernetes-service-cidr-controller',
  'cluster-ip-repair': 'start-service-ip-repair-controllers',
} as const

/** The answer of a kube-apiserver that performs these duties itself. */
function serving(...duties: readonly (keyof typeof hooks)[]): ReadinessAnswer {
  const checks = [
    { name: 'ping', ok: true },
    ...(duties.length === 0 ? [] : [{ name: 'poststarthook/bootstrap-controller', ok: true }]),
    ...duties.map((duty) => ({ name: `poststarthook/${hooks[duty]}`, ok: true })),
  ]
  return { answered: true, ready: true, checks }
}

type World = ReturnType<typeof setUp>

/** A master beside a server whose answers the test changes. */
function beside(world: World, answer: ReadinessAnswer = serving(), settings: Parameters<World['start']>[0] = {}) {
  const server = { answer }
  const started = world.start(settings, { readiness: { probe: async () => server.answer } })
  const failing = async (): Promise<readonly string[]> => {
    const checks = started.master.lifecycle.checks('readyz')
    const faults = await Promise.all(checks.map(async ({ name, fault }) => ({ name, fault: await fault() })))
    return faults.filter(({ fault }) => fault !== undefined).map(({ name }) => name)
  }
  return { ...started, server, failing }
}

async function listed({ api }: World): Promise<unknown> {
  return (await api.get(endpointSlices, kubernetes)).endpoints?.map(({ addresses }) => addresses[0])
}

async function gauge({ ports }: World, name: 'active' | 'degraded', duty: string): Promise<string | undefined> {
  const sample = new RegExp(`^apiserver_bootstrap_duty_${name}\\{duty="${duty}"\\} (\\d)$`, 'm')
  return sample.exec(await ports.metrics.expose())?.[1]
}

const degrading = 'the duty is degraded; retrying'

for (const [name, path, check] of [
  ['the repair of IPAddresses', '/apis/networking.k8s.io/v1/ipaddresses', 'cluster-ip-repair'],
  ['a missing ServiceCIDR', '/apis/networking.k8s.io/v1/servicecidrs', 'default-service-cidr'],
] as const) {
  test(`${name}, refused for long, is degraded, affects no other duty, and recovers once it is granted`, async () => {
    const world = setUp()
    const { time, server, transport, api, ports, logged } = world
    const refuse = () => transport.faults.add({ fault: { type: 'status', status: 403 }, pathPrefix: path })
    if (check === 'cluster-ip-repair') refuse()
    const { failing, end, ended } = beside(world)
    if (check === 'default-service-cidr') {
      await time.advance(1_000)
      refuse()
      const others = restKubeApi({ ...ports, transport: inProcessTransport(server) })
      await others.delete(serviceCidrs, { name: 'kubernetes' })
    }
    const degradations = () => logged(degrading).filter(({ fields }) => fields.duty === check)
    await time.advance(55_000)
    assert.equal(degradations().length, 0)
    await time.advance(600_000)
    assert.equal(await Promise.race([ended, 'alive']), 'alive')
    assert.deepEqual(await listed(world), ['192.0.2.1'])
    assert.ok((await failing()).includes(check))
    assert.ok(!(await failing()).includes('node-port-repair'))
    assert.equal(await gauge(world, 'degraded', check), '1')
    assert.equal(await gauge(world, 'degraded', 'node-port-repair'), '0')
    assert.equal(degradations().length, 1)
    assert.match(String(degradations()[0]?.fields.reason), /403/)
    const notes = (await api.list(events)).items.filter(({ reason }) => reason === 'DutyDegraded')
    assert.ok(notes.some(({ note = '', type }) => type === 'Warning' && note.startsWith(`${check} is degraded: `)))
    transport.faults.clear()
    await time.advance(20_000)
    assert.deepEqual([await failing(), await gauge(world, 'degraded', check)], [[], '0'])
    const recovered = logged('the duty is no longer degraded').filter(({ fields }) => fields.duty === check)
    assert.equal(recovered.length, 1)
    await end()
  })
}

test('a start ends after default/kubernetes has been refused for a minute, but waits while the server is unreachable', async () => {
  const { time, transport, start } = setUp()
  transport.faults.add({
    fault: { type: 'status', status: 403 },
    methods: ['POST'],
    pathPrefix: '/api/v1/namespaces/default/services',
  })
  const refused = start()
  const failure = assert.rejects(refused.ended, /"bootstrap-controller" failed: still refused after 1m0s: create/)
  await time.advance(59_000)
  assert.equal(await Promise.race([failure, 'alive']), 'alive')
  await time.advance(60_000)
  await failure

  const away = setUp()
  away.transport.faults.partition()
  const waiting = away.start({}, { readiness: { probe: async () => ({ answered: false, reason: 'refused' }) } })
  await away.time.advance(600_000)
  assert.equal(await Promise.race([waiting.ended, 'alive']), 'alive')
  away.transport.faults.heal()
  await waiting.end()
})

test('a start waits until the repair frees the first ClusterIP, which the IPAddress of a Service that was never stored occupies', async () => {
  const world = setUp()
  const { time, api, start } = world
  const others = restKubeApi({ ...world.ports, transport: inProcessTransport(world.server) })
  await others.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.0.0.0/24'] } })
  await time.advance(1_000)
  await others.create(ipAddresses, newIpAddress('10.0.0.1', kubernetes))
  const { ended, end } = start()
  // After a refusal that only a person can correct, the process would have ended after a minute.
  const outcome = Promise.race([ended.then(() => 'ended'), time.advance(100_000).then(() => 'runs')])
  assert.equal(await outcome, 'runs')
  assert.equal((await api.get(services, kubernetes)).spec?.clusterIP, '10.0.0.1')
  await end()
})

test('a start waits while another Service holds the first ClusterIP, and completes once it is free', async () => {
  const world = setUp()
  const { time, api } = world
  const others = restKubeApi({ ...world.ports, transport: inProcessTransport(world.server) })
  await others.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.0.0.0/24'] } })
  await time.advance(1_000)
  await others.create(namespaces, { metadata: { name: 'default' } })
  const spec = { clusterIP: '10.0.0.1', ports: [{ port: 80 }] }
  const squatter = { namespace: 'default', name: 'squatter' }
  await others.create(services, { metadata: squatter, spec } as Service)
  const { ended, end, failing } = beside(world)
  const outcome = Promise.race([ended.then(() => 'ended'), time.advance(1_000_000).then(() => 'runs')])
  assert.equal(await outcome, 'runs')
  assert.deepEqual(await failing(), ['poststarthook/bootstrap-controller'])
  assert.deepEqual(await listed(world), ['192.0.2.1'])
  await others.delete(services, squatter)
  await time.advance(60_000)
  assert.equal((await api.get(services, kubernetes)).spec?.clusterIP, '10.0.0.1')
  assert.deepEqual(await failing(), [])
  await end()
})

test('the postStart hook of an embedding server stops waiting for a permanently refused write after a minute', async () => {
  const world = setUp()
  const { time, transport, ports } = world
  transport.faults.add({
    fault: { type: 'status', status: 403 },
    methods: ['POST'],
    pathPrefix: '/apis/networking.k8s.io/v1/servicecidrs',
  })
  const master = createMaster(
    defineMaster({ advertiseAddress: '192.0.2.1', controllers: 'auto,-kubernetes-service' }, 'host-1'),
    ports,
  )
  let hooked = false
  const start = master.postStartHook().then(() => {
    hooked = true
  })
  await time.advance(50_000)
  assert.equal(hooked, false)
  await time.advance(20_000)
  await start
  const end = master.preShutdownHook()
  await time.advance(30_000)
  await end
})

test('a second call of the postStart hook waits for the same start, and the master can be shut down', async () => {
  const world = setUp()
  const { time, ports } = world
  const master = createMaster(defineMaster({ advertiseAddress: '192.0.2.1' }, 'host-1'), ports)
  const starts = Promise.all([master.postStartHook(), master.postStartHook()])
  starts.catch(() => {})
  await time.advance(20_000)
  await starts
  assert.deepEqual(await listed(world), ['192.0.2.1'])
  const end = master.preShutdownHook()
  await time.advance(30_000)
  await end
  assert.deepEqual((await listed(world)) ?? [], [])
})

test('the preShutdown hook of an embedding server waits until the address is withdrawn', async () => {
  const world = setUp()
  const { time, transport, ports } = world
  const master = createMaster(defineMaster({ advertiseAddress: '192.0.2.1' }, 'host-1'), ports)
  const start = master.postStartHook()
  await time.advance(20_000)
  await start
  assert.deepEqual(await listed(world), ['192.0.2.1'])
  const heal = transport.faults.add({ fault: { type: 'delay', ms: 300 } })
  let hooked = false
  const end = master.preShutdownHook().then(() => {
    hooked = true
  })
  await time.advance(100)
  assert.equal(hooked, false)
  await time.advance(30_000)
  await end
  heal()
  assert.deepEqual((await listed(world)) ?? [], [])
})

test('an unexpected error in one duty degrades and restarts only that duty', async () => {
  const world = setUp()
  const { time, start, logged } = world
  let watches = 0
  const broken: RangeRegistry = {
    ...noneRegistry,
    async watch() {
      watches++
      throw new TypeError('undefined is not a function')
    },
  }
  const mistakes: unknown[] = []
  const onMistake = (error: unknown): void => void mistakes.push(error)
  const { master, ended, end } = start({ controllers: 'auto,-cluster-ip-repair' }, { ranges: broken, onMistake })
  await time.advance(30_000)
  assert.equal(await Promise.race([ended, 'alive']), 'alive')
  assert.deepEqual(await listed(world), ['192.0.2.1'])
  assert.ok(watches >= 4 && watches <= 6, `${watches} terms`)
  assert.equal(await gauge(world, 'degraded', 'node-port-repair'), '1')
  const check = master.lifecycle.checks('readyz').find(({ name }) => name === 'node-port-repair')
  assert.equal(await check?.fault(), 'unexpected error: undefined is not a function')
  assert.equal(logged('unexpected error; restarting the duty').length, watches)
  assert.equal(mistakes.length, watches)
  await end()
})

test('namespaces and ServiceCIDR are left to a server that manages them itself, with one log line for each', async () => {
  const world = setUp()
  const { time, api, logged } = world
  const { end } = beside(world, serving('system-namespaces', 'default-service-cidr'))
  await time.advance(30_000)
  assert.deepEqual((await api.list(namespaces)).items, [])
  assert.deepEqual((await api.list(serviceCidrs)).items, [])
  assert.equal(logged('the server does this itself; leaving it to the server').length, 2)
  assert.equal(await gauge(world, 'active', 'system-namespaces'), '0')
  await end()
})

test('a duty is left to the server when another member behind the balancer turns out to perform it', async () => {
  const world = setUp()
  const { time, api } = world
  const { server, end } = beside(world)
  await time.advance(5_000)
  assert.equal((await api.list(namespaces)).items.length, 4)
  assert.equal(await gauge(world, 'active', 'system-namespaces'), '1')
  server.answer = serving('system-namespaces')
  await time.advance(5_000)
  server.answer = serving()
  await api.delete(namespaces, { name: 'kube-node-lease' })
  await time.advance(50_000)
  assert.equal((await api.list(namespaces)).items.length, 3)
  assert.equal(await gauge(world, 'active', 'system-namespaces'), '0')
  await end()
})

test('a degraded duty recovers once the server turns out to perform it', async () => {
  const world = setUp()
  const { time, server: store, transport, ports } = world
  const { server, failing, end } = beside(world)
  await time.advance(1_000)
  transport.faults.add({
    fault: { type: 'status', status: 403 },
    pathPrefix: '/apis/networking.k8s.io/v1/servicecidrs',
  })
  const others = restKubeApi({ ...ports, transport: inProcessTransport(store) })
  await others.delete(serviceCidrs, { name: 'kubernetes' })
  await time.advance(120_000)
  assert.ok((await failing()).includes('default-service-cidr'))
  assert.equal(await gauge(world, 'degraded', 'default-service-cidr'), '1')
  server.answer = serving('default-service-cidr')
  await time.advance(30_000)
  assert.ok(!(await failing()).includes('default-service-cidr'))
  assert.equal(await gauge(world, 'degraded', 'default-service-cidr'), '0')
  await end()
})

test('while the server refuses to list its hooks, a duty that depends on them writes nothing', async () => {
  const world = setUp()
  const { time, api, logged } = world
  const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: '/readyz: HTTP status 403' }
  const { server, end } = beside(world, refused)
  await time.advance(120_000)
  assert.deepEqual((await api.list(namespaces)).items, [])
  assert.equal(logged(degrading).length, 0)
  server.answer = serving()
  await time.advance(5_000)
  assert.equal((await api.list(namespaces)).items.length, 4)
  server.answer = serving('system-namespaces')
  await time.advance(5_000)
  await api.delete(namespaces, { name: 'kube-node-lease' })
  server.answer = refused
  await time.advance(120_000)
  assert.equal((await api.list(namespaces)).items.length, 3)
  await end()
})

test('a duty that does not depend on /readyz is degraded when its requests are refused, even while /readyz is refused', async () => {
  const world = setUp()
  const { time, transport, logged } = world
  transport.faults.add({
    fault: { type: 'status', status: 403 },
    pathPrefix: '/apis/networking.k8s.io/v1/servicecidrs',
  })
  const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: '/readyz: HTTP status 404' }
  const { end } = beside(world, refused, { controllers: 'service-cidr', leaderElect: 'false' })
  await time.advance(120_000)
  assert.deepEqual(
    logged(degrading).map(({ fields }) => fields.duty),
    ['service-cidr'],
  )
  await end()
})

for (const [readinessGate, endpointReconcilerType] of [
  ['continuous', 'lease'],
  ['startup', 'lease'],
  // No other part checks the server's health.
  ['startup', 'none'],
] as const) {
  test(`the duties of a server that restarts without its hooks are taken over (gate ${readinessGate}, reconciler ${endpointReconcilerType})`, async () => {
    const world = setUp()
    const { time, api, logged } = world
    // Creates what the server has created before this master starts.
    const earlier = beside(world)
    await time.advance(5_000)
    await earlier.end()
    const stock = serving('system-namespaces', 'default-service-cidr', 'cluster-ip-repair')
    const { server, end } = beside(world, stock, { readinessGate, endpointReconcilerType })
    await time.advance(120_000)
    await api.delete(serviceCidrs, { name: 'kubernetes' })
    await time.advance(120_000)
    assert.deepEqual((await api.list(serviceCidrs)).items, [])
    server.answer = { answered: false, reason: 'connection refused' }
    await time.advance(5_000)
    server.answer = serving()
    await time.advance(50_000)
    assert.deepEqual((await api.list(serviceCidrs)).items, [])
    await time.advance(30_000)
    const names = (await api.list(serviceCidrs)).items.map(({ metadata }) => metadata?.name)
    assert.deepEqual(names, ['kubernetes'])
    for (const duty of Object.keys(hooks)) {
      assert.equal(await gauge(world, 'active', duty), '1', duty)
      const lines = logged('the server has not done this itself for a minute; doing it here')
      assert.equal(lines.filter(({ fields }) => fields.duty === duty).length, 1, duty)
    }
    await end()
  })
}

test('a repair that only reported while the server repaired itself corrects as soon as the server no longer does', async () => {
  const world = setUp()
  const { time, api, logged } = world
  const { server, end } = beside(world, serving(), { repairInterval: '1h' })
  await time.advance(5_000)
  server.answer = serving('cluster-ip-repair')
  await time.advance(5_000)
  await api.delete(ipAddresses, { name: '10.0.0.1' })
  await time.advance(120_000)
  await assert.rejects(api.get(ipAddresses, { name: '10.0.0.1' }), { code: 'NotFound' })
  assert.equal(logged('the server does this itself; only reporting findings').length, 2)
  server.answer = serving()
  await time.advance(63_000)
  assert.equal((await api.get(ipAddresses, { name: '10.0.0.1' })).spec?.parentRef?.name, 'kubernetes')
  await end()
})

test('readyz fails with the reason while a listed master is withdrawn or cannot renew its lease', async () => {
  const world = setUp()
  const { time, transport, ports } = world
  const one = beside(world)
  const two = world.start({ advertiseAddress: '192.0.2.2' })
  const fault = () =>
    one.master.lifecycle
      .checks('readyz')
      .find(({ name }) => name === 'kubernetes-service')
      ?.fault()
  await time.advance(5_000)
  assert.equal(await fault(), undefined)
  const grant = transport.faults.add({
    fault: { type: 'status', status: 403 },
    pathPrefix: '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases',
  })
  await time.advance(30_000)
  assert.match((await fault()) ?? '', /^the lease of this master was not renewed for \d+s$/)
  grant()
  await time.advance(15_000)
  assert.equal(await fault(), undefined)
  const stranger = { ...ports, api: restKubeApi({ ...ports, transport: inProcessTransport(world.server) }) }
  await withdrawMaster(one.options, stranger, new AbortController().signal)
  await time.advance(15_000)
  assert.equal(await fault(), 'this master was withdrawn and is not listed again until it is restarted')
  await one.end()
  await two.end()
})

test('readyz fails while the own API server is not ready, and when it has not answered for a TTL', async () => {
  const world = setUp()
  const { time } = world
  const { server, failing, end } = beside(world)
  await time.advance(5_000)
  assert.deepEqual(await failing(), [])
  server.answer = { answered: true, ready: false, checks: [{ name: 'ping', ok: false }] }
  await time.advance(10_000)
  assert.deepEqual(await failing(), ['kubernetes-service'])
  server.answer = serving()
  await time.advance(5_000)
  assert.deepEqual(await failing(), [])
  await end()

  const gated = setUp()
  const waiting = beside(gated, serving(), { readinessGate: 'startup' })
  await gated.time.advance(60_000)
  assert.deepEqual(await waiting.failing(), [])
  waiting.server.answer = { answered: false, reason: 'connection refused' }
  await gated.time.advance(14_000)
  assert.deepEqual(await waiting.failing(), [])
  await gated.time.advance(6_000)
  assert.deepEqual(await waiting.failing(), ['kubernetes-service'])
  waiting.server.answer = serving()
  await gated.time.advance(11_000)
  assert.deepEqual(await waiting.failing(), [])
  await waiting.end()
})
