import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inProcessTransport } from '../../src/apiserver/api-server.ts'
import { recordRefusals, withdrawMaster } from '../../src/bootstrap/master.ts'
import { defineMaster } from '../../src/config/master-options.ts'
import { EtcdError } from '../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import type { EventToRecord } from '../../src/kube/event-object.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import {
  type EndpointSlice,
  endpointSlices,
  endpoints,
  events,
  type KubeObject,
  leases,
  type Resource,
  services,
} from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd/leases.ts'
import { MemoryLeaseRegistry, MemoryLeases } from '../../src/kubernetes-service/leases/memory.ts'
import { EtcdRangeRegistry } from '../../src/repair/registries/etcd.ts'
import { passedOn } from '../kube/passed-on.ts'
import { setUp, storeLeaseOfAnother } from './masters-world.ts'

const kubernetes = { namespace: 'default', name: 'kubernetes' }

test('a dry run writes nothing, and logs what it would write and why', async () => {
  const { time, server, logged, start, logger } = setUp()
  const { end } = start({ dryRun: 'true' })
  const before = server.revision
  await time.advance(120_000)
  assert.equal(server.revision, before)
  const planned = logged('dry run: would write').map(({ fields }) => `${fields.verb} ${fields.kind} ${fields.object}`)
  assert.deepEqual(planned.sort(), [
    'create EndpointSlice default/kubernetes',
    'create Endpoints default/kubernetes',
    'create Namespace default',
    'create Namespace kube-node-lease',
    'create Namespace kube-public',
    'create Namespace kube-system',
    'create Service default/kubernetes',
    'create ServiceCIDR kubernetes',
    'patch ServiceCIDR kubernetes',
  ])
  await end()
  assert.equal(server.revision, before)
  const info = logger.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)
  assert.deepEqual(
    [...new Set(info)],
    [
      'own API server is ready',
      'dry run: would write',
      'dry run: would create a system namespace',
      'dry run: would create and renew a lease',
      'dry run: would create the default ServiceCIDR',
      'dry run: would set the default ServiceCIDR to Ready',
      'dry run: would create the kubernetes service',
      'dry run: would reset endpoints of the kubernetes service',
      'shutting down',
      'dry run: would leave the address on the list: its API server still responds, and no other master is ready',
      'shut down',
    ],
  )
  for (const { fields, message } of logger.lines) assert.equal(fields.dryRun, true, message)
})

test('a dry run beside another master logs that it would withdraw its address, and does not wait for confirmation', async () => {
  const { time, api, start, logged } = setUp()
  const other = start({ advertiseAddress: '192.0.2.2' })
  await time.advance(2_000)
  const dry = start({ dryRun: 'true' })
  await time.advance(2_000)
  await dry.end()
  assert.equal(logged('dry run: would withdraw the address').length, 1)
  const [end] = logged('shut down')
  assert.ok(Number(end?.fields.durationMs) < 500, JSON.stringify(end))
  assert.deepEqual((await api.get(endpointSlices, kubernetes)).endpoints?.[0]?.addresses, ['192.0.2.2'])
  await other.end()
})

test('withdraw removes a running master from the list until it is restarted', async () => {
  const { time, api, ports, start, logged } = setUp()
  const one = start()
  const two = start({ advertiseAddress: '192.0.2.2' })
  await time.advance(2_000)
  const listed = async () =>
    (await api.get(endpointSlices, kubernetes)).endpoints?.map((endpoint) => endpoint.addresses[0])
  assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'])
  const { signal } = new AbortController()
  assert.deepEqual(await withdrawMaster(one.options, ports, signal), {
    type: 'withdrawn',
    reason: '192.0.2.1 was removed from the list',
  })
  assert.deepEqual(
    await withdrawMaster(one.options, ports, signal),
    { type: 'withdrawn', reason: '192.0.2.1 was already withdrawn, and is not listed' },
    'a second withdrawal, as by a preStop hook, succeeds',
  )
  assert.deepEqual(await listed(), ['192.0.2.2'])
  await time.advance(60_000)
  assert.deepEqual(await listed(), ['192.0.2.2'])
  assert.equal(logged('this master was withdrawn and is not listed again until it is restarted').length, 1)

  const { type, reason } = await withdrawMaster({ ...two.options, dryRun: true }, ports, signal)
  assert.deepEqual([type, reason], ['nothing', 'a dry run writes nothing'])
  const last = await withdrawMaster(two.options, ports, signal)
  assert.equal(last.type, 'last-one')
  assert.match(last.reason, /^no other master is ready/)
  await one.end()
  const again = start()
  await time.advance(2_000)
  assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'])
  await again.end()
  await two.end()
})

