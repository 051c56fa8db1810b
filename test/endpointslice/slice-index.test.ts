import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { ServiceSlices } from '../../src/endpointslice/slice-index.ts'
import { Informer } from '../../src/kube/informer.ts'
import { type EndpointSlice, endpointSlices, namespaces } from '../../src/kube/resources.ts'
import { setUp } from '../bootstrap/masters-world.ts'

/** The index of the slices that `us` manages, beside an API server with the namespaces `m` and `n`. */
async function indexing(t: TestContext) {
  const { time, api, ports } = setUp()
  const informer = new Informer<EndpointSlice>({ ...ports, api, resource: endpointSlices })
  const slices = new ServiceSlices({ informer, managedBy: 'us' })
  const stop = new AbortController()
  for (const name of ['m', 'n']) await api.create(namespaces, { metadata: { name } })

  /** Stores a slice that names a Service, by default in the namespace `n`. Each call stores another version. */
  let version = 0
  const put = async (name: string, service: string | undefined, { managedBy = 'us', namespace = 'n' } = {}) => {
    const labels = {
      version: `${++version}`,
      'endpointslice.kubernetes.io/managed-by': managedBy,
      ...(service !== undefined && { 'kubernetes.io/service-name': service }),
    }
    const found = await api.get(endpointSlices, { namespace, name }).catch(() => undefined)
    const metadata = { ...found?.metadata, namespace, name, labels }
    const slice = { ...found, metadata, addressType: 'IPv4', endpoints: [], ports: [] } as EndpointSlice
    const stored = await (found === undefined ? api.create(endpointSlices, slice) : api.update(endpointSlices, slice))
    await time.advance(100)
    return stored
  }
  const remove = async (name: string): Promise<void> => {
    await api.delete(endpointSlices, { namespace: 'n', name })
    await time.advance(100)
  }
  /** The names of the slices of each Service. */
  const listed = () =>
    Object.fromEntries([...slices.entries()].map(([key, byName]) => [key, [...byName.keys()].sort().join(' ')]))

  await put('web-0', 'web')
  const run = informer.run(stop.signal)
  t.after(async () => {
    stop.abort()
    await run
  })
  await time.advance(100)
  return { slices, informer, put, remove, listed }
}

test('slices are indexed by the Service that they name, both present and later ones', async (t) => {
  const { slices, informer, put, listed } = await indexing(t)
  await put('web-1', 'web')
  await put('db-1', 'db')
  await put('web-1', 'web', { namespace: 'm' })
  assert.deepEqual(listed(), { 'n/web': 'web-0 web-1', 'n/db': 'db-1', 'm/web': 'web-1' })
  assert.deepEqual(
    slices.of('n/web'),
    ['web-0', 'web-1'].map((name) => informer.store.get({ namespace: 'n', name })),
  )
  assert.deepEqual(slices.of('n/other'), [])
})

test('slices of another controller and slices that name no Service are not indexed', async (t) => {
  const { slices, put, listed } = await indexing(t)
  assert.ok(slices.manages(await put('web-1', undefined)))
  assert.ok(slices.manages(await put('web-2', '')))
  assert.ok(!slices.manages(await put('web-3', 'web', { managedBy: 'them' })))
  assert.deepEqual(listed(), { 'n/web': 'web-0' })
})

test('a changed slice replaces its former version', async (t) => {
  const { slices, put, listed } = await indexing(t)
  await put('web-1', 'web')
  const [first] = slices.of('n/web')
  const stored = await put('web-0', 'web')
  assert.notEqual(slices.of('n/web')[0], first)
  assert.equal(slices.of('n/web')[0]?.metadata?.resourceVersion, stored.metadata?.resourceVersion)
  assert.deepEqual(listed(), { 'n/web': 'web-0 web-1' })
})

test('a slice that names another Service is no longer indexed for the former one', async (t) => {
  const { put, listed } = await indexing(t)
  await put('web-1', 'web')
  await put('web-1', 'db')
  assert.deepEqual(listed(), { 'n/web': 'web-0', 'n/db': 'web-1' })
  await put('web-0', 'db')
  assert.deepEqual(listed(), { 'n/db': 'web-0 web-1' })
  await put('web-1', undefined)
  assert.deepEqual(listed(), { 'n/db': 'web-0' })
})

test('a slice taken by another controller leaves the index, and returns when it is given back', async (t) => {
  const { slices, put, listed } = await indexing(t)
  await put('web-0', 'web', { managedBy: 'them' })
  assert.deepEqual(slices.of('n/web'), [])
  assert.deepEqual(listed(), {})
  // The slice leaves nothing in the index that affects later changes.
  await put('web-0', 'db', { managedBy: 'them' })
  await put('web-0', 'db')
  assert.deepEqual(listed(), { 'n/db': 'web-0' })
})

test('deleting a slice leaves the others of its Service; deleting the last removes the Service', async (t) => {
  const { put, remove, listed } = await indexing(t)
  await put('web-1', 'web')
  await put('web-2', 'web', { managedBy: 'them' })
  await put('db-1', 'db')
  await remove('web-1')
  await remove('web-2')
  assert.deepEqual(listed(), { 'n/web': 'web-0', 'n/db': 'db-1' })
  await remove('web-0')
  assert.deepEqual(listed(), { 'n/db': 'db-1' })
})

test('deleting a slice of another controller removes no managed slice', async (t) => {
  const { put, remove, listed } = await indexing(t)
  await put('alien', 'web', { managedBy: 'them' })
  await put('alien', 'db', { managedBy: 'them' })
  await remove('alien')
  assert.deepEqual(listed(), { 'n/web': 'web-0' })
})
