import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointSlices, namespaces, nodes, pods, services } from '../../src/kube/resources.ts'
import { Cluster } from './cluster.ts'

const managedBy = 'endpointslice-controller.k8s.io'

test('EndpointSlices follow a Service and its Pods from creation to deletion', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['POST 201'])
  assert.deepEqual(await cluster.listed('foo'), [''], 'a placeholder')

  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('b', { ip: '192.0.2.2', ready: false })
  await cluster.pod('other', { ip: '192.0.2.8', labels: { app: 'db' } })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['!192.0.2.2 192.0.2.1 :8080'], 'the placeholder is reused')

  await cluster.podStatus('b', { ip: '192.0.2.2' })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])

  await cluster.deletePod('a')
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.2 :8080'])

  cluster.written()
  await cluster.api.delete(services, { namespace: 'other', name: 'foo' })
  await cluster.pass(5_000)
  assert.deepEqual(cluster.written(), [], 'remaining slices are left to the garbage collector')
  assert.deepEqual(cluster.events, [])
  await stop()
})

test('the EndpointSlice has the metadata, endpoints and ports that upstream writes', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  const service = await cluster.service(
    'foo',
    {
      ports: [
        { name: 'web', port: 80, targetPort: 8080 },
        { name: 'dns', port: 53, protocol: 'UDP', targetPort: 53, appProtocol: 'x' },
      ],
    },
    { labels: { tier: 'front', 'endpointslice.kubernetes.io/managed-by': 'somebody' } },
  )
  await cluster.pod('a', { ips: ['192.0.2.1', '2001:db8::1'], spec: { hostname: 'a-0', subdomain: 'foo' } })
  await cluster.pass()
  const slice = await cluster.slice('foo')
  const pod = await cluster.api.get(pods, { namespace: 'other', name: 'a' })
  assert.match(slice.metadata?.name ?? '', /^foo-.....$/)
  assert.equal(slice.metadata?.generateName, 'foo-')
  assert.deepEqual(slice.metadata?.labels, {
    tier: 'front',
    'kubernetes.io/service-name': 'foo',
    'endpointslice.kubernetes.io/managed-by': managedBy,
  })
  assert.deepEqual(Object.keys(slice.metadata?.annotations ?? {}), ['endpoints.kubernetes.io/last-change-trigger-time'])
  assert.deepEqual(slice.metadata?.ownerReferences, [
    {
      apiVersion: 'v1',
      kind: 'Service',
      name: 'foo',
      uid: service.metadata?.uid,
      controller: true,
      blockOwnerDeletion: true,
    },
  ])
  assert.equal(slice.addressType, 'IPv4')
  assert.deepEqual(slice.endpoints, [
    {
      addresses: ['192.0.2.1'],
      conditions: { ready: true, serving: true, terminating: false },
      hostname: 'a-0',
      targetRef: { kind: 'Pod', namespace: 'other', name: 'a', uid: pod.metadata?.uid },
      nodeName: 'node-a',
      zone: 'zone-a',
    },
  ])
  assert.deepEqual(
    new Set(slice.ports),
    new Set([
      { name: 'web', port: 8080, protocol: 'TCP' },
      { name: 'dns', port: 53, protocol: 'UDP', appProtocol: 'x' },
    ]),
  )
  await stop()
})

test('echoes of its own writes cause no further sync', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass(5_000)
  const { success: first } = await cluster.syncs()
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(20)
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false })
  await cluster.pass(20_000)
  assert.deepEqual(
    await cluster.syncs(),
    { success: (first ?? 0) + 3 },
    'a Pod that appears, gets an address and fails',
  )
  await stop()
})

test('a slice changed by somebody else is corrected a second later', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(3_000)
  cluster.written()
  await cluster.updateSlice('foo', (slice) => ({ ...slice, endpoints: [] }))
  await cluster.pass(900)
  assert.deepEqual(cluster.written(), [])
  await cluster.pass(200)
  assert.deepEqual(cluster.written(), ['PUT 200'])
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('a slice that an earlier term wrote is created again after somebody deletes it', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  const stop = await cluster.lead()
  await stop()
  const stopSecond = await cluster.lead()
  cluster.written()
  const { metadata } = await cluster.slice('foo')
  await cluster.api.delete(endpointSlices, { namespace: 'other', name: metadata?.name ?? '' })
  await cluster.pass(1_100)
  assert.deepEqual(cluster.written(), ['POST 201'])
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stopSecond()
})

