// Upstream's tests of the whole controller put objects into its caches and call its parts. Here an embedded API server
// has the objects, and the controller runs. So each Service is synced once when it appears, which upstream's tests of
// batching leave out; its write is not counted. Services and Pods also have the fields that a server demands (ports,
// images, an external name), and are in the namespace `other`.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { SliceTracker } from '../../src/endpointslice/slice-tracker.ts'
import { cpuRatiosOf, isOverloaded } from '../../src/endpointslice/topology/allocations.ts'
import {
  type EndpointSlice,
  endpointSlices,
  type Node,
  nodes,
  pods,
  type Service,
  services,
} from '../../src/kube/resources.ts'
import { Cluster } from '../endpointslice/cluster.ts'
import { assertSame } from './same.ts'

interface ControllerTables {
  readonly externalName: readonly { readonly name: string; readonly spec: object }[]
  readonly syncService: readonly {
    readonly name: string
    readonly family: string
    readonly servicePorts: readonly object[]
    readonly pods: readonly {
      readonly ips: readonly string[]
      readonly ready: boolean
      readonly terminating?: boolean
    }[]
    readonly endpoints: readonly object[]
    readonly ports: readonly object[]
  }[]
  readonly batching: readonly {
    readonly name: string
    readonly change: 'add' | 'update' | 'delete'
    readonly batchPeriodMs: number
    readonly delaysMs: readonly number[]
    readonly requests: number
  }[]
  readonly staleInformer: readonly {
    readonly name: string
    readonly informer: number
    readonly tracker: number
    readonly stale: boolean
  }[]
  readonly topologyDistribution: readonly {
    readonly name: string
    readonly nodes: readonly { readonly zone?: string; readonly ready: boolean; readonly cpu?: string }[]
    readonly hints?: Readonly<Record<string, number>>
    readonly queued: boolean
  }[]
}

const { tables } = JSON.parse(
  readFileSync(new URL('./data/endpointslice-controller.json', import.meta.url), 'utf8'),
) as { readonly tables: ControllerTables }

const managedBy = 'endpointslice-controller.k8s.io'
const selector = { foo: 'bar' }
const ports = [{ port: 80, targetPort: 80 }]

test('the tables are complete', () => {
  assert.deepEqual(
    Object.values(tables).map(({ length }) => length),
    [4, 6, 9, 3, 9],
  )
})

async function started(): Promise<Cluster> {
  const cluster = await Cluster.started()
  await cluster.node('node-1')
  return cluster
}

function pod(cluster: Cluster, name: string, like: Parameters<Cluster['pod']>[1] = {}): Promise<void> {
  return cluster.pod(name, { labels: selector, ...like, spec: { nodeName: 'node-1', ...like.spec } })
}

function sliceOf(
  service: Service,
  name: string,
  labels: Readonly<Record<string, string>>,
  owned = true,
): EndpointSlice {
  const owner = { apiVersion: 'v1', kind: 'Service', name: service.metadata?.name, uid: service.metadata?.uid }
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: 'other', labels, ...(owned ? { ownerReferences: [owner] } : {}) },
    addressType: 'IPv4',
    endpoints: [],
  } as unknown as EndpointSlice
}

test('TestSyncServiceNoSelector', async () => {
  const cluster = await started()
  await cluster.service('testing-1', { selector: undefined })
  const stop = await cluster.lead()
  assert.deepEqual(cluster.written(), [])
  await stop()
})

for (const { name, spec } of tables.externalName) {
  test(`TestServiceExternalNameTypeSync: ${name}`, async () => {
    const cluster = await started()
    await pod(cluster, 'pod1', { ip: '1.2.3.5' })
    const external = {
      type: 'ExternalName',
      externalName: 'example.com',
      ports: undefined,
      selector: undefined,
      ...spec,
    }
    await cluster.service('testing-1', external)
    const stop = await cluster.lead()
    assert.deepEqual(cluster.written(), [])
    assert.deepEqual(await cluster.slices('testing-1'), [])
    await stop()
  })
}

test('TestSyncServicePendingDeletion', async () => {
  const cluster = await started()
  await cluster.service('testing-1', { selector, ports }, { finalizers: ['test/hold'] })
  await cluster.api.delete(services, { namespace: 'other', name: 'testing-1' })
  const stop = await cluster.lead()
  assert.deepEqual(cluster.written(), [])
  await stop()
})

