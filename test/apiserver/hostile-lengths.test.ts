import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseListOptions } from '../../src/apiserver/query.ts'
import { configMapKind } from '../../src/apiserver/resources/plain-kinds.ts'
import { Store, type StoredObject } from '../../src/apiserver/store.ts'
import { mergeFields } from '../../src/apiserver/typed-fields.ts'
import { openWatch } from '../../src/apiserver/watch.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { Embedded } from './embedded.ts'

/** Whoever compares each item with each, or moves all for each, is occupied for longer, and answers nobody meanwhile. */
const LONG_MS = 8000

async function soon(work: () => unknown): Promise<void> {
  const beganMs = performance.now()
  await work()
  const tookMs = performance.now() - beganMs
  assert.ok(tookMs < LONG_MS, `it took ${Math.round(tookMs)} ms`)
}

const numbered = (count: number): string[] => Array.from({ length: count }, (_, index) => `a/${index + 1e6}`)

test('an object that is being deleted keeps a hundred thousand finalizers', async () => {
  const embedded = await Embedded.started()
  const path = '/api/v1/namespaces/default/configmaps'
  const metadata = { name: 'a', finalizers: numbered(100_000) }
  await embedded.send('POST', path, { metadata })
  await embedded.send('DELETE', `${path}/a`)
  const again = { ...metadata, finalizers: numbered(100_000).reverse() }
  await soon(async () => assert.equal((await embedded.send('PUT', `${path}/a`, { metadata: again })).status, 200))
})

test('a long list is merged with itself in a moment', () =>
  soon(() => {
    const items = numbered(250_000)
    assert.deepEqual(mergeFields(items, [...items], { type: 'list', items: { type: 'string' }, keys: 'value' }), items)
  }))

test('a watch of two hundred thousand objects begins with each of them', async () => {
  const store = new Store(1)
  const count = 200_000
  for (const [index, name] of numbered(count).entries()) {
    const metadata = { name, uid: String(index), resourceVersion: '' }
    store.objects(configMapKind).put(name, { kind: 'ConfigMap', apiVersion: 'v1', metadata } satisfies StoredObject)
  }
  const context = { store, clock: new VirtualClock().view(), random: seededRandom(1, 'watch'), bufferLimit: 1 }
  const options = parseListOptions([['watch', 'true']], configMapKind)
  const { signal } = new AbortController()
  await soon(async () => {
    let read = 0
    for await (const _ of openWatch(context, configMapKind, undefined, options, signal)) if (++read === count) break
    assert.equal(read, count)
  })
})
