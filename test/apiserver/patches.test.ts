import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jsonPatch, mergePatch, patched } from '../../src/apiserver/patches.ts'
import { any } from '../../src/apiserver/schema.ts'

/** The examples in the appendix of RFC 7386. */
const merges: readonly (readonly [document: unknown, patch: unknown, result: unknown])[] = [
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
]

for (const [document, patch, result] of merges) {
  test(`merging ${JSON.stringify(patch)} into ${JSON.stringify(document)} gives the result of RFC 7386`, () => {
    assert.deepEqual(mergePatch(document, patch), result)
  })
}

test('the patch null changes nothing, but is no merge patch', () => {
  const live = { metadata: { name: 'a' }, data: { x: '1' } } as unknown as Parameters<typeof patched>[1]
  for (const type of ['json', 'strategic'] as const) assert.deepEqual(patched(type, live, null, any), live)
  assert.throws(() => patched('merge', live, null, any), { httpStatus: 400, message: 'Invalid JSON Patch' })
})

test('patches treat properties inherited from Object.prototype as missing', () => {
  for (const name of ['constructor', 'toString', '__proto__']) {
    assert.deepEqual(jsonPatch({}, [{ op: 'test', path: `/${name}`, value: null }]), {})
    assert.deepEqual(jsonPatch({}, [{ op: 'copy', from: `/${name}`, path: '/a' }]), { a: null })
    assert.throws(() => jsonPatch({}, [{ op: 'add', path: `/${name}/x`, value: 1 }]), { httpStatus: 422 })
    assert.throws(() => jsonPatch({}, [{ op: 'remove', path: `/${name}` }]), { httpStatus: 422 })
    const merged = mergePatch({}, JSON.parse(`{"${name}":{"x":1}}`))
    assert.equal(JSON.stringify(merged), `{"${name}":{"x":1}}`)
  }
  assert.equal('x' in {}, false)
})

const document = Object.freeze({ a: 1, list: Object.freeze([1, 2, 3]), 'x/y': { '~z': true } })

const patches: readonly (readonly [operation: object, result: unknown])[] = [
  [
    { op: 'add', path: '/b', value: null },
    { ...document, b: null },
  ],
  [
    { op: 'add', path: '/a', value: 2 },
    { ...document, a: 2 },
  ],
  [
    { op: 'add', path: '/list/1', value: 9 },
    { ...document, list: [1, 9, 2, 3] },
  ],
  [
    { op: 'add', path: '/list/3', value: 9 },
    { ...document, list: [1, 2, 3, 9] },
  ],
  [
    { op: 'add', path: '/list/-', value: 9 },
    { ...document, list: [1, 2, 3, 9] },
  ],
  [
    { op: 'remove', path: '/list/0' },
    { ...document, list: [2, 3] },
  ],
  [
    { op: 'remove', path: '/x~1y/~0z' },
    { ...document, 'x/y': {} },
  ],
  [{ op: 'replace', path: '', value: { b: 2 } }, { b: 2 }],
  [{ op: 'replace', path: '', value: [7] }, [7]],
  [
    { op: 'replace', path: '/new', value: 7 },
    { ...document, new: 7 },
  ],
  [
    { op: 'add', path: '/a' },
    { ...document, a: null },
  ],
  [
    { op: 'replace', path: '/a' },
    { ...document, a: null },
  ],
  [
    { op: 'copy', from: '/nothing', path: '/b' },
    { ...document, b: null },
  ],
  [
    { op: 'add', path: 'ignored/b', value: 1 },
    { ...document, b: 1 },
  ],
  [
    { op: 'add', path: '/list/-1', value: 9 },
    { ...document, list: [1, 2, 3, 9] },
  ],
  [
    { op: 'add', path: '/list/-4', value: 9 },
    { ...document, list: [9, 1, 2, 3] },
  ],
  [
    { op: 'replace', path: '/list/-1', value: 9 },
    { ...document, list: [1, 2, 9] },
  ],
  [
    { op: 'remove', path: '/list/-3' },
    { ...document, list: [2, 3] },
  ],
  [
    { op: 'add', path: '/list/01', value: 9 },
    { ...document, list: [1, 9, 2, 3] },
  ],
  [
    { op: 'add', path: '/list/+1', value: 9 },
    { ...document, list: [1, 9, 2, 3] },
  ],
  [{ op: 'test', path: '/list/-0', value: 1 }, document],
  [{ op: 'test', path: '/nothing' }, document],
  [{ op: 'test', path: '/nothing', value: null }, document],
  [{ op: 'test', path: '', value: document }, document],
  [
    { op: 'move', from: '/list/0', path: '/list/2' },
    { ...document, list: [2, 3, 1] },
  ],
  [
    { op: 'copy', from: '/a', path: '/list/0' },
    { ...document, list: [1, 1, 2, 3] },
  ],
  [{ op: 'test', path: '/list', value: [1, 2, 3] }, document],
]