test('a slice relabelled to another manager or another Service is replaced', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(3_000)
  const relabel = (key: string, value: string) =>
    cluster.updateSlice('foo', (slice) => ({
      ...slice,
      metadata: { ...slice.metadata, labels: { ...slice.metadata?.labels, [key]: value } },
    }))
  await relabel('endpointslice.kubernetes.io/managed-by', 'somebody')
  await cluster.pass(2_000)
  const owners = (await cluster.slices('foo')).map(
    ({ metadata }) => metadata?.labels?.['endpointslice.kubernetes.io/managed-by'],
  )
  assert.deepEqual(owners.sort(), [managedBy, 'somebody'])
  for (const { metadata } of await cluster.slices('foo')) {
    if (metadata?.labels?.['endpointslice.kubernetes.io/managed-by'] === managedBy) continue
    await cluster.api.delete(endpointSlices, { namespace: 'other', name: metadata?.name ?? '' })
  }
  await relabel('kubernetes.io/service-name', 'bar')
  await cluster.pass(2_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('a Pod on an unknown Node is omitted with an event, and listed as soon as the Node exists', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('late', { ip: '192.0.2.2', spec: { nodeName: 'node-late' } })
  await cluster.pass(60_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  const [event] = cluster.events
  assert.equal(event?.reason, 'FailedToUpdateEndpointSlices')
  assert.equal(event?.regarding.kind, 'Service')
  assert.equal(
    event?.note,
    'Error updating Endpoint Slices for Service other/foo: skipping Pod late for Service other/foo: Node node-late Not Found',
  )
  await cluster.node('node-late', 'zone-a')
  await cluster.pass(10)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])
  await stop()
})

test('with publishNotReadyAddresses a Pod on an unknown Node is listed, and gets its zone when the Node exists', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo', { publishNotReadyAddresses: true })
  await cluster.pod('late', { ip: '192.0.2.2', ready: false, spec: { nodeName: 'node-late' } })
  await cluster.pass()
  const [endpoint] = (await cluster.slice('foo')).endpoints ?? []
  assert.deepEqual(endpoint?.conditions, { ready: true, serving: false, terminating: false })
  assert.equal(endpoint?.zone, undefined)
  await cluster.node('node-late', 'zone-z')
  await cluster.pass(10)
  assert.equal((await cluster.slice('foo')).endpoints?.[0]?.zone, 'zone-z')
  assert.deepEqual(cluster.events, [])
  await stop()
})

test('the zone of an endpoint follows the zone of its Node', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(3_000)
  const before = await cluster.syncs()
  await cluster.nodeStatus('node-a', false)
  await cluster.pass()
  assert.deepEqual(await cluster.syncs(), before)
  await cluster.moveNode('node-a', 'zone-z')
  await cluster.pass(10)
  const moved = await cluster.slice('foo')
  assert.equal(moved.endpoints?.[0]?.zone, 'zone-z')
  assert.deepEqual(moved.metadata?.annotations ?? {}, {}, 'the trigger time is unknown')
  await stop()
})

for (const [what, rule] of [
  ['under way', { methods: ['POST'] }],
  ['not yet in the informer', { stream: true }],
] as const) {
  test(`the zone of an endpoint follows its Node even while the write of its slice is ${what}`, async () => {
    const cluster = await Cluster.started()
    const fault = { type: 'delay', ms: 200 } as const
    cluster.fault({ fault, pathPrefix: '/apis/discovery.k8s.io/v1/', ...rule })
    const stop = await cluster.lead()
    await cluster.pod('a', { ip: '192.0.2.1' })
    await cluster.service('foo')
    await cluster.pass(100)
    await cluster.moveNode('node-a', 'zone-z')
    await cluster.pass(3_000)
    assert.equal((await cluster.slice('foo')).endpoints?.[0]?.zone, 'zone-z')
    await stop()
  })
}

