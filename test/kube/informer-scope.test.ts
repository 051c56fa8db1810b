import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { InformerScope, type Informers, SharedInformers } from '../../src/kube/informer.ts'
import { configMaps, namespaces } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { aborted } from '../../src/runtime/signals.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

async function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const random = seededRandom(1, 'test')
  const server = createApiServer({ clock, random })
  const api = restKubeApi({ transport: inProcessTransport(server), clock, random })
  const informers = new SharedInformers({ api, clock, random, logger: silentLogger })
  const stop = new AbortController()
  const running = informers.run(stop.signal)
  const add = async (name: string): Promise<void> => {
    await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    await time.advance(100)
  }
  const end = async (): Promise<void> => {
    stop.abort()
    await time.advance(1_000)
    await running
  }
  return { time, informers, add, end }
}

test('a handler that throws ends only its own scope; handlers of other scopes still receive changes', async () => {
  const { time, informers, add, end } = await setUp()
  const [broken, sound] = [new InformerScope(informers), new InformerScope(informers)]
  let calls = 0
  broken.get(namespaces).subscribe(() => {
    calls++
    throw new Error('a mistake')
  })
  const received: unknown[] = []
  sound
    .get(namespaces)
    .subscribe((change) => received.push(change.type === 'deleted' ? '' : change.object.metadata?.name))
  const stop = new AbortController()
  const failed = assert.rejects(broken.run(stop.signal, aborted), /a mistake/)
  const others = sound.run(stop.signal, aborted)
  await add('one')
  await failed
  await add('two')
  assert.deepEqual([calls, received.slice(-2)], [1, ['one', 'two']])
  stop.abort()
  await time.advance(1)
  await others
  await add('three')
  assert.equal(received.at(-1), 'two', 'no subscription outlives its scope')
  await end()
})

test('the end of a scope does not end a subscription a second time', async () => {
  const { time, informers, end } = await setUp()
  let ends = 0
  const counted: Informers = {
    whenSynced: (signal) => informers.whenSynced(signal),
    get: (resource, options) =>
      Object.create(informers.get(resource, options), { subscribe: { value: () => () => void ends++ } }),
  }
  const scope = new InformerScope(counted)
  const unsubscribe = scope.get(namespaces).subscribe(() => {})
  scope.get(namespaces).subscribe(() => {})
  unsubscribe()
  assert.equal(ends, 1)
  const stop = new AbortController()
  const running = scope.run(stop.signal, aborted)
  stop.abort()
  await time.advance(1)
  await running
  assert.equal(ends, 2)
  await end()
})

test('a list handler that throws ends its own scope, but not the shared informers', async () => {
  const { time, informers, end } = await setUp()
  const scope = new InformerScope(informers)
  scope.get(namespaces).subscribeToLists(() => {
    throw new Error('a mistake')
  })
  const failed = assert.rejects(scope.run(new AbortController().signal, aborted), /a mistake/)
  informers.get(namespaces).restart()
  await time.advance(100)
  await failed
  await end()
})

test('a scope waits until its own informers have synced, not those of other scopes', async () => {
  const { time, informers, end } = await setUp()
  // No server serves this resource.
  new InformerScope(informers).get({ ...configMaps, plural: 'nothings' })
  const scope = new InformerScope(informers)
  scope.get(namespaces)
  let synced = false
  void scope.whenSynced().then(() => {
    synced = true
  })
  await time.advance(2_000)
  assert.equal(synced, true)
  await end()
})
