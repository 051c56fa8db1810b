import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Embedded } from './embedded.ts'

const path = '/api/v1/namespaces/default/endpoints'

async function filled(): Promise<Embedded> {
  const embedded = await Embedded.started()
  for (const name of ['a', 'b', 'c']) await embedded.send('POST', path, { metadata: { name } })
  return embedded
}

test('a page reports remainingItemCount unless the list has a selector', async () => {
  const embedded = await filled()
  assert.equal((await embedded.send('GET', `${path}?limit=1`)).body.metadata.remainingItemCount, 2)
  const { metadata } = (await embedded.send('GET', `${path}?limit=1&labelSelector=!x`)).body
  assert.ok(metadata.continue !== undefined && metadata.remainingItemCount === undefined)
})

test('a continue token of a compacted revision works while that state is current, then returns 410', async () => {
  const embedded = await filled()
  const first = (await embedded.send('GET', `${path}?limit=1`)).body
  embedded.server.compact()
  const next = `${path}?limit=1&continue=${first.metadata.continue}`
  assert.equal((await embedded.send('GET', next)).status, 200)
  await embedded.send('DELETE', `${path}/b`)
  embedded.server.compact()
  const { status, body } = await embedded.send('GET', next)
  assert.deepEqual([status, body.reason, body.code], [410, 'Expired', 410])
})

test('the 410 for an expired page includes a continue token for the rest of the present state', async () => {
  const embedded = await filled()
  const first = (await embedded.send('GET', `${path}?limit=1`)).body
  await embedded.send('DELETE', `${path}/b`)
  await embedded.send('POST', path, { metadata: { name: 'd' } })
  embedded.server.compact()
  const expired = (await embedded.send('GET', `${path}?limit=1&continue=${first.metadata.continue}`)).body
  const rest = (await embedded.send('GET', `${path}?limit=1&continue=${expired.metadata.continue}`)).body
  assert.equal(rest.metadata.resourceVersion, String(embedded.server.revision))
  const last = (await embedded.send('GET', `${path}?limit=1&continue=${rest.metadata.continue}`)).body
  const names = [...rest.items, ...last.items].map((item) => item.metadata.name)
  assert.deepEqual([names, last.metadata.continue], [['c', 'd'], undefined])
})

test('deleting the collection of an older state skips the objects that no longer exist', async () => {
  for (const query of ['resourceVersionMatch=Exact', 'limit=3']) {
    const embedded = await filled()
    const { revision } = embedded.server
    await embedded.send('DELETE', `${path}/b`)
    const { status, body } = await embedded.send('DELETE', `${path}?resourceVersion=${revision}&${query}`)
    assert.deepEqual([status, body.items.length], [200, 3])
    assert.deepEqual((await embedded.send('GET', path)).body.items, [])
  }
})

test('a list at a compacted revision returns 410', async () => {
  const embedded = await filled()
  embedded.server.compact()
  for (const query of ['resourceVersion=2&resourceVersionMatch=Exact', 'resourceVersion=2&limit=1']) {
    const { status, body } = await embedded.send('GET', `${path}?${query}`)
    assert.equal(status, 410)
    assert.equal(body.message, 'The resourceVersion for the provided list is too old.')
  }
})

test('a list from resourceVersion "0" ignores the limit', async () => {
  const embedded = await filled()
  assert.equal((await embedded.send('GET', `${path}?limit=1&resourceVersion=0`)).body.items.length, 3)
})

const refused: readonly (readonly [query: string, status: number])[] = [
  ['limit=x', 400],
  ['continue=x&resourceVersion=5', 400],
  ['fieldSelector=constructor%3Dx', 400],
  ['resourceVersionMatch=Exact', 422],
  ['resourceVersionMatch=Nearly&resourceVersion=5', 422],
  ['resourceVersionMatch=Exact&resourceVersion=0', 422],
  ['sendInitialEvents=true&resourceVersionMatch=NotOlderThan', 422],
  ['watch=1&sendInitialEvents=true', 422],
  ['watch=1&resourceVersion=5&resourceVersionMatch=Exact', 422],
]

for (const [query, status] of refused) {
  test(`a list with ${query} is refused with ${status}`, async () => {
    const embedded = await filled()
    assert.equal((await embedded.send('GET', `${path}?${query}`)).status, status)
  })
}

test('label selectors ignore properties inherited from Object.prototype', async () => {
  const embedded = await filled()
  await embedded.send('POST', path, { metadata: { name: 'd', labels: { app: 'd' } } })
  for (const [selector, count] of [
    ['constructor', 0],
    ['!toString', 4],
    ['valueOf!=x', 4],
  ] as const) {
    const { body } = await embedded.send('GET', `${path}?labelSelector=${encodeURIComponent(selector)}`)
    assert.equal(body.items.length, count, selector)
  }
})

test('a malformed continue token returns 400, not a server error', async () => {
  const embedded = await filled()
  for (const forged of [
    '{}',
    '[]',
    'null',
    '{"v":"meta.k8s.io/v1","rv":"1","start":"/a"}',
    '{"v":"meta.k8s.io/v1","rv":1,"start":7}',
  ]) {
    assert.equal(
      (await embedded.send('GET', `${path}?continue=${encodeURIComponent(btoa(forged))}`)).status,
      400,
      forged,
    )
  }
})
