import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessReadiness, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { faultyTransport } from '../../src/apiserver/faults.ts'
import { createMaster } from '../../src/bootstrap/master.ts'
import type { MasterPorts } from '../../src/bootstrap/master-options.ts'
import { defineMaster, type MasterSettings } from '../../src/config/master-options.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { KubeError } from '../../src/kube/errors.ts'
import {
  type EndpointSlice,
  endpointSlices,
  endpoints,
  leases,
  namespaces,
  nodes,
  type Pod,
  pods,
  serviceCidrs,
  services,
} from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { passedOn } from '../kube/passed-on.ts'

const all = 'endpoints,endpointslice,endpointslice-mirroring'

function checkOf(master: ReturnType<typeof createMaster>, duty: string) {
  return master.lifecycle.checks('readyz').find(({ name }) => name === duty)
}

async function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'workloads')
  const server = createApiServer({ clock, random })
  const api = restKubeApi({ transport: inProcessTransport(server), clock, random })
  for (const name of ['default', 'kube-system']) await api.create(namespaces, { metadata: { name } })
  await api.create(nodes, { metadata: { name: 'node-1' } })
  await api.create(services, {
    metadata: { namespace: 'default', name: 'web' },
    spec: { clusterIP: 'None', selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] },
  })

  const start = (name: string, settings: Partial<MasterSettings> = {}, around = (api: KubeApi): KubeApi => api) => {
    const random = seededRandom(1, name)
    const transport = faultyTransport(inProcessTransport(server), { clock, random })
    const logger = memoryLogger()
    const metrics = prometheusMetrics()
    const api = around(restKubeApi({ transport, clock, random }))
    const ports: MasterPorts = { api, readiness: inProcessReadiness(server), clock, random, logger, metrics }
    const options = defineMaster({ advertiseAddress: '192.0.2.1', controllers: all, ...settings }, name)
    const stop = new AbortController()
    const master = createMaster(options, ports)
    const ended = master.run(stop.signal)
    const end = async (): Promise<void> => {
      stop.abort()
      await time.advance(30_000)
      await ended
    }
    return { master, transport, logger, metrics, end }
  }

  const pod = async (name: string, ip: string): Promise<void> => {
    const made = await api.create(pods, {
      metadata: { namespace: 'default', name, labels: { app: 'web' } },
      spec: { nodeName: 'node-1', containers: [{ name: 'c', image: 'i' }] },
    })
    const status: Pod['status'] = {
      phase: 'Running',
      podIP: ip,
      podIPs: [{ ip }],
      conditions: [{ type: 'Ready', status: 'True' }],
    }
    await api.patch(
      pods,
      { namespace: 'default', name: made.metadata?.name ?? '' },
      { type: 'merge', body: { status } },
      { subresource: 'status' },
    )
  }
  /** The addresses in Endpoints and in slices, which should be the same. */
  const listed = async () => {
    const of = async (): Promise<readonly string[]> => {
      const { items } = await api.list(endpoints, { namespace: 'default' })
      return items.flatMap(({ subsets = [] }) => subsets.flatMap(({ addresses = [] }) => addresses.map(({ ip }) => ip)))
    }
    const slices: readonly EndpointSlice[] = (await api.list(endpointSlices, { namespace: 'default' })).items
    const ofSlices = slices.flatMap((slice) => slice.endpoints ?? []).flatMap(({ addresses }) => addresses)
    return { endpoints: [...(await of())].sort(), slices: ofSlices.sort() }
  }
  return { time, server, api, start, pod, listed }
}

test('Pods that a Service selects are listed in its Endpoints and EndpointSlices', async () => {
  const { time, start, pod, listed } = await setUp()
  const one = start('one')
  await pod('a', '10.0.0.1')
  await time.advance(5_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: ['10.0.0.1'] })
  await pod('b', '10.0.0.2')
  await time.advance(100)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1', '10.0.0.2'], slices: ['10.0.0.1', '10.0.0.2'] })
  await one.end()
})

test('a controller that may not list one of its resources is degraded, and the others work', async () => {
  const { time, start, pod, listed } = await setUp()
  const { master, metrics, transport, end } = start('one')
  transport.faults.add({ fault: { type: 'status', status: 403 }, pathPrefix: '/api/v1/nodes' })
  await pod('a', '10.0.0.1')
  const degraded = async (duty: string): Promise<string | undefined> =>
    new RegExp(`duty_degraded\\{duty="${duty}"\\} (\\d)`).exec(await metrics.expose())?.[1]
  const check = (duty: string) => master.lifecycle.checks('readyz').find(({ name }) => name === duty)
  await time.advance(90_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: [] })
  const figures = await Promise.all(all.split(',').map(degraded))
  assert.deepEqual(figures, ['0', '1', '0'])
  assert.match(String(await check('endpointslice')?.fault()), /nodes/)
  assert.equal(await check('endpoints')?.fault(), undefined)
  transport.faults.clear()
  await time.advance(20_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: ['10.0.0.1'] })
  assert.deepEqual([await degraded('endpointslice'), await check('endpointslice')?.fault()], ['0', undefined])
  await end()
})

