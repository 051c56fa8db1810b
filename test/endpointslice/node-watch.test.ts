import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { AwaitedNodes, NodeWatch } from '../../src/endpointslice/node-watch.ts'
import { ServiceSlices } from '../../src/endpointslice/slice-index.ts'
import { TopologyCache } from '../../src/endpointslice/topology/topology-cache.ts'
import { Informer } from '../../src/kube/informer.ts'
import { type EndpointSlice, endpointSlices, type Node, namespaces, nodes } from '../../src/kube/resources.ts'
import { setUp } from '../bootstrap/masters-world.ts'

test('AwaitedNodes returns the Services that wait for a Node, until they no longer do', () => {
  const awaited = new AwaitedNodes()
  awaited.set('n/a', new Set(['x', 'y']))
  awaited.set('n/b', new Set(['x']))
  assert.deepEqual(awaited.waitingFor('x'), ['n/a', 'n/b'])
  assert.deepEqual(awaited.waitingFor('y'), ['n/a'])
  awaited.set('n/a', new Set(['z']))
  assert.deepEqual(awaited.waitingFor('x'), ['n/b'])
  assert.deepEqual(awaited.waitingFor('y'), [])
  awaited.set('n/b', new Set())
  assert.deepEqual(awaited.waitingFor('x'), [])
  assert.deepEqual(awaited.waitingFor('z'), ['n/a'])
})

/** A controller's NodeWatch beside an API server, with an EndpointSlice of the Service `n/web` on Node `one`. */
async function watching(t: TestContext) {
  const { time, api, ports } = setUp()
  const nodeInformer = new Informer<Node>({ ...ports, api, resource: nodes })
  const sliceInformer = new Informer<EndpointSlice>({ ...ports, api, resource: endpointSlices })
  const queued: string[] = []
  const awaited = new AwaitedNodes()
  const slices = new ServiceSlices({ informer: sliceInformer, managedBy: 'us' })
  const topology = new TopologyCache()
  const watch = new NodeWatch({ nodes: nodeInformer, slices, topology, awaited, queue: (key) => queued.push(key) })
  const stop = new AbortController()
  const runs = [nodeInformer.run(stop.signal), sliceInformer.run(stop.signal), watch.run(stop.signal).catch(() => {})]
  t.after(async () => {
    stop.abort()
    await Promise.all(runs)
  })
  const put = async (name: string, zone: string | undefined, more: { ready?: boolean; cpu?: string } = {}) => {
    const labels = zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone }
    const status = {
      conditions: [{ type: 'Ready', status: more.ready === false ? 'False' : 'True' }],
      ...(more.cpu !== undefined && { allocatable: { cpu: more.cpu } }),
    }
    const found = await api.get(nodes, { name }).catch(() => undefined)
    const node = { ...found, metadata: { ...found?.metadata, name, labels }, status } as Node
    const stored = found === undefined ? await api.create(nodes, node) : await api.update(nodes, node)
    await api.update(nodes, { ...stored, status } as Node, { subresource: 'status' })
    await time.advance(100)
  }
  await api.create(namespaces, { metadata: { name: 'n' } })
  await put('one', 'a')
  await api.create(endpointSlices, {
    metadata: {
      namespace: 'n',
      name: 'web-1',
      labels: { 'kubernetes.io/service-name': 'web', 'endpointslice.kubernetes.io/managed-by': 'us' },
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['192.0.2.1'], nodeName: 'one', zone: 'a' }],
    ports: [],
  })
  await time.advance(100)
  queued.length = 0
  /** The Services that were queued since the last call, and by how much the version has grown. */
  let version = watch.version
  const seen = () => {
    const grown = watch.version - version
    version = watch.version
    return { queued: queued.splice(0), grown }
  }
  return { time, api, awaited, put, seen }
}

test('moving a Node to another zone queues the Service with an endpoint on it; moving another Node does not', async (t) => {
  const { put, seen } = await watching(t)
  await put('two', 'a')
  assert.deepEqual(seen(), { queued: [], grown: 1 })
  await put('two', 'b')
  assert.deepEqual(seen(), { queued: [], grown: 1 })
  await put('one', 'b')
  assert.deepEqual(seen(), { queued: ['n/web'], grown: 1 })
  await put('two', 'c')
  assert.deepEqual(seen(), { queued: [], grown: 1 }, 'it is queued once')
  await put('one', 'a')
  assert.deepEqual(seen(), { queued: [], grown: 1 }, 'the slice already has this zone')
  await put('one', undefined)
  assert.deepEqual(seen(), { queued: ['n/web'], grown: 1 }, 'the loss of a zone counts as a change')
})

test('deleting a Node increases the version and queues nothing; its return in another zone queues the Service', async (t) => {
  const { api, put, time, seen } = await watching(t)
  await api.delete(nodes, { name: 'one' }, {})
  await time.advance(100)
  assert.deepEqual(seen(), { queued: [], grown: 1 })
  await put('one', 'b')
  assert.deepEqual(seen(), { queued: ['n/web'], grown: 1 })
})

test('a Service that waits for a Node is queued when the Node appears, whatever its zone', async (t) => {
  const { awaited, put, seen } = await watching(t)
  awaited.set('n/late', new Set(['three']))
  await put('two', 'a')
  assert.deepEqual(seen(), { queued: [], grown: 1 })
  await put('three', undefined)
  assert.deepEqual(seen(), { queued: ['n/late'], grown: 1 })
})

test('a change in readiness or CPU of a Node does not increase the version', async (t) => {
  const { put, seen } = await watching(t)
  await put('one', 'a', { ready: false })
  await put('one', 'a', { ready: true, cpu: '4' })
  assert.deepEqual(seen(), { queued: [], grown: 0 })
})