test('while the cache lags behind its own writes a Service waits, and continues as soon as the cache catches up', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(3_000)
  await stop()
  cluster.fault({
    fault: { type: 'delay', ms: 500 },
    stream: true,
    pathPrefix: '/apis/discovery.k8s.io/v1/endpointslices',
  })
  const stopLate = await cluster.lead({}, 3_000)
  cluster.written()
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false })
  await cluster.pass(50)
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: true })
  await cluster.pass(400)
  assert.deepEqual(cluster.written(), ['PUT 200'])
  assert.equal((await cluster.syncs()).stale, 1)
  await cluster.pass(100)
  assert.deepEqual(cluster.written(), ['PUT 200'])
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  assert.deepEqual(cluster.events, [], 'nothing is wrong')
  await stopLate()
})

test('the next sync also waits for the echo of a write that changed only labels', async () => {
  const cluster = await Cluster.started()
  cluster.fault({
    fault: { type: 'delay', ms: 500 },
    stream: true,
    pathPrefix: '/apis/discovery.k8s.io/v1/endpointslices',
  })
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(5_000)
  cluster.written()
  await cluster.updateService('foo', (service) => ({
    ...service,
    metadata: { ...service.metadata, labels: { tier: 'x' } },
  }))
  await cluster.pass(10)
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false })
  await cluster.pass(600)
  assert.deepEqual(cluster.written(), ['PUT 200', 'PUT 200'])
  assert.deepEqual(await cluster.listed('foo'), ['!192.0.2.1 :8080'])
  await stop()
})

test('a failed write is reported in an event and retried after a second', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  cluster.written()
  cluster.fault({ fault: { type: 'status', status: 500 }, methods: ['PUT'], times: 1 })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(900)
  assert.deepEqual(cluster.written(), ['PUT 500'])
  const { metadata } = await cluster.slice('foo')
  assert.deepEqual(
    cluster.events.map(({ reason, note }) => [reason, note]),
    [
      [
        'FailedToUpdateEndpointSlices',
        `Error updating Endpoint Slices for Service other/foo: failed to update ${metadata?.name} EndpointSlice for Service other/foo: injected fault: 500`,
      ],
    ],
  )
  await cluster.pass(200)
  assert.deepEqual(cluster.written(), ['PUT 200'])
  assert.deepEqual(await cluster.syncs(), { success: 3, error: 1 })
  await stop()
})

test('an unreachable server causes no events, and expedite() retries the waiting writes at once', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  const end = cluster.fault({ fault: { type: 'refuse' }, methods: ['PUT'] })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(40_000)
  end()
  assert.deepEqual(cluster.events, [])
  cluster.written()
  cluster.expedite()
  await cluster.pass(10)
  assert.deepEqual(cluster.written(), ['PUT 200'])
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('in a terminating Namespace a refused creation is neither reported nor retried', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  const live = await cluster.api.get(namespaces, { name: 'other' })
  await cluster.api.update(namespaces, { ...live, metadata: { ...live.metadata, finalizers: ['test/hold'] } })
  await cluster.api.delete(namespaces, { name: 'other' })
  const stop = await cluster.lead({}, 10_000)
  assert.deepEqual(cluster.written(), ['POST 403'])
  assert.deepEqual(cluster.events, [])
  await stop()
})

test('a Service in deletion gets no new slices, but its present slices stay in sync', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo', {}, { finalizers: ['test/hold'] })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(3_000)
  await cluster.api.delete(services, { namespace: 'other', name: 'foo' })
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false })
  await cluster.pass()
  assert.deepEqual(await cluster.listed('foo'), ['!192.0.2.1 :8080'])
  const { metadata } = await cluster.slice('foo')
  await cluster.api.delete(endpointSlices, { namespace: 'other', name: metadata?.name ?? '' })
  await cluster.pass(5_000)
  assert.deepEqual(await cluster.listed('foo'), [])
  await stop()
})