for (const [operation, result] of patches) {
  test(`JSON patch operation ${JSON.stringify(operation)} succeeds`, () => {
    assert.deepEqual(jsonPatch(document, [operation]), result)
  })
}

const refused = [
  { op: 'add', path: '/list/4', value: 1 },
  { op: 'add', path: '/list/-5', value: 1 },
  { op: 'replace', path: '/list/-4', value: 1 },
  { op: 'remove', path: '/list/-4' },
  { op: 'remove', path: '/list/1.0' },
  { op: 'remove', path: '/list/' },
  { op: 'replace', path: '', value: 7 },
  { op: 'replace', path: '' },
  { op: 'add', path: '', value: {} },
  { op: 'test', path: '/nothing', value: 1 },
  { op: 'test', path: '/nothing/more', value: null },
  { op: 'test', path: '/a' },
  { op: 'copy', from: '', path: '/b' },
  { op: 'move', from: '', path: '/b' },
  { op: 'replace', path: '/list/-', value: 1 },
  { op: 'remove', path: '/list/3' },
  { op: 'remove', path: '/nothing' },
  { op: 'remove', path: '/toString' },
  { op: 'add', path: '/nothing/more', value: 1 },
  { op: 'add', path: '/a/more', value: 1 },
  { op: 'test', path: '/a', value: 2 },
  { op: 'copy', from: '/nothing/more', path: '/b' },
  { op: 'move', from: '/nothing', path: '/b' },
  { op: 'move', path: '/b' },
  { op: 'add', path: 'a', value: 1 },
  { op: 'jump', path: '/a' },
  { path: '/a' },
]

for (const operation of refused) {
  test(`JSON patch operation ${JSON.stringify(operation)} is refused`, () => {
    assert.throws(() => jsonPatch(document, [operation]), { name: 'Refusal', httpStatus: 422 })
  })
}

test('a JSON patch changes neither the live object nor the values in its operations', () => {
  const live = { list: [{ a: 1 }] }
  const value = { b: 1 }
  const operations = [
    { op: 'add', path: '/new', value },
    { op: 'replace', path: '/new/b', value: 2 },
    { op: 'copy', from: '/new', path: '/list/-' },
    { op: 'replace', path: '/list/1/b', value: 3 },
    { op: 'remove', path: '/list/0/a' },
  ]
  assert.deepEqual(jsonPatch(live, operations), { list: [{}, { b: 3 }], new: { b: 2 } })
  assert.deepEqual([live, value], [{ list: [{ a: 1 }] }, { b: 1 }])
})

test('patches treat a field named __proto__ like any other', () => {
  const operations = [
    { op: 'add', path: '/__proto__', value: { a: 1 } },
    { op: 'replace', path: '/__proto__', value: { a: 2 } },
    { op: 'copy', from: '/__proto__', path: '/b' },
    { op: 'remove', path: '/__proto__' },
  ]
  assert.deepEqual(jsonPatch({}, operations), { b: { a: 2 } })
  const merged = mergePatch(JSON.parse('{"__proto__":{"a":1}}'), JSON.parse('{"__proto__":{"b":2}}'))
  assert.equal(JSON.stringify(merged), '{"__proto__":{"a":1,"b":2}}')
  assert.equal(JSON.stringify(mergePatch({}, JSON.parse('{"__proto__":{}}'))), '{"__proto__":{}}')
})