test('withdraw records an Event for the withdrawal mark even if it may not write the list', {
  timeout: 20_000,
}, async () => {
  const { time, api, ports, start, transport } = setUp()
  const masters = [start(), start({ advertiseAddress: '192.0.2.2' })]
  await time.advance(2_000)
  transport.faults.add({
    fault: { type: 'status', status: 403 },
    methods: ['PUT'],
    pathPrefix: '/api/v1/namespaces/default/endpoints/',
  })
  const [one] = masters
  if (one === undefined) throw new Error('no master')
  await assert.rejects(withdrawMaster(one.options, ports, new AbortController().signal), { code: 'Forbidden' })
  const reasons = (await api.list(events)).items.map(({ reason }) => reason)
  assert.equal(reasons.filter((reason) => reason === 'MasterWithdrawn').length, 1)
  transport.faults.clear()
  for (const master of masters) await master.end()
})

test('withdraw of the last master does not change the annotations of its Lease', async () => {
  const { time, api, ports, start } = setUp()
  const one = start()
  await time.advance(2_000)
  const records = async () => (await api.list(leases)).items.map(({ metadata }) => metadata?.annotations)
  const before = await records()
  const { type } = await withdrawMaster(one.options, ports, new AbortController().signal)
  assert.equal(type, 'last-one')
  assert.deepEqual(await records(), before)
  await one.end()
})

/** The addresses of each list of masters that is written through an API. */
function writtenLists(api: KubeApi) {
  const written: unknown[] = []
  const through = passedOn(api, {
    update: (resource, object, options) => {
      const { endpoints: listed } = object as EndpointSlice
      if (resource === endpointSlices) written.push(listed?.map(({ addresses }) => addresses[0]))
      return api.update(resource, object, options)
    },
  })
  return { through, written }
}

test('withdraw does not remove a master when the only other one has an expired Lease that cannot be deleted', async () => {
  const { time, api, ports, start, transport } = setUp()
  const one = start()
  await time.advance(2_000)
  transport.faults.add({
    fault: { type: 'status', status: 403 },
    methods: ['DELETE'],
    pathPrefix: '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/',
  })
  await storeLeaseOfAnother(api, 15)
  const listed = async () => (await api.get(endpointSlices, kubernetes)).endpoints?.map(({ addresses }) => addresses[0])
  await time.advance(1_000)
  assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'])
  await time.advance(60_000)
  assert.deepEqual(await listed(), ['192.0.2.1'])
  const { signal } = new AbortController()
  assert.equal((await withdrawMaster(one.options, ports, signal)).type, 'last-one')
  assert.deepEqual(await listed(), ['192.0.2.1'])
  const three = start({ advertiseAddress: '192.0.2.3' })
  await time.advance(2_000)
  const { through, written } = writtenLists(api)
  assert.equal((await withdrawMaster(one.options, { ...ports, api: through }, signal)).type, 'withdrawn')
  assert.deepEqual(await listed(), ['192.0.2.3'])
  assert.ok(!written.flat().includes('192.0.2.2'), 'the master with the expired Lease is not added')
  transport.faults.clear()
  await one.end()
  await three.end()
})

test('withdraw does not remove the only live master while dead ones are still listed after a power failure', async () => {
  const { time, api, ports, start } = setUp()
  const before = start({ onShutdown: 'keep' })
  await time.advance(2_000)
  await storeLeaseOfAnother(api, 15)
  await time.advance(1_000)
  await before.end()
  const listed = async () => (await api.get(endpointSlices, kubernetes)).endpoints?.map(({ addresses }) => addresses[0])
  assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'])
  const one = start()
  await time.advance(5_000)
  assert.deepEqual(await listed(), ['192.0.2.1', '192.0.2.2'], 'the death of the other master is not known yet')
  const withdrawal = withdrawMaster(one.options, ports, new AbortController().signal)
  await time.advance(12_500)
  assert.equal((await withdrawal).type, 'last-one')
  await time.advance(30_000)
  assert.deepEqual(await listed(), ['192.0.2.1'])
  await one.end()
})