test('TestSyncServiceWithSelector', async () => {
  const cluster = await started()
  await cluster.service('testing-1', { selector, ports })
  const stop = await cluster.lead()
  assert.deepEqual(cluster.written(), ['POST 201'])
  const slice = await cluster.slice('testing-1')
  assert.match(slice.metadata?.name ?? '', /^testing-1/)
  assert.equal(slice.metadata?.labels?.['kubernetes.io/service-name'], 'testing-1')
  assert.deepEqual([slice.ports ?? [], slice.endpoints ?? []], [[], []])
  assert.ok(slice.metadata?.annotations?.['endpoints.kubernetes.io/last-change-trigger-time'])
  await stop()
})

test('TestSyncServiceMissing', async () => {
  const cluster = await started()
  await cluster.service('stillthere', { selector, ports })
  await cluster.service('notthere', { selector, ports })
  const stop = await cluster.lead()
  cluster.written()
  const gauge = async () => /num_endpoint_slices (\d+)/.exec(await cluster.metrics.expose())?.[1]
  assert.equal(await gauge(), '2')
  await cluster.api.delete(services, { namespace: 'other', name: 'notthere' })
  await cluster.pass(5_000)
  assert.deepEqual(cluster.written(), [])
  assert.equal(await gauge(), '1', 'it is forgotten, the other is not')
  assert.equal((await cluster.syncs()).error, undefined)
  await stop()
})

test('TestSyncServicePodSelection', async () => {
  const cluster = await started()
  await pod(cluster, 'pod1', { ip: '1.2.3.5' })
  await pod(cluster, 'pod2', { ip: '1.2.3.6', labels: { foo: 'boo' } })
  await cluster.service('testing-1', { selector, ports })
  const stop = await cluster.lead()
  assert.deepEqual(cluster.written(), ['POST 201'])
  const slice = await cluster.slice('testing-1')
  assert.ok(slice.metadata?.annotations?.['endpoints.kubernetes.io/last-change-trigger-time'])
  assertSame(
    slice.endpoints?.map(({ targetRef }) => targetRef),
    [{ kind: 'Pod', namespace: 'other', name: 'pod1' }],
    'the Pod',
  )
  await stop()
})

test('TestSyncServiceEndpointSlicePendingDeletion, Test_dropEndpointSlicesPendingDeletion', async () => {
  const cluster = await started()
  const service = await cluster.service('testing-1', { selector, ports })
  const stop = await cluster.lead()
  const labels = { 'kubernetes.io/service-name': 'testing-1', 'endpointslice.kubernetes.io/managed-by': managedBy }
  const slice = sliceOf(service, 'slice-1', labels)
  await cluster.api.create(endpointSlices, { ...slice, metadata: { ...slice.metadata, finalizers: ['test/hold'] } })
  await cluster.api.delete(endpointSlices, { namespace: 'other', name: 'slice-1' })
  cluster.written()
  await cluster.pass(5_000)
  assert.deepEqual(cluster.written(), [])
  await stop()
})

test('TestSyncServiceEndpointSliceLabelSelection', async () => {
  const cluster = await started()
  const service = await cluster.service('testing-1', { selector, ports })
  const named = 'kubernetes.io/service-name'
  const managed = 'endpointslice.kubernetes.io/managed-by'
  const slices = [
    sliceOf(service, 'matching-1', { [named]: 'testing-1', [managed]: managedBy }),
    sliceOf(service, 'matching-2', { [named]: 'testing-1', [managed]: managedBy }),
    sliceOf(service, 'partially-matching-1', { [named]: 'testing-1' }, false),
    sliceOf(service, 'not-matching-1', { [named]: 'something-else', [managed]: managedBy }, false),
    sliceOf(service, 'not-matching-2', { [named]: 'testing-1', [managed]: 'something-else' }, false),
  ]
  for (const slice of slices) await cluster.api.create(endpointSlices, slice)
  const stop = await cluster.lead({}, 10)
  assert.deepEqual(cluster.written(), ['PUT 200', 'DELETE 200'], 'one becomes the placeholder')
  await stop()
})

test('TestOnEndpointSliceUpdate', async () => {
  const cluster = await started()
  await cluster.service('testing-1', { selector, ports })
  const stop = await cluster.lead({}, 3_000)
  const before = (await cluster.syncs()).success ?? 0
  await cluster.updateSlice('testing-1', (slice) => ({
    ...slice,
    metadata: {
      ...slice.metadata,
      labels: {
        ...slice.metadata?.labels,
        'endpointslice.kubernetes.io/managed-by': 'something else'.replace(' ', '-'),
      },
    },
  }))
  await cluster.pass(1_050)
  assert.equal((await cluster.syncs()).success, before + 1)
  await stop()
})

