import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode } from '../../src/apiserver/decode.ts'
import { integer, integerOrString, kindSchema, list, microTime, object, string } from '../../src/apiserver/schema.ts'
import { GoTypeError } from '../../src/protobuf/go-decode.ts'
import { equalJson } from '../../src/runtime/equal-json.ts'

const schema = kindSchema({
  spec: object({ count: integer, port: integerOrString, at: microTime, items: list(object({ name: string })) }),
})

test('decode drops null, undefined, and the empty values that Go omits', () => {
  const given = {
    metadata: { name: 'a', namespace: '', labels: {}, finalizers: [], annotations: null },
    spec: { count: 0, items: [], more: undefined },
    extra: { empty: [], gone: null },
  }
  assert.deepEqual(decode(given, schema), { metadata: { name: 'a' }, spec: { count: 0 }, extra: { empty: [] } })
})

test('decode freezes its copy and reuses parts that are already decoded', () => {
  const given = { metadata: { name: 'a' }, spec: { items: [{ name: 'x' }] }, extra: { deep: [1, { er: true }] } }
  const copy = decode(given, schema) as typeof given
  assert.deepEqual(copy, given)
  assert.ok(Object.isFrozen(copy.extra.deep[1]) && Object.isFrozen(copy.spec.items[0]) && !Object.isFrozen(given.spec))
  assert.equal(decode(copy, schema), copy)
  const changed = decode({ ...copy, metadata: { name: 'b' } }, schema) as typeof given
  assert.equal(changed.spec, copy.spec)
  assert.equal(changed.extra, copy.extra)
})

test('an object decoded with one schema is validated again with another', () => {
  const loose = decode({ spec: { count: 'many' } }, undefined)
  assert.throws(() => decode(loose, schema), GoTypeError)
})

test('a field named __proto__ is an ordinary field', () => {
  const copy = decode(JSON.parse('{"extra":{"__proto__":{"polluted":true}}}'), schema) as { extra: object }
  assert.deepEqual(Object.keys(copy.extra), ['__proto__'])
  assert.equal('polluted' in {}, false)
  assert.equal('polluted' in copy.extra, false)
})

test('equalJson distinguishes an object with a __proto__ field from one without', () => {
  const polluted = JSON.parse('{"__proto__":{}}')
  for (const other of [{}, { a: 1 }, { a: {} }]) {
    assert.deepEqual([equalJson(polluted, other), equalJson(other, polluted)], [false, false], JSON.stringify(other))
  }
  assert.equal(equalJson(polluted, JSON.parse('{"__proto__":{}}')), true)
})

const wrong: readonly unknown[] = [
  { metadata: [] },
  { metadata: { name: 7 } },
  { metadata: { labels: { a: 1 } } },
  { metadata: { creationTimestamp: 'today' } },
  { spec: { count: 1.5 } },
  { spec: { count: '1' } },
  { spec: { port: true } },
  { spec: { at: '2026-01-01T00:00:00Z' } },
  { spec: { at: '2026-02-30T00:00:00.000000Z' } },
  { spec: { items: {} } },
  { spec: { items: [null] } },
  { extra: Number.NaN },
  { extra: () => {} },
]

for (const value of wrong) {
  test(`decode rejects ${JSON.stringify(value)} as of the wrong type`, () => {
    assert.throws(() => decode(value, schema), GoTypeError)
  })
}
