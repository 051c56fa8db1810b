import assert from 'node:assert/strict'
import { test } from 'node:test'
import { any, list, object, string, stringSet } from '../../src/apiserver/kind.ts'
import { strategicMergePatch } from '../../src/apiserver/strategic-merge-patch.ts'

const schema = object({
  ports: list(object({ port: any, name: string }), ['port', 'protocol']),
  finalizers: stringSet,
  addresses: list(any),
})

const live = {
  ports: [
    { port: 1, name: 'a' },
    { port: 2, name: 'b' },
    { port: 3, name: 'c' },
  ],
  finalizers: ['x', 'y'],
  addresses: [1, 2],
  labels: { one: '1', two: '2' },
}

/** The patched object, of which only what differs is listed. */
function changed(patch: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const before = structuredClone(live)
  const after = strategicMergePatch(live, patch, schema) as Readonly<Record<string, unknown>>
  assert.deepEqual(live, before, 'the live object is not changed')
  return Object.fromEntries(
    Object.keys(live)
      .filter((key) => JSON.stringify(after[key]) !== JSON.stringify(live[key as keyof typeof live]))
      .map((key) => [key, after[key]]),
  )
}

function ports(...numbers: readonly number[]): readonly object[] {
  return numbers.map((port) => ({ port }))
}

for (const [name, patch, expected] of [
  ['nothing', {}, {}],
  ['an item is merged by its key', { ports: [{ port: 2, name: 'z' }] }, ['1a', '2z', '3c']],
  ['a new item comes first', { ports: [{ port: 9, name: 'z' }] }, ['9z', '1a', '2b', '3c']],
  ['an item is deleted', { ports: [{ port: 2, $patch: 'delete' }] }, ['1a', '3c']],
  ['a missing item is deleted', { ports: [{ port: 9, $patch: 'delete' }] }, {}],
  ['the list is replaced', { ports: [{ $patch: 'replace' }, { port: 9, name: 'z' }] }, ['9z']],
  ['the list is ordered', { '$setElementOrder/ports': ports(3, 1) }, ['2b', '3c', '1a']],
  [
    'the list is ordered and merged',
    { '$setElementOrder/ports': ports(2, 9, 1), ports: [{ port: 9, name: 'z' }] },
    ['2b', '9z', '1a', '3c'],
  ],
] as const) {
  test(`a list with a key: ${name}`, () => {
    const after = changed(patch)
    const texts = (after.ports as undefined | readonly { port: number; name: string }[])?.map(
      (p) => `${p.port}${p.name}`,
    )
    assert.deepEqual(texts ?? {}, expected)
  })
}

for (const [name, patch, expected] of [
  ['a set gains a value', { finalizers: ['z'] }, { finalizers: ['z', 'x', 'y'] }],
  ['a set keeps a value', { finalizers: ['y'] }, {}],
  ['a set loses a value', { '$deleteFromPrimitiveList/finalizers': ['x'] }, { finalizers: ['y'] }],
  ['a list without keys is replaced', { addresses: [3] }, { addresses: [3] }],
  ['a member is removed', { addresses: null }, { addresses: undefined }],
  ['a map is merged', { labels: { one: null, three: '3' } }, { labels: { two: '2', three: '3' } }],
  ['a map is replaced', { labels: { $patch: 'replace', three: '3' } }, { labels: { three: '3' } }],
  ['a map is deleted', { labels: { $patch: 'delete' } }, { labels: {} }],
  ['a map keeps only some members', { labels: { $retainKeys: ['two'] } }, { labels: { two: '2' } }],
] as const) {
  test(name, () => assert.deepEqual(changed(patch), expected))
}

for (const [patch, code] of [
  [{ ports: [{ name: 'keyless' }] }, 500],
  [{ ports: ['text'] }, 500],
  [{ labels: { $patch: 'sideways' } }, 500],
  [{ labels: { $retainKeys: ['two'], three: '3' } }, 400],
  [{ labels: { $retainKeys: 'two' } }, 400],
] as const) {
  test(`${JSON.stringify(patch)} is refused with ${code}`, () => {
    assert.throws(() => strategicMergePatch(live, patch, schema), { name: 'Refusal', httpStatus: code })
  })
}

test('too deep a patch is refused', () => {
  let patch: Readonly<Record<string, unknown>> = {}
  for (let i = 0; i < 600; i++) patch = { a: patch }
  assert.throws(() => strategicMergePatch({}, patch, schema), { name: 'Refusal', httpStatus: 400 })
})

test('of items with the same key the first is merged, and all are deleted', () => {
  const dns = { ports: [{ port: 53, name: 'tcp' }, { port: 53, name: 'udp' }, { port: 80 }, {}] }
  const merged = strategicMergePatch(dns, { ports: [{ port: 53, name: 'z' }] }, schema)
  assert.deepEqual(merged, { ports: [{ port: 53, name: 'z' }, { port: 53, name: 'udp' }, { port: 80 }, {}] })
  const deleted = strategicMergePatch(dns, { ports: [{ port: 53, $patch: 'delete' }] }, schema)
  assert.deepEqual(deleted, { ports: [{ port: 80 }, {}] })
})

test('keys of any JSON are compared by value', () => {
  const before = { ports: [{ port: { a: 1, b: [2] } }, { port: '1' }] }
  const patch = {
    ports: [
      { port: { b: [2], a: 1 }, name: 'z' },
      { port: 1, name: 'y' },
    ],
  }
  assert.deepEqual(strategicMergePatch(before, patch, schema), {
    ports: [{ port: { b: [2], a: 1 }, name: 'z' }, { port: 1, name: 'y' }, { port: '1' }],
  })
})

test('a key that nests too deep is refused', () => {
  let port: unknown = 1
  for (let depth = 0; depth < 20_000; depth++) port = [port]
  assert.throws(() => strategicMergePatch(live, { ports: [{ port }] }, schema), { httpStatus: 400 })
})