test('withdraw waits for a renewal by the others if clocks differ, and does not wait if they agree', async () => {
  for (const skewMs of [-3_600_000, 0, 3_600_000]) {
    const { time, api, ports, start } = setUp()
    const one = start()
    const two = start({ advertiseAddress: '192.0.2.2' })
    await time.advance(2_000)
    const clock = time.view({ skewMs })
    let tookMs: number | undefined
    const beganMs = clock.monotonicMs()
    const withdrawal = withdrawMaster(one.options, { ...ports, clock }, new AbortController().signal).finally(() => {
      tookMs = clock.monotonicMs() - beganMs
    })
    await time.advance(12_500)
    assert.equal((await withdrawal).type, 'withdrawn')
    assert.deepEqual((await api.get(endpointSlices, kubernetes)).endpoints?.[0]?.addresses, ['192.0.2.2'])
    if (skewMs === 0) assert.equal(tookMs, 0)
    else assert.ok(tookMs !== undefined && tookMs > 5_000 && tookMs <= 10_000, `${tookMs}`)
    await one.end()
    await two.end()
  }
})

test('withdraw with onShutdown=always removes the last ready master, and lists another that is alive but not ready', async () => {
  const { time, api, ports, start } = setUp()
  // The sidecar of this master stops, and does not correct the list.
  const one = start({ onShutdown: 'keep' })
  await time.advance(2_000)
  await storeLeaseOfAnother(api, 60, 'unready')
  await one.end()
  const { through, written } = writtenLists(api)
  const always = { ...one.options, onShutdown: 'always' } as const
  const { type } = await withdrawMaster(always, { ...ports, api: through }, new AbortController().signal)
  assert.deepEqual([type, written], ['withdrawn', [['192.0.2.2']]])
})

test('withdraw does not end before its Event is written', async () => {
  const { time, transport, api, ports, start } = setUp()
  const { options, end } = start({ leaseStore: 'kubernetes' })
  await time.advance(20_000)
  transport.faults.add({ fault: { type: 'delay', ms: 300 }, methods: ['POST'], pathPrefix: '/apis/events.k8s.io' })
  let withdrawn = false
  const withdrawing = withdrawMaster({ ...options, onShutdown: 'always' }, ports, new AbortController().signal).then(
    () => {
      withdrawn = true
    },
  )
  await time.advance(100)
  assert.equal(withdrawn, false)
  await time.advance(5_000)
  await withdrawing
  const reasons = (await api.list(events)).items.map(({ reason }) => reason)
  assert.ok(reasons.includes('MasterWithdrawn'), reasons.join())
  await end()
})

test('withdraw without an address removes the only master of this host, and refuses to choose between two', async () => {
  const { time, ports, start } = setUp()
  const masters = ['192.0.2.1', '192.0.2.2'].map((advertiseAddress) => start({ advertiseAddress }))
  await time.advance(2_000)
  const { signal } = new AbortController()
  const [options] = masters.map((master) => ({ ...master.options, advertiseAddresses: [] }))
  assert.ok(options !== undefined)
  assert.deepEqual(await withdrawMaster(options, ports, signal), {
    type: 'nothing',
    reason: `host ${options.host} has several addresses: 192.0.2.1, 192.0.2.2; select one with --advertise-address`,
  })
  await masters[1]?.end()
  assert.deepEqual(await withdrawMaster({ ...options, onShutdown: 'always' }, ports, signal), {
    type: 'withdrawn',
    reason: '192.0.2.1 was removed from the list',
  })
  await masters[0]?.end()
})

