import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Pod, Service } from '../../src/kube/resources.ts'
import { followPodsAndServices } from './followed.ts'

type Labels = Readonly<Record<string, string>>

const pod = (name: string, labels?: Labels, more: { readonly status?: object; readonly spec?: object } = {}): Pod =>
  ({ metadata: { namespace: 'ns', name, ...(labels && { labels }) }, ...more }) as Pod
const service = (name: string, selector?: Labels, type = 'ClusterIP'): Service => ({
  metadata: { namespace: 'ns', name },
  spec: { type, ...(selector && { selector }) },
})
const ready = (status: 'True' | 'False') => ({ status: { conditions: [{ type: 'Ready', status }] } })

async function setUp(t: TestContext) {
  const world = await followPodsAndServices(t)
  const reported: string[] = []
  world.members.subscribe((key) => reported.push(key))
  return {
    ...world,
    /** The reported keys since the last call. */
    reported: (): readonly string[] => reported.splice(0).sort(),
    membersOf: (name: string): readonly (string | undefined)[] =>
      world.members.podsOf(service(name)).map(({ metadata }) => metadata?.name),
  }
}

test('a Service has the Pods of its namespace with all labels of its selector, whichever came first', async (t) => {
  const { pods, services, membersOf } = await setUp(t)
  await pods.put(pod('a', { app: 'web', tier: 'front' }))
  await services.put(service('web', { app: 'web', tier: 'front' }))
  await pods.put(pod('b', { app: 'web', tier: 'front', more: 'yes' }))
  await pods.put(pod('c', { app: 'web' }))
  await pods.put({ metadata: { namespace: 'other', name: 'd', labels: { app: 'web', tier: 'front' } } })
  assert.deepEqual(membersOf('web'), ['a', 'b'])
})

test('a Service without a selector or of type ExternalName has no Pods; one with an empty selector has all', async (t) => {
  const { pods, services, membersOf, reported } = await setUp(t)
  await services.put(service('none'))
  await services.put(service('external', { app: 'web' }, 'ExternalName'))
  const written = service('null')
  await services.put({ ...written, spec: { ...written.spec, selector: null } } as unknown as Service)
  await services.put(service('all', {}))
  await pods.put(pod('a', { app: 'web' }))
  await pods.put(pod('b'))
  assert.deepEqual(['none', 'null', 'external', 'all', 'unknown'].map(membersOf), [[], [], [], ['a', 'b'], []])
  assert.deepEqual(reported(), ['ns/all', 'ns/all'])
})

test('members follow a selector that changes, appears or disappears, and subscribers receive nothing', async (t) => {
  const { pods, services, membersOf, reported } = await setUp(t)
  await pods.put(pod('a', { app: 'a' }))
  await pods.put(pod('b', { app: 'b' }))
  const seen: unknown[] = []
  for (const selector of [{ app: 'a' }, { app: 'b' }, undefined, { app: 'b' }, {}]) {
    await services.put(service('web', selector))
    seen.push(membersOf('web'))
  }
  await services.put(service('web', { app: 'a' }, 'ExternalName'))
  seen.push(membersOf('web'))
  await services.put(service('web', { app: 'a' }))
  await services.delete('ns/web')
  seen.push(membersOf('web'))
  assert.deepEqual(seen, [['a'], ['b'], [], ['b'], ['a', 'b'], [], []])
  assert.deepEqual(reported(), [])
})

test('an added or deleted Pod is reported for the Services that select it', async (t) => {
  const { pods, services, reported, membersOf } = await setUp(t)
  await services.put(service('a', { app: 'a' }))
  await services.put(service('also-a', { app: 'a' }))
  await services.put(service('b', { app: 'b' }))
  await pods.put(pod('one', { app: 'a' }))
  assert.deepEqual(reported(), ['ns/a', 'ns/also-a'])
  await pods.delete('ns/one')
  assert.deepEqual(reported(), ['ns/a', 'ns/also-a'])
  assert.deepEqual(membersOf('a'), [])
})

test('a change that affects no endpoint is not reported, but the Service has the new Pod', async (t) => {
  const { pods, services, members, reported } = await setUp(t)
  await services.put(service('web', { app: 'web' }))
  await pods.put(pod('a', { app: 'web' }))
  reported()
  await pods.put(pod('a', { app: 'web' }, { spec: { nodeName: 'node-1' }, status: { phase: 'Running' } }))
  assert.deepEqual(reported(), [])
  assert.equal(members.podsOf(service('web'))[0]?.spec?.nodeName, 'node-1')
})

test('a label change is reported for the Services that the Pod leaves or joins; with an endpoint change also for the others', async (t) => {
  const { pods, services, reported } = await setUp(t)
  for (const app of ['old', 'new']) await services.put(service(app, { app }))
  await services.put(service('both', { tier: 'front' }))
  await pods.put(pod('a', { app: 'old', tier: 'front' }))
  reported()
  await pods.put(pod('a', { app: 'new', tier: 'front' }))
  assert.deepEqual(reported(), ['ns/new', 'ns/old'])
  await pods.put(pod('a', { app: 'old', tier: 'front' }, ready('True')))
  assert.deepEqual(reported(), ['ns/both', 'ns/new', 'ns/old'])
})

test('every change of a terminating Pod is reported', async (t) => {
  const { pods, services, reported } = await setUp(t)
  await services.put(service('web', { app: 'web' }))
  const leaving = (phase: string): Pod => ({
    metadata: { namespace: 'ns', name: 'a', labels: { app: 'web' }, deletionTimestamp: '2026-01-01T00:00:00Z' },
    status: { phase },
  })
  await pods.put(pod('a', { app: 'web' }))
  for (const phase of ['Running', 'Failed', 'Failed']) await pods.put(leaving(phase))
  assert.deepEqual(reported(), ['ns/web', 'ns/web', 'ns/web', 'ns/web'])
})

test('a subscriber receives nothing after it has unsubscribed', async (t) => {
  const { pods, services, members, reported } = await setUp(t)
  await services.put(service('web', { app: 'web' }))
  const received: string[] = []
  const leave = members.subscribe((key) => received.push(key))
  await pods.put(pod('a', { app: 'web' }))
  leave()
  await pods.put(pod('b', { app: 'web' }))
  assert.deepEqual(received, ['ns/web'])
  assert.deepEqual(reported(), ['ns/web', 'ns/web'])
})