test('a controller that may not write is degraded until it may, and the others work', async () => {
  let refused = true
  const reason = 'endpoints "web" is forbidden: User "x" cannot create resource "endpoints" in API group ""'
  const guarded = (api: KubeApi): KubeApi =>
    passedOn(api, {
      create(resource, object, options) {
        if (refused && resource.plural === 'endpoints') return Promise.reject(new KubeError('Forbidden', reason))
        return api.create(resource, object, options)
      },
    })
  const { time, start, pod, listed } = await setUp()
  const { master, logger, end } = start('one', {}, guarded)
  await pod('a', '10.0.0.1')
  const faults = () => Promise.all(all.split(',').map((duty) => checkOf(master, duty)?.fault()))
  await time.advance(5_000)
  assert.deepEqual(
    await faults(),
    [undefined, undefined, undefined],
    'a starting server refuses all requests for seconds',
  )
  await time.advance(120_000)
  const [endpointsFault, ...others] = await faults()
  assert.match(String(endpointsFault), /cannot create resource "endpoints"/)
  assert.deepEqual(others, [undefined, undefined])
  assert.deepEqual(await listed(), { endpoints: [], slices: ['10.0.0.1'] })
  const degraded = logger.lines.filter(({ message }) => message === 'the duty is degraded; retrying')
  assert.deepEqual(
    degraded.map(({ fields }) => fields.duty),
    ['endpoints'],
  )
  refused = false
  await time.advance(120_000)
  assert.deepEqual(await faults(), [undefined, undefined, undefined])
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: ['10.0.0.1'] })
  await end()
})

test('while Pods may not be listed, no controller that needs them starts, and listed addresses stay', async () => {
  const { time, start, pod, listed } = await setUp()
  await pod('a', '10.0.0.1')
  const first = start('one')
  await time.advance(30_000)
  await first.end()
  const { metrics, transport, end } = start('two')
  transport.faults.add({ fault: { type: 'status', status: 403 }, pathPrefix: '/api/v1/pods' })
  await time.advance(90_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: ['10.0.0.1'] })
  const exposed = await metrics.expose()
  const degraded = all.split(',').filter((duty) => exposed.includes(`duty_degraded{duty="${duty}"} 1`))
  assert.deepEqual(degraded, ['endpoints', 'endpointslice'])
  transport.faults.clear()
  await pod('b', '10.0.0.2')
  await time.advance(20_000)
  const both = ['10.0.0.1', '10.0.0.2']
  assert.deepEqual(await listed(), { endpoints: both, slices: both })
  await end()
})

test('one of two processes leads, and when it ends the other takes over', async () => {
  const { time, api, start, pod, listed } = await setUp()
  const [one, two] = [start('one'), start('two')]
  await time.advance(5_000)
  const { spec } = await api.get(leases, { namespace: 'kube-system', name: 'apiserver-bootstrap' })
  const [leader, other] = spec?.holderIdentity?.startsWith('one_') ? [one, two] : [two, one]
  assert.match(await leader.metrics.expose(), /duty_active\{duty="endpoints"\} 1/)
  assert.match(await other.metrics.expose(), /duty_active\{duty="endpoints"\} 0/)
  assert.match(await other.metrics.expose(), /leader_election_master_status\{name="apiserver-bootstrap"\} 0/)
  await leader.end()
  await pod('a', '10.0.0.1')
  await time.advance(5_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: ['10.0.0.1'] })
  await other.end()
})

test('a partitioned leader loses leadership, another process takes over, and the first leads again in a later term', async () => {
  const { time, api, start, pod, listed } = await setUp()
  const one = start('one')
  await time.advance(5_000)
  const two = start('two')
  one.transport.faults.partition()
  await pod('a', '10.0.0.1')
  const logged = ({ logger }: typeof one, text: string): boolean => logger.lines.some(({ message }) => message === text)
  assert.ok(await time.runUntil(() => logged(two, 'leading'), 60_000))
  assert.ok(logged(one, 'lost leadership'), 'the first has stopped before the second begins')
  await time.advance(60_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: ['10.0.0.1'] })
  one.transport.faults.heal()
  await time.advance(60_000)
  two.transport.faults.partition()
  await api.patch(
    pods,
    { namespace: 'default', name: 'a' },
    { type: 'merge', body: { status: { phase: 'Succeeded' } } },
    { subresource: 'status' },
  )
  await pod('b', '10.0.0.2')
  await time.advance(60_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.2'], slices: ['10.0.0.2'] })
  two.transport.faults.heal()
  await one.end()
  await two.end()
})

