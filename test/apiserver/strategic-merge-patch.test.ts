import assert from 'node:assert/strict'
import { test } from 'node:test'
import { any, list, map, object, string, stringSet } from '../../src/apiserver/schema.ts'
import { strategicMergePatch } from '../../src/apiserver/strategic-merge-patch.ts'

const schema = object({
  ports: list(object({ port: any, name: string }), ['port', 'protocol']),
  finalizers: stringSet,
  addresses: list(any),
  annotations: map,
  spec: object({}),
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

/** The fields of the patched object that differ from those before. */
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
  ['an empty patch changes nothing', {}, {}],
  ['an item is merged by its key', { ports: [{ port: 2, name: 'z' }] }, ['1a', '2z', '3c']],
  ['a new item is added at the front', { ports: [{ port: 9, name: 'z' }] }, ['9z', '1a', '2b', '3c']],
  ['an item is deleted', { ports: [{ port: 2, $patch: 'delete' }] }, ['1a', '3c']],
  ['the deletion of a missing item changes nothing', { ports: [{ port: 9, $patch: 'delete' }] }, {}],
  ['the list is replaced', { ports: [{ $patch: 'replace' }, { port: 9, name: 'z' }] }, ['9z']],
  ['the list is ordered', { '$setElementOrder/ports': ports(3, 1) }, ['2b', '3c', '1a']],
  [
    'the list is ordered and merged',
    { '$setElementOrder/ports': ports(2, 9, 1), ports: [{ port: 9, name: 'z' }] },
    ['2b', '9z', '1a', '3c'],
  ],
] as const) {
  test(`a list with a merge key: ${name}`, () => {
    const after = changed(patch)
    const texts = (after.ports as undefined | readonly { port: number; name: string }[])?.map(
      (p) => `${p.port}${p.name}`,
    )
    assert.deepEqual(texts ?? {}, expected)
  })
}

for (const [name, patch, expected] of [
  ['a new value is added to the front of a set', { finalizers: ['z'] }, { finalizers: ['z', 'x', 'y'] }],
  ['a present value is not added to a set again', { finalizers: ['y'] }, {}],
  ['a value is deleted from a set', { '$deleteFromPrimitiveList/finalizers': ['x'] }, { finalizers: ['y'] }],
  ['a list without keys is replaced', { addresses: [3] }, { addresses: [3] }],
  ['a field is removed with null', { addresses: null }, { addresses: undefined }],
  ['a map is merged', { labels: { one: null, three: '3' } }, { labels: { two: '2', three: '3' } }],
  ['a map is replaced', { labels: { $patch: 'replace', three: '3' } }, { labels: { three: '3' } }],
  ['a map is deleted', { labels: { $patch: 'delete' } }, { labels: {} }],
  ['a map retains only the keys in $retainKeys', { labels: { $retainKeys: ['two'] } }, { labels: { two: '2' } }],
] as const) {
  test(name, () => assert.deepEqual(changed(patch), expected))
}

const unidentical = /^list element types are not identical: \[\[map\[name:a port:1\] .*\] \[text\]\]$/
const notThatOrder =
  /^The order in patch list:\n\[map\[port:1\] .*\]\n doesn't match \$setElementOrder list:\n\[map\[.*\]\]\n$/

for (const [patch, code, message] of [
  [{ ports: [{ name: 'keyless' }] }, 500, 'map: map[name:keyless] does not contain declared merge key: port'],
  [{ ports: [{ $patch: 'delete' }] }, 500, 'map: map[$patch:delete] does not contain declared merge key: port'],
  [{ ports: ['text'] }, 500, unidentical],
  [{ ports: [{ port: 1, $patch: 'merge' }] }, 500, 'merging lists cannot yet be specified in the patch'],
  [{ ports: [{ port: 1, $patch: 'x' }] }, 500, 'unknown patch type: x in map: map[$patch:x port:1]'],
  [{ labels: { $patch: 'sideways' } }, 500, 'unknown patch type: sideways in map: map[$patch:sideways]'],
  [{ labels: { $patch: 'merge' } }, 500, 'unknown patch type: merge in map: map[$patch:merge]'],
  [{ labels: { $retainKeys: ['two'], three: '3' } }, 400, 'invalid patch format of retainKeys'],
  [{ labels: { $retainKeys: 'two' } }, 400, 'invalid patch format of retainKeys'],
  [{ '$setElementOrder/ports': 'x' }, 500, 'expected a []interface {}, but received a string'],
  [{ '$setElementOrder/ports': { a: 1 } }, 500, 'expected a []interface {}, but received a map[string]interface {}'],
  [{ '$setElementOrder/ports': null }, 500, 'expected a []interface {}, but received a %!s(<nil>)'],
  [{ '$setElementOrder/labels': [] }, 500, 'expected a []interface {}, but received a map[string]interface {}'],
  [{ '$setElementOrder/spec': [] }, 500, 'expected slice or array type, but got: struct'],
  [{ $setElementOrder: [] }, 400, 'invalid patch format of setElementOrder list'],
  [{ '$setElementOrder/ports': ports(2), ports: ports(1, 2) }, 500, notThatOrder],
  [{ '$setElementOrder/ports': ports(2, 1), ports: ports(1, 2) }, 500, notThatOrder],
  [{ '$setElementOrder/ports': ports(1), ports: 5 }, 500, 'expected a []interface {}, but received a int64'],
  [{ '$setElementOrder/ports': [1], ports: ports(1) }, 500, 'expected a map[string]interface {}, but received a int64'],
  [{ $deleteFromPrimitiveList: [] }, 400, 'invalid patch format of primitive list'],
  [{ '$deleteFromPrimitiveList/finalizers': [1] }, 500, 'list element types are not identical: [[x y] [1]]'],
  [{ finalizers: [['x']] }, 500, 'list element types are not identical: [[x y] [[x]]]'],
] as const) {
  test(`patch ${JSON.stringify(patch)} is refused with ${code}`, () => {
    assert.throws(() => strategicMergePatch(live, patch, schema), { name: 'Refusal', httpStatus: code, message })
  })
}