test('the endpoints of a slice in deletion are listed in another slice, however long the deletion takes', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass()
  const { metadata: { name = '' } = {} } = await cluster.slice('foo')
  await cluster.updateSlice('foo', (slice) => ({
    ...slice,
    metadata: { ...slice.metadata, finalizers: ['test/hold'] },
  }))
  await cluster.api.delete(endpointSlices, { namespace: 'other', name })
  await cluster.pass(5_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080', '192.0.2.1 :8080'])
  await cluster.podStatus('a', { ip: '192.0.2.1', ready: false })
  await cluster.pass(5_000)
  const slices = await cluster.slices('foo')
  const ready = slices.map(({ metadata, endpoints }) => [
    metadata?.deletionTimestamp !== undefined,
    endpoints?.[0]?.conditions?.ready,
  ])
  assert.deepEqual(ready.sort(), [
    [false, false],
    [true, true],
  ])
  await stop()
})

test('a dual-stack Service has slices of both families; the slices of a removed family are deleted', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo', { ipFamilyPolicy: 'RequireDualStack' })
  await cluster.pod('a', { ips: ['192.0.2.1', '2001:db8::1'] })
  await cluster.pass(3_000)
  assert.deepEqual([...(await cluster.listed('foo'))].sort(), ['192.0.2.1 :8080', '2001:db8::1 :8080'])
  await cluster.updateService('foo', (service) => {
    const { clusterIPs: _ips, ipFamilies: _families, ...spec } = service.spec ?? {}
    return { ...service, spec: { ...spec, ipFamilyPolicy: 'SingleStack' } }
  })
  await cluster.pass(3_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stop()
})

test('hints follow the topology-mode annotation, with an event when they are enabled and disabled', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  const annotations = { 'service.kubernetes.io/topology-mode': 'Auto' }
  await cluster.service('foo', {}, { annotations })
  for (const name of ['a', 'b', 'c', 'd']) {
    const nodeName = name < 'c' ? 'node-a' : 'node-b'
    await cluster.pod(name, { ip: `192.0.2.${name.charCodeAt(0)}`, spec: { nodeName } })
  }
  await cluster.pass(3_000)
  const hints = async () => (await cluster.slice('foo')).endpoints?.map(({ hints }) => hints?.forZones?.[0]?.name)
  assert.deepEqual((await hints())?.sort(), ['zone-a', 'zone-a', 'zone-b', 'zone-b'])
  await cluster.updateService('foo', (service) => ({ ...service, metadata: { ...service.metadata, annotations: {} } }))
  await cluster.pass(3_000)
  assert.deepEqual(await hints(), [undefined, undefined, undefined, undefined])
  const recorded = cluster.events.map(({ reason, note, type }) => `${type} ${reason} ${note}`)
  assert.deepEqual(recorded.slice(-2), [
    'Normal TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4',
    'Warning TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4',
  ])
  await stop()
})

test('a change in a Service with many Pods writes only the slices that it affects', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  const addressOf = (index: number): string => `198.51.${100 + Math.floor(index / 200)}.${index % 200}`
  for (let index = 0; index < 260; index++) await cluster.pod(`pod-${index}`, { ip: addressOf(index) })
  const stop = await cluster.lead()
  assert.deepEqual(cluster.written(), ['POST 201', 'POST 201', 'POST 201'])
  const versions = async () =>
    new Map((await cluster.slices('foo')).map(({ metadata }) => [metadata?.name, metadata?.resourceVersion]))
  const listed = async () => {
    const endpoints = (await cluster.slices('foo')).flatMap((slice) => slice.endpoints ?? [])
    const unready = endpoints.filter(({ conditions }) => !conditions?.ready)
    return { endpoints: endpoints.length, unready: unready.map(({ targetRef }) => targetRef?.name).sort() }
  }
  for (const flipped of [7, 8, 207]) {
    const before = await versions()
    await cluster.podStatus(`pod-${flipped}`, { ip: addressOf(flipped), ready: false })
    await cluster.pass()
    assert.deepEqual(cluster.written(), ['PUT 200'])
    const after = await versions()
    assert.equal([...after].filter(([name, version]) => before.get(name) !== version).length, 1)
  }
  assert.deepEqual(await listed(), { endpoints: 260, unready: ['pod-207', 'pod-7', 'pod-8'] })
  await cluster.deletePod('pod-7')
  await cluster.pod('pod-300', { ip: '203.0.113.1' })
  await cluster.pass()
  assert.deepEqual(await listed(), { endpoints: 260, unready: ['pod-207', 'pod-8'] })
  cluster.written()
  await cluster.moveNode('node-a', 'zone-z')
  await cluster.pass()
  assert.deepEqual(cluster.written(), ['PUT 200', 'PUT 200', 'PUT 200'])
  const zones = (await cluster.slices('foo')).flatMap(({ endpoints }) => (endpoints ?? []).map(({ zone }) => zone))
  assert.deepEqual(new Set(zones), new Set(['zone-z']))
  await stop()
})