test('withdraw of a master whose API server is unreachable deletes its lease in etcd, if another master can update the list', async () => {
  const { time, ports, start, transport } = setUp()
  const etcd = { kv: new MemoryEtcd({ clock: ports.clock }).client(), Leases: EtcdLeases, Ranges: EtcdRangeRegistry }
  const settings = { etcdServers: 'http://127.0.0.1:2379' }
  const [one, two] = ['192.0.2.1', '192.0.2.2'].map((advertiseAddress) =>
    start({ ...settings, advertiseAddress }, { etcd }),
  )
  assert.ok(one !== undefined && two !== undefined)
  await time.advance(2_000)
  const { signal } = new AbortController()
  const leased = async () => (await etcd.kv.list('/registry/masterleases/', { signal })).items.map(({ key }) => key)
  transport.faults.add({ fault: { type: 'refuse' } })
  const { type, reason } = await withdrawMaster(one.options, { ...ports, etcd }, signal)
  assert.equal(type, 'withdrawn')
  assert.match(
    reason,
    /^192\.0\.2\.1 is marked as withdrawn, and other masters remove it from the list, because the API server is not available here: /,
  )
  assert.deepEqual(await leased(), ['/registry/masterleases/192.0.2.2'])
  await assert.rejects(withdrawMaster({ ...two.options, onShutdown: 'always' }, { ...ports, etcd }, signal), {
    name: 'KubeError',
  })
  assert.deepEqual(await leased(), [])
  transport.faults.clear()
  await one.end()
  await two.end()
})

test('withdraw reports an unknown master as nothing to do, and fails if the lease store is not accessible', async () => {
  const { ports } = setUp()
  const { signal } = new AbortController()
  const settings = { advertiseAddress: '192.0.2.1' }
  assert.deepEqual(await withdrawMaster(defineMaster(settings, 'host-1'), ports, signal), {
    type: 'nothing',
    reason: 'no lease of host host-1 for 192.0.2.1 among the Leases in kube-system',
  })
  assert.deepEqual(
    await withdrawMaster({ ...defineMaster(settings, 'host-1'), advertiseAddresses: [] }, ports, signal),
    {
      type: 'nothing',
      reason: 'no lease of host host-1 among the Leases in kube-system',
    },
  )
  const memory = defineMaster({ ...settings, leaseStore: 'memory' }, 'host-1')
  await assert.rejects(withdrawMaster(memory, ports, signal), /not accessible/)
})

for (const [refused, damaged] of [
  [services, endpoints],
  [services, endpointSlices],
  [endpoints, services],
  [endpointSlices, services],
  [endpointSlices, endpoints],
  [endpoints, endpointSlices],
] as [Resource<KubeObject>, Resource<KubeObject>][]) {
  test(`a minute of refused writes to ${refused.plural} does not delay the repair of ${damaged.plural}`, async () => {
    const { time, server, transport, ports, start } = setUp()
    const { clock, random } = ports
    const others = restKubeApi({ transport: inProcessTransport(server), clock, random })
    const { end } = start()
    await time.advance(1_000)
    const rule = { fault: { type: 'status', status: 403 }, methods: ['POST', 'PUT'] } as const
    const { group, version } = refused
    const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
    transport.faults.add({ ...rule, pathPrefix: `${root}/namespaces/default/${refused.plural}` })
    await others.delete(refused, kubernetes)
    // In the middle of a wait of ten seconds.
    await time.advance(57_000)
    assert.equal((await others.list(refused, { namespace: 'default' })).items.length, 0)
    await others.delete(damaged, kubernetes)
    await time.advance(400)
    assert.equal((await others.list(damaged, { namespace: 'default' })).items.length, 1)
    transport.faults.clear()
    await time.advance(15_000)
    assert.equal((await others.list(refused, { namespace: 'default' })).items.length, 1)
    await end()
  })
}

for (const [status, kind] of [
  [429, endpoints],
  [503, endpoints],
  [503, services],
] as const) {
  test(`${kind.plural} are recreated within two seconds after a gateway ends its ${status} answers with Retry-After: 20`, async () => {
    const { time, server, transport, ports, start } = setUp()
    const { clock, random } = ports
    const others = restKubeApi({ transport: inProcessTransport(server), clock, random })
    const { end } = start()
    await time.advance(1_000)
    transport.faults.add({ fault: { type: 'status', status, retryAfterSeconds: 20 }, stream: false })
    await others.delete(kind as Resource<KubeObject>, kubernetes)
    await time.advance(4_000)
    assert.equal((await others.list(kind, { namespace: 'default' })).items.length, 0)
    transport.faults.clear()
    await time.advance(2_000)
    assert.equal((await others.list(kind, { namespace: 'default' })).items.length, 1)
    await end()
  })
}