test('an add operation without a value adds null, which can be copied', () => {
  const operations = [
    { op: 'add', path: '/a' },
    { op: 'copy', from: '/a', path: '/b' },
  ]
  assert.deepEqual(jsonPatch({}, operations), { a: null, b: null })
})

test('a JSON patch that shifts 400 million list items is refused; 100 million are allowed', () => {
  const first = '/list/0'
  const few = { list: new Array(10_000).fill(1) }
  const many = { list: new Array(400_000).fill(1) }
  const operations = [
    { op: 'add', path: first, value: 0 },
    { op: 'remove', path: first },
    { op: 'move', from: '/list/-1', path: first },
  ]
  for (const operation of operations) {
    assert.doesNotThrow(() => jsonPatch(few, new Array(10_000).fill(operation)))
    assert.throws(() => jsonPatch(many, new Array(1000).fill(operation)), { name: 'Refusal', httpStatus: 422 })
  }
  const last = { op: 'add', path: '/list/-', value: 0 }
  assert.doesNotThrow(() => jsonPatch(many, new Array(10_000).fill(last)))
})

test('a JSON patch may shift 200 million list items, and no more', () => {
  const document = { list: new Array(399_999).fill(1) }
  // Shift 399,999 items, and then 1.
  const pair = [
    { op: 'add', path: '/list/0', value: 0 },
    { op: 'remove', path: '/list/-1' },
  ]
  const operations = new Array(500).fill(pair).flat()
  assert.doesNotThrow(() => jsonPatch(document, operations))
  const further = { op: 'remove', path: '/list/-1' }
  assert.throws(() => jsonPatch(document, [...operations, further]), { name: 'Refusal', httpStatus: 422 })
})

test('a JSON patch may copy 3 MiB of JSON, and no more', () => {
  const copy = { op: 'copy', from: '/a', path: '/b' }
  // With its quotes the text has 3 MiB; an ä takes two bytes.
  const text = `${'x'.repeat(3 * 2 ** 20 - 4)}ä`
  assert.doesNotThrow(() => jsonPatch({ a: text }, [copy]))
  assert.throws(() => jsonPatch({ a: `${text}x` }, [copy]), { name: 'Refusal', httpStatus: 422 })
  assert.throws(() => jsonPatch({ a: text, n: 1 }, [copy, { op: 'copy', from: '/n', path: '/c' }]), { httpStatus: 422 })
})

test('a JSON patch of over 10,000 operations is refused, and so is one whose copies grow too large', () => {
  const operation = { op: 'add', path: '/a', value: 1 }
  assert.deepEqual(jsonPatch({}, new Array(10_000).fill(operation)), { a: 1 })
  assert.throws(() => jsonPatch({}, new Array(10_001).fill(operation)), {
    httpStatus: 413,
    message: /10000, got 10001$/,
  })
  const doubled = { op: 'copy', from: '/list', path: '/list/-' }
  const text = { list: ['x'.repeat(1000)] }
  assert.ok(JSON.stringify(jsonPatch(text, new Array(10).fill(doubled))).length > 1_000_000)
  assert.throws(() => jsonPatch(text, new Array(12).fill(doubled)), { httpStatus: 422 })
})

test('a JSON patch whose copies nest too deeply is refused', () => {
  const nested = { a: {} as unknown }
  for (let depth = 0; depth < 300; depth++) nested.a = { a: nested.a }
  const copy = { op: 'copy', from: '/a', path: `${'/a'.repeat(299)}/b` }
  assert.throws(() => jsonPatch(nested, [copy, { op: 'copy', from: '/a', path: '/c' }]), { httpStatus: 400 })
})