test('after the deletion of a Node the next change of a large Service omits the Pod on it', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo')
  for (let index = 0; index < 260; index++) {
    await cluster.pod(`pod-${index}`, {
      ip: `198.51.${100 + (index >> 7)}.${index & 127}`,
      spec: { nodeName: index === 200 ? 'node-b' : 'node-a' },
    })
  }
  const stop = await cluster.lead()
  const names = async () =>
    (await cluster.slices('foo')).flatMap(({ endpoints }) => (endpoints ?? []).map(({ targetRef }) => targetRef?.name))
  assert.equal((await names()).length, 260)
  await cluster.api.delete(nodes, { name: 'node-b' })
  await cluster.pass()
  await cluster.deletePod('pod-7')
  await cluster.pass()
  const left = await names()
  assert.deepEqual([left.length, left.includes('pod-200')], [258, false])
  await stop()
})

test('the first sync of a term already knows the Nodes', async () => {
  const cluster = await Cluster.started()
  await cluster.service('foo', {}, { annotations: { 'service.kubernetes.io/topology-mode': 'Auto' } })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pod('b', { ip: '192.0.2.2', spec: { nodeName: 'node-b' } })
  const stop = await cluster.lead()
  assert.deepEqual(
    cluster.events.map(({ reason }) => reason),
    ['TopologyAwareHintsEnabled'],
  )
  assert.deepEqual(cluster.written(), ['POST 201'])
  await stop()
})

test('hints are removed at once if unready Nodes leave one zone; a sync with Ready Nodes sets them', async () => {
  const cluster = await Cluster.started()
  await cluster.node('node-c', 'zone-c')
  const stop = await cluster.lead()
  await cluster.service('foo', {}, { annotations: { 'service.kubernetes.io/topology-mode': 'Auto' } })
  for (let index = 0; index < 9; index++) {
    const nodeName = `node-${'abc'[index % 3]}`
    await cluster.pod(`pod-${index}`, { ip: `192.0.2.${index + 1}`, spec: { nodeName } })
  }
  await cluster.pass(3_000)
  const hints = async () =>
    new Set((await cluster.slice('foo')).endpoints?.map(({ hints }) => hints?.forZones?.[0]?.name))
  assert.deepEqual(await hints(), new Set(['zone-a', 'zone-b', 'zone-c']))
  await cluster.nodeStatus('node-a', false)
  await cluster.nodeStatus('node-b', false)
  await cluster.pass(100)
  assert.deepEqual(await hints(), new Set([undefined]), 'with one zone there are no hints')
  await cluster.nodeStatus('node-a')
  await cluster.nodeStatus('node-b')
  await cluster.pass(3_000)
  assert.deepEqual(await hints(), new Set([undefined]), 'as upstream, Ready Nodes alone cause no sync')
  await cluster.pod('pod-9', { ip: '192.0.2.10' })
  await cluster.pass(3_000)
  assert.deepEqual(await hints(), new Set(['zone-a', 'zone-b', 'zone-c']))
  await stop()
})