test('keys queued when a term ended do not count in workqueue_depth afterwards', async () => {
  const { time, api, start } = await setUp()
  for (let index = 0; index < 20; index++) {
    const spec = { clusterIP: 'None', selector: { app: 'web' }, ports: [{ port: 80 }] }
    await api.create(services, { metadata: { namespace: 'default', name: `web-${index}` }, spec })
  }
  const one = start('one')
  const depth = async (): Promise<string | undefined> =>
    /^workqueue_depth\{name="endpoint"\} (\d+)$/m.exec(await one.metrics.expose())?.[1]
  // When the leader cannot renew its Lease, the workers hang in their writes, and the other Services wait.
  const pathPrefix = '/api/v1/namespaces/default/endpoints'
  one.transport.faults.add({ fault: { type: 'delay', ms: 60_000 }, methods: ['POST'], pathPrefix })
  await time.advance(3_000)
  one.transport.faults.add({ fault: { type: 'status', status: 500 }, pathPrefix: '/apis/coordination.k8s.io' })
  const isLost = (): boolean => one.logger.lines.some(({ message }) => message === 'lost leadership')
  assert.ok(await time.runUntil(isLost, 60_000))
  assert.notEqual(await depth(), '0')
  one.transport.faults.clear()
  await time.advance(60_000)
  assert.equal(await depth(), '0')
  await one.end()
})

test('after an outage a Service that failed before is synced within seconds', async () => {
  const { time, start, pod, listed } = await setUp()
  const one = start('one', { leaderElect: 'false' })
  await time.advance(5_000)
  one.transport.faults.add({ fault: { type: 'status', status: 500 }, methods: ['PUT', 'POST'] })
  await pod('a', '10.0.0.1')
  await time.advance(300_000)
  one.transport.faults.clear()
  one.transport.faults.partition()
  one.transport.faults.resetStreams()
  await time.advance(30_000)
  one.transport.faults.heal()
  await time.advance(3_000)
  assert.deepEqual(await listed(), { endpoints: ['10.0.0.1'], slices: ['10.0.0.1'] })
  await one.end()
})

test('default/kubernetes belongs to the masters, even when its Service is deleted or gets a selector', async () => {
  const { time, api, start, pod } = await setUp()
  const one = start('one', { controllers: `auto,-system-namespaces,${all}`, leaderElect: 'false' })
  await time.advance(5_000)
  const ref = { namespace: 'default', name: 'kubernetes' }
  const before = await api.get(endpoints, ref)
  await api.delete(services, ref)
  await time.advance(10_000)
  const after = await api.get(endpoints, ref)
  assert.equal(after.metadata?.uid, before.metadata?.uid)

  // If somebody gives the Service a selector, the master removes it at once, and no slice remains.
  await pod('a', '10.0.0.1')
  const service = await api.get(services, ref)
  await api.update(services, { ...service, spec: { ...service.spec, selector: { app: 'web' } } })
  await time.advance(10_000)
  const named = async (): Promise<readonly string[]> =>
    (
      await api.list(endpointSlices, { namespace: 'default', labelSelector: 'kubernetes.io/service-name=kubernetes' })
    ).items.map(({ metadata }) => metadata?.name ?? '')
  assert.deepEqual(await named(), ['kubernetes'])
  await one.end()

  // The same holds for a process that does not manage default/kubernetes, in a fleet that does.
  const two = start('two', { leaderElect: 'false' })
  await api.delete(services, ref)
  await time.advance(10_000)
  assert.equal((await api.get(endpoints, ref)).metadata?.uid, before.metadata?.uid)
  await two.end()
})

test('a dry run of the workload controllers writes nothing, not even a Lease, and logs what it would write', async () => {
  const { time, server, start, pod } = await setUp()
  await pod('a', '10.0.0.1')
  const before = server.revision
  const one = start('one', { dryRun: 'true' })
  await time.advance(60_000)
  assert.equal(server.revision, before)
  const planned = one.logger.lines
    .filter(({ message }) => message === 'dry run: would write')
    .map(({ fields }) => `${fields.verb} ${fields.kind} ${fields.object}`)
  assert.deepEqual(planned.sort(), ['create EndpointSlice default/web-', 'create Endpoints default/web'])
  await one.end()
})