for (const one of tables.syncService) {
  test(`TestSyncService: ${one.name}`, async () => {
    const cluster = await started()
    const service = await cluster.service('foobar', { selector, ports: one.servicePorts, ipFamilies: [one.family] })
    for (const [index, { ips, ready, terminating }] of one.pods.entries()) {
      const name = `pod${index}`
      await pod(cluster, name, { ips, ready })
      if (terminating) await cluster.api.delete(pods, { namespace: 'other', name })
    }
    const stop = await cluster.lead()
    assert.deepEqual(cluster.written(), ['POST 201'])
    const slice = await cluster.slice('foobar')
    const annotation = slice.metadata?.annotations?.['endpoints.kubernetes.io/last-change-trigger-time']
    assert.equal(annotation, service.metadata?.creationTimestamp)
    const byName = (a: object, b: object): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)
    const listed = slice.endpoints?.map(({ targetRef: { uid: _uid, ...targetRef } = {}, ...endpoint }) => ({
      ...endpoint,
      targetRef,
    }))
    assertSame(
      listed?.sort((a, b) => ((a.targetRef.name ?? '') < (b.targetRef.name ?? '') ? -1 : 1)),
      one.endpoints,
      'the endpoints',
    )
    assertSame([...(slice.ports ?? [])].sort(byName), [...one.ports].sort(byName), 'the ports')
    await stop()
  })
}

for (const { name, change, batchPeriodMs, delaysMs, requests } of tables.batching) {
  test(`TestPod${change}sBatching: ${name}`, async () => {
    const cluster = await started()
    for (let index = 0; change !== 'add' && index < 10; index++) {
      await pod(cluster, `pod${index}`, { ip: `1.2.3.${4 + index}` })
      // The start of a Pod's deletion is a separate change, which upstream's test leaves out.
      if (change === 'delete') await cluster.api.delete(pods, { namespace: 'other', name: `pod${index}` })
    }
    await cluster.service('foo', { selector, ports })
    const stop = await cluster.lead({ batchPeriodMs }, 5_000)
    cluster.written()
    for (const [index, delayMs] of delaysMs.entries()) {
      await cluster.pass(delayMs)
      if (change === 'add') await pod(cluster, `pod${index}`, { ip: `1.2.3.${4 + index}` })
      else if (change === 'update') await cluster.podStatus(`pod${index}`, { ip: `10.0.0.${index}` })
      else await cluster.deletePod(`pod${index}`)
    }
    await cluster.pass(3_000)
    assert.equal(cluster.written().length, requests)
    await stop()
  })
}

for (const { name, informer, tracker: tracked, stale } of tables.staleInformer) {
  test(`TestSyncServiceStaleInformer: ${name}`, () => {
    const labels = { 'kubernetes.io/service-name': 'testing-1', 'endpointslice.kubernetes.io/managed-by': managedBy }
    const slice = sliceOf({}, 'matching-1', labels)
    const tracker = new SliceTracker()
    tracker.update({ ...slice, metadata: { ...slice.metadata, generation: tracked } })
    const cached = { ...slice, metadata: { ...slice.metadata, generation: informer } }
    assert.equal(tracker.isStale('other/testing-1', [cached]), stale)
  })
}

for (const { name, nodes: given, hints, queued } of tables.topologyDistribution) {
  test(`Test_checkNodeTopologyDistribution: ${name}`, () => {
    const all = given.map(({ zone, ready, cpu }, index) => ({
      metadata: { name: `node-${index}`, labels: zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone } },
      status: {
        conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }],
        ...(cpu === undefined ? {} : { allocatable: { cpu } }),
      },
    })) as unknown as readonly Node[]
    assert.equal(isOverloaded(new Map(Object.entries(hints ?? {})), cpuRatiosOf(all)), queued)
  })
}

test('TestUpdateNode', async () => {
  const cluster = await started()
  await cluster.api.delete(nodes, { name: 'node-a' })
  await cluster.api.delete(nodes, { name: 'node-b' })
  await cluster.node('node-2')
  await pod(cluster, 'pod1', { ip: '172.18.0.2' })
  await pod(cluster, 'pod2', { ip: '172.18.1.2', spec: { nodeName: 'node-2' } })
  const annotations = { 'service.kubernetes.io/topology-mode': 'Auto' }
  await cluster.service('svc', { selector, ports }, { annotations })
  const stop = await cluster.lead()
  assert.match(cluster.events.at(-1)?.note ?? '', /^Insufficient Node information/)
  await cluster.moveNode('node-1', 'zone-a')
  await cluster.moveNode('node-2', 'zone-b')
  await cluster.pass()
  assert.match(cluster.events.at(-1)?.note ?? '', /^Topology Aware Hints has been enabled/)
  await stop()
})