test('a new term completes the half-finished writes of the last, with each endpoint listed exactly once', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead({ maxEndpointsPerSlice: 2 })
  await cluster.service('foo')
  for (let index = 1; index <= 7; index++) await cluster.pod(`pod-${index}`, { ip: `192.0.2.${index}` })
  await cluster.pass(5_000)
  const lost = cluster.fault({ fault: { type: 'drop', lost: 'answer' }, methods: ['POST', 'PUT', 'DELETE'] })
  for (let index = 1; index <= 3; index++) await cluster.deletePod(`pod-${index}`)
  for (let index = 8; index <= 9; index++) await cluster.pod(`pod-${index}`, { ip: `192.0.2.${index}` })
  await cluster.pass(2_000)
  await stop()
  lost()
  const stopSecond = await cluster.lead({ maxEndpointsPerSlice: 2 }, 30_000)
  const addresses = (await cluster.slices('foo')).flatMap(({ endpoints }) =>
    (endpoints ?? []).map(({ addresses }) => addresses[0]),
  )
  assert.deepEqual(
    addresses.sort(),
    [4, 5, 6, 7, 8, 9].map((last) => `192.0.2.${last}`),
  )
  await stopSecond()
})

test('the end of a term stops its writes, and a later term can begin', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead()
  await cluster.service('foo')
  await cluster.pass()
  await stop()
  await cluster.api.delete(nodes, { name: 'node-b' })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(5_000)
  assert.deepEqual(await cluster.listed('foo'), [''])
  const stopSecond = await cluster.lead()
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await stopSecond()
})

test('an excluded Service gets no slices, and its present ones are deleted', async () => {
  const cluster = await Cluster.started()
  const stopFirst = await cluster.lead()
  await cluster.service('foo')
  await cluster.service('bar')
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass()
  await stopFirst()
  cluster.written()
  const stop = await cluster.lead({ isExcluded: (key) => key === 'other/foo' })
  await cluster.pod('b', { ip: '192.0.2.2' })
  await cluster.pass(5_000)
  assert.deepEqual(await cluster.listed('foo'), [])
  assert.deepEqual(await cluster.listed('bar'), ['192.0.2.1 192.0.2.2 :8080'])
  assert.deepEqual(cluster.written().toSorted(), ['DELETE 200', 'PUT 200'])
  await stop()
})

test('refused writes are retried at growing intervals, whatever the write pause', async () => {
  const cluster = await Cluster.started()
  const stop = await cluster.lead({ writePause: () => 5_000 })
  await cluster.service('foo')
  await cluster.pass(10_000)
  cluster.fault({ fault: { type: 'status', status: 403 }, methods: ['PUT'] })
  cluster.written()
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.pass(60_000)
  assert.equal(cluster.written().length, 6, 'after 0, 1, 3, 7, 15 and 31 s')
  await stop()
})

test('a Pod on an unknown Node does not disable the write pause of its Service', async () => {
  const cluster = await Cluster.started()
  await cluster.pod('late', { ip: '192.0.2.9', spec: { nodeName: 'node-late' } })
  await cluster.pod('a', { ip: '192.0.2.1' })
  await cluster.service('foo')
  const stop = await cluster.lead({ writePause: (slices) => 5_000 * slices }, 500)
  await cluster.pod('b', { ip: '192.0.2.2' })
  await cluster.pass(4_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 :8080'])
  await cluster.pass(4_000)
  assert.deepEqual(await cluster.listed('foo'), ['192.0.2.1 192.0.2.2 :8080'])
  await stop()
})

test('a deletion answered with a false 404 or 409 is repeated later', { timeout: 60_000 }, async () => {
  for (const status of [404, 409]) {
    const cluster = await Cluster.started()
    await cluster.pod('a', { ip: '192.0.2.1' })
    await cluster.service('foo')
    const stop = await cluster.lead({ maxEndpointsPerSlice: 1 })
    await cluster.pod('b', { ip: '192.0.2.2' })
    await cluster.pass(5_000)
    const before = (await cluster.slices('foo')).length
    cluster.fault({ fault: { type: 'status', status }, methods: ['DELETE'], times: 1, pathPrefix: '/apis/discovery' })
    await cluster.deletePod('b')
    await cluster.pass(50_000)
    assert.equal((await cluster.slices('foo')).length, before, 'a false answer causes no list')
    await cluster.pass(55_000)
    assert.equal((await cluster.slices('foo')).length, before - 1)
    await stop()
  }
})