test('service-cidr alone needs no Pods or Services, and uses leader election like the other controllers', async () => {
  const { time, api, start } = await setUp()
  await api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['10.1.0.0/24'] } })
  const [one, two] = ['one', 'two'].map((name) => start(name, { controllers: 'service-cidr' })) as [
    ReturnType<typeof start>,
    ReturnType<typeof start>,
  ]
  for (const { transport } of [one, two]) {
    for (const pathPrefix of ['/api/v1/pods', '/api/v1/services']) {
      transport.faults.add({ fault: { type: 'status', status: 403 }, pathPrefix })
    }
  }
  await time.advance(5_000)
  const { metadata, status } = await api.get(serviceCidrs, { name: 'more' })
  assert.deepEqual(metadata?.finalizers, ['networking.k8s.io/service-cidr-finalizer'])
  assert.equal(status?.conditions?.[0]?.status, 'True')
  const { spec } = await api.get(leases, { namespace: 'kube-system', name: 'apiserver-bootstrap' })
  const [leader, other] = spec?.holderIdentity?.startsWith('one_') ? [one, two] : [two, one]
  assert.match(await leader.metrics.expose(), /duty_active\{duty="service-cidr"\} 1/)
  assert.match(await other.metrics.expose(), /duty_active\{duty="service-cidr"\} 0/)
  await leader.end()
  await api.delete(serviceCidrs, { name: 'more' })
  await time.advance(15_000)
  assert.deepEqual((await api.list(serviceCidrs)).items, [])
  await other.end()
})

test('endpointslice-mirroring alone needs no Pods', async () => {
  const { time, api, start } = await setUp()
  const plain = { namespace: 'default', name: 'plain' }
  await api.create(services, { metadata: plain, spec: { clusterIP: 'None', ports: [{ port: 80 }] } })
  await api.create(endpoints, {
    metadata: plain,
    subsets: [{ addresses: [{ ip: '10.0.0.1' }], ports: [{ port: 80, protocol: 'TCP' }] }],
  })
  const { master, transport, end } = start('one', { controllers: 'endpointslice-mirroring' })
  transport.faults.add({ fault: { type: 'status', status: 403 }, pathPrefix: '/api/v1/pods' })
  await time.advance(90_000)
  const slices = (await api.list(endpointSlices)).items
  assert.deepEqual(
    slices.flatMap((slice) => slice.endpoints?.flatMap(({ addresses }) => addresses)),
    ['10.0.0.1'],
  )
  const check = master.lifecycle.checks('readyz').find(({ name }) => name === 'endpointslice-mirroring')
  assert.equal(await check?.fault(), undefined)
  await end()
})

test('service-cidr and default-service-cidr in one process agree about the default ServiceCIDR', async () => {
  const { time, server, api, start } = await setUp()
  const one = start('one', { controllers: 'default-service-cidr,service-cidr', leaderElect: 'false' })
  await time.advance(5_000)
  const { metadata, status } = await api.get(serviceCidrs, { name: 'kubernetes' })
  assert.deepEqual(metadata?.finalizers, ['networking.k8s.io/service-cidr-finalizer'])
  assert.deepEqual(
    status?.conditions?.map(({ status, message }) => [status, message]),
    [['True', 'Kubernetes Service CIDR is ready']],
  )
  const before = server.revision
  await time.advance(600_000)
  assert.equal(server.revision, before)
  await one.end()
})

test('a dry run of service-cidr writes nothing, and logs what it would write', async () => {
  const { time, server, api, start } = await setUp()
  await api.create(serviceCidrs, { metadata: { name: 'more' }, spec: { cidrs: ['10.1.0.0/24'] } })
  const before = server.revision
  const one = start('one', { controllers: 'service-cidr', dryRun: 'true' })
  await time.advance(60_000)
  assert.equal(server.revision, before)
  const planned = one.logger.lines.map(({ message }) => message).filter((message) => message.startsWith('dry run'))
  assert.deepEqual(planned, [
    'dry run: would write',
    'dry run: would set the finalizer of a ServiceCIDR',
    'dry run: would write',
    'dry run: would set a ServiceCIDR to Ready',
  ])
  await one.end()
})

test('a service-cidr controller that may not list IPAddresses is degraded', async () => {
  const { time, start } = await setUp()
  const { master, transport, end } = start('one', { controllers: 'service-cidr' })
  transport.faults.add({ fault: { type: 'status', status: 403 }, pathPrefix: '/apis/networking.k8s.io/v1/ipaddresses' })
  await time.advance(90_000)
  const check = master.lifecycle.checks('readyz').find(({ name }) => name === 'service-cidr')
  assert.match(String(await check?.fault()), /ipaddresses/)
  await end()
})
