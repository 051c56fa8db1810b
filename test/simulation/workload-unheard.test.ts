import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointSlices, nodes, pods, services } from '../../src/kube/resources.ts'
import { judge } from '../endpoints-model/judge.ts'
import { workloadCompositionOf } from './workload-composition.ts'
import { WorkloadWorld } from './workload-world.ts'

const namespace = 'shop'
const slicesPath = '/apis/discovery.k8s.io/v1/endpointslices'

test('a Service is in sync although its EndpointSlice was created and deleted during an outage of the slice watch', async () => {
  const none = { processes: 1, elects: true, services: 0, pods: 0, nodes: 0, isDualStack: false }
  const composition = { ...workloadCompositionOf(1), ...none }
  const world = new WorkloadWorld(1, composition)
  const { api, server, time, churn, processes } = world
  await world.prepare(composition)
  const [process] = processes
  assert.ok(process)
  process.start()
  await time.advance(10_000)

  const deaf = { fault: { type: 'status', status: 500 }, methods: ['GET'], pathPrefix: slicesPath } as const
  const hear = process.life?.faults.add(deaf)
  process.life?.faults.resetStreams()
  await api.create(nodes, { metadata: { name: 'node' } })
  const spec = { nodeName: 'node', containers: [{ name: 'main', image: 'registry.example/main:1' }] }
  await api.create(pods, { metadata: { namespace, name: 'pod', labels: { app: 'web' } }, spec })
  const status = { phase: 'Running', podIP: '10.244.0.1', podIPs: [{ ip: '10.244.0.1' }] }
  await api.patch(pods, { namespace, name: 'pod' }, { type: 'merge', body: { status } }, { subresource: 'status' })
  const ports = [{ port: 80 }]
  await api.create(services, { metadata: { namespace, name: 'web' }, spec: { selector: { app: 'web' }, ports } })
  await time.advance(8_000)
  const { slices } = await churn.state()
  assert.equal(slices.length, 1, 'the controller recreates the slice without its watch')
  await api.delete(endpointSlices, { namespace, name: slices[0]?.metadata?.name ?? '' })
  // Otherwise the watch would report the creation and the deletion.
  server.compact()
  hear?.()

  await time.advance(200_000)
  assert.deepEqual(judge(await churn.state()), [])
  process.terminate()
  await time.advance(1_000)
})