test('after an outage a few refusals of the second ClusterIP delay it by at most five seconds', async () => {
  const { time, transport, api, start } = setUp()
  const write = {
    fault: { type: 'status', status: 422 },
    methods: ['PUT'],
    pathPrefix: '/api/v1/namespaces/default/services',
  } as const
  transport.faults.add(write)
  const { end } = start({
    advertiseAddress: '192.0.2.1,2001:db8::1',
    serviceClusterIpRange: '10.96.0.0/12,fd00:10:96::/112',
  })
  await time.advance(15_000)
  assert.deepEqual((await api.get(services, kubernetes)).spec?.clusterIPs, ['10.96.0.1'])
  transport.faults.partition()
  await time.advance(20_000)
  transport.faults.clear()
  transport.faults.add({ ...write, times: 3 })
  transport.faults.heal()
  await time.advance(5_000)
  assert.deepEqual((await api.get(services, kubernetes)).spec?.clusterIPs, ['10.96.0.1', 'fd00:10:96::1'])
  await end()
})

test('with the reconciler none the Service is managed and no master is listed', async () => {
  const { time, api, start } = setUp()
  const { end } = start({ endpointReconcilerType: 'none' })
  await time.advance(30_000)
  assert.equal((await api.get(services, kubernetes)).spec?.clusterIP, '10.0.0.1')
  await assert.rejects(api.get(endpointSlices, kubernetes), { code: 'NotFound' })
  assert.deepEqual((await api.list(leases)).items, [])
  await end()
})

test('during a rolling port change the Service port changes once, with the last master', async () => {
  const { time, api, start, logged } = setUp()
  let one = start()
  const two = start({ advertiseAddress: '192.0.2.2' })
  await time.advance(2_000)
  const port = async () => (await api.get(services, kubernetes)).spec?.ports?.[0]?.targetPort as unknown
  assert.equal(await port(), 6443)
  await one.end()
  one = start({ securePort: '7443' })
  await time.advance(60_000)
  assert.equal(await port(), 6443)
  assert.equal(logged('resetting the kubernetes service').length, 0)
  await two.end()
  const last = start({ advertiseAddress: '192.0.2.2', securePort: '7443' })
  await time.advance(60_000)
  assert.equal(await port(), 7443)
  assert.equal((await api.get(endpointSlices, kubernetes)).ports?.[0]?.port, 7443)
  assert.equal(logged('resetting the kubernetes service').length, 1)
  await one.end()
  await last.end()
})

test('without etcd the Service is created, the Endpoints are not, and the outage is logged once', async () => {
  const { time, ports, api, start, logged } = setUp()
  let away = true
  const etcd = faultyEtcd(new MemoryEtcd({ clock: ports.clock }).client(), {
    clock: ports.clock,
    async before() {
      if (away) throw new EtcdError('Unreachable', 'etcd is away')
    },
  })
  const { end } = start(
    { etcdServers: 'http://127.0.0.1:2379' },
    { etcd: { kv: etcd, Leases: EtcdLeases, Ranges: EtcdRangeRegistry } },
  )
  await time.advance(60_000)
  assert.equal((await api.get(services, kubernetes)).spec?.clusterIP, '10.0.0.1')
  await assert.rejects(api.get(endpoints, kubernetes), { code: 'NotFound' })
  assert.deepEqual([logged('cannot reach etcd').length, logged('lost the API server').length], [1, 0])
  away = false
  await time.advance(15_000)
  const [subset] = (await api.get(endpoints, kubernetes)).subsets ?? []
  assert.deepEqual(
    subset?.addresses?.map(({ ip }) => ip),
    ['192.0.2.1'],
  )
  assert.equal(logged('etcd is back').length, 1)
  await end()
})