test('$setElementOrder in a map of strings is refused', () => {
  const patch = { annotations: { '$setElementOrder/x': [] } }
  assert.throws(() => strategicMergePatch({ annotations: { a: '1' } }, patch, schema), {
    httpStatus: 500,
    message: 'merging an object in json but data type is not struct, instead is: map',
  })
})

for (const [name, patch, expected] of [
  ['a $deleteFromPrimitiveList that is not a list is ignored', { '$deleteFromPrimitiveList/finalizers': 'x' }, {}],
  ['a $deleteFromPrimitiveList for a missing list is ignored', { '$deleteFromPrimitiveList/none': ['x'] }, {}],
  ['a $setElementOrder for a missing list is ignored', { '$setElementOrder/none': ['x'] }, {}],
  [
    '$retainKeys can be combined with other directives',
    { $retainKeys: ['finalizers'], '$deleteFromPrimitiveList/finalizers': ['x'] },
    { ports: undefined, finalizers: ['y'], addresses: undefined, labels: undefined },
  ],
] as const) {
  test(name, () => assert.deepEqual(changed(patch), expected))
}

test('values that a patch adds contain neither null fields nor parts with a directive', () => {
  const patch = {
    map: { a: null, b: { $patch: 'delete' }, c: '3' },
    ports: [{ name: 'keyless' }, { $patch: 'delete' }],
  }
  assert.deepEqual(strategicMergePatch({}, patch, schema), { map: { c: '3' }, ports: [{ name: 'keyless' }] })
})

test('a field named __proto__ is patched like any other', () => {
  const before = JSON.parse('{"__proto__":{"a":"1","__proto__":[1]}}')
  const after = strategicMergePatch(before, JSON.parse('{"__proto__":{"b":"2"}}'), schema)
  assert.equal(JSON.stringify(after), '{"__proto__":{"a":"1","__proto__":[1],"b":"2"}}')
  assert.equal(JSON.stringify(strategicMergePatch({}, before, schema)), JSON.stringify(before))
})

test('a patch that nests too deeply is refused', () => {
  let patch: Readonly<Record<string, unknown>> = {}
  for (let i = 0; i < 600; i++) patch = { a: patch }
  assert.throws(() => strategicMergePatch({}, patch, schema), { name: 'Refusal', httpStatus: 400 })
})

test('with duplicate keys a patch merges into the first item only, and deletes all of them', () => {
  const dns = { ports: [{ port: 53, name: 'tcp' }, { port: 53, name: 'udp' }, { port: 80 }, {}] }
  const merged = strategicMergePatch(dns, { ports: [{ port: 53, name: 'z' }] }, schema)
  assert.deepEqual(merged, { ports: [{ port: 53, name: 'z' }, { port: 53, name: 'udp' }, { port: 80 }, {}] })
  const deleted = strategicMergePatch(dns, { ports: [{ port: 53, $patch: 'delete' }] }, schema)
  assert.deepEqual(deleted, { ports: [{ port: 80 }, {}] })
})

test('merge keys of any JSON type are compared by value', () => {
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

test('a merge key that nests too deeply is refused', () => {
  let port: unknown = 1
  for (let depth = 0; depth < 20_000; depth++) port = [port]
  assert.throws(() => strategicMergePatch(live, { ports: [{ port }] }, schema), { httpStatus: 400 })
})

test('processing $retainKeys reads each name a constant number of times', () => {
  const names = Array.from({ length: 1000 }, (_, index) => `k${index}`)
  let reads = 0
  const retained = new Proxy(names, {
    get(target, name) {
      reads++
      return Reflect.get(target, name)
    },
  })
  const document = Object.fromEntries(names.slice(500).map((name) => [name, 'old']))
  const patch = Object.fromEntries(names.map((name) => [name, 'new']))
  assert.deepEqual(
    strategicMergePatch({ ...document, other: 'old' }, { $retainKeys: retained, ...patch }, undefined),
    patch,
  )
  assert.ok(reads < 10 * names.length, `${reads} reads`)
})

test('a new item absent from $setElementOrder follows the present items', () => {
  const document = { list: ['a', 'b'] }
  const patch = { list: ['c'], '$setElementOrder/list': [] }
  assert.deepEqual(strategicMergePatch(document, patch, object({ list: stringSet })), { list: ['a', 'b', 'c'] })
})