test('ports that a kube-apiserver may need are preserved and logged once, and corrected after that server has left', async () => {
  const { time, ports, api, start, logged } = setUp()
  const registry = new MemoryLeaseRegistry(ports.clock)
  const { end } = start({}, { leases: new MemoryLeases(registry, { ttlMs: 15_000 }) })
  await time.advance(1_000)
  registry.addForeign('192.0.2.9')
  await time.advance(1_000)
  const found = await api.get(endpoints, kubernetes)
  const other = [{ name: 'https', port: 1234, protocol: 'TCP' }]
  await api.update(endpoints, { ...found, subsets: [{ ...found.subsets?.[0], ports: other }] })
  const portsNow = async () => (await api.get(endpoints, kubernetes)).subsets?.[0]?.ports
  const notes = () =>
    logged(
      'the ports of the Endpoints differ from those of this master; not changing them, because another master may need them (a kube-apiserver does not publish its ports)',
    ).length
  await time.advance(60_000)
  assert.deepEqual([await portsNow(), notes()], [other, 1])
  registry.delete('192.0.2.9')
  await time.advance(1_000)
  assert.deepEqual([(await portsNow())?.[0]?.port, notes()], [6443, 1])
  await end()
})

test('each time the server starts to refuse /readyz, one Event is recorded', () => {
  const recorded: EventToRecord[] = []
  let hear: (answer: ReadinessAnswer, sentAtMs: number) => void = () => assert.fail()
  const monitor = {
    subscribe(handler: typeof hear) {
      hear = handler
      return () => {}
    },
  }
  recordRefusals(monitor, { record: (event) => recorded.push(event) }, '192.0.2.1')
  const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }
  const silent: ReadinessAnswer = { answered: false, reason: 'connection refused' }
  const refused: ReadinessAnswer = { answered: true, ready: false, checks: [], refused: '/readyz: HTTP status 401' }
  const counts = [ready, refused, refused, silent, refused, ready, refused].map((answer) => {
    hear(answer, 0)
    return recorded.length
  })
  assert.deepEqual(counts, [0, 1, 1, 1, 1, 1, 2])
  const note = 'the readiness of the API server of 192.0.2.1 is unknown: /readyz: HTTP status 401'
  assert.deepEqual(
    recorded.map(({ type, regarding, note }) => [type, regarding.kind, regarding.name, note]),
    [
      ['Warning', 'Endpoints', 'kubernetes', note],
      ['Warning', 'Endpoints', 'kubernetes', note],
    ],
  )
})

for (const [description, awayMs, shortestMs, longestMs, words] of [
  [
    'while neither server nor lease store answers ends after five seconds',
    60_000,
    5_000,
    6_500,
    /^API server and lease store do not respond/,
  ],
  ['while its server answers again within five seconds is withdrawn', 4_000, 4_000, 9_000, /^withdrew the address$/],
  ['while its server answers is withdrawn at once', 0, 0, 1_500, /^withdrew the address$/],
] as const) {
  test(`a master that stops ${description}`, async () => {
    const { time, transport, start, logger } = setUp()
    let isAway = false
    const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }
    const probe = async (): Promise<ReadinessAnswer> => (isAway ? { answered: false, reason: 'refused' } : ready)
    const master = start({}, { readiness: { probe } })
    const other = start({ advertiseAddress: '192.0.2.2' })
    await time.advance(30_000)
    const seen = logger.lines.length
    isAway = awayMs > 0
    if (isAway) transport.faults.partition()
    const heal = (): void => {
      isAway = false
      transport.faults.heal()
    }
    const cancel = time.view().schedule(awayMs, heal)
    await master.end()
    cancel()
    heal()
    const since = logger.lines.slice(seen)
    assert.ok(
      since.some(({ message }) => words.test(message)),
      since.map(({ message }) => message).join('\n'),
    )
    const tookMs = Number(since.find(({ message }) => message === 'shut down')?.fields.durationMs)
    assert.ok(tookMs >= shortestMs && tookMs <= longestMs, `${tookMs} ms`)
    await other.end()
  })
}

for (const [controllers, probes] of [
  ['auto', 60],
  ['endpoints,endpointslice', 6],
] as const) {
  test(`with the controllers ${controllers} a ready server is probed ${probes} times a minute`, async () => {
    const { time, start } = setUp()
    let count = 0
    const probe = async (): Promise<ReadinessAnswer> => {
      count++
      return { answered: true, ready: true, checks: [] }
    }
    const { end } = start({ controllers }, { readiness: { probe } })
    await time.advance(30_500)
    count = 0
    await time.advance(60_000)
    assert.equal(count, probes)
    await end()
  })
}
