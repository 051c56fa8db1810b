import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedValues, sharedLabels, sharedString } from '../../src/kube/shared-values.ts'

test('a value is made once for a key', () => {
  const values = new SharedValues<object>(2)
  const first = values.get('a', () => ({}))
  assert.equal(
    values.get('a', () => assert.fail('it is there')),
    first,
  )
})

test('it never holds more than its limit', () => {
  const values = new SharedValues<object>(2)
  const first = values.get('a', () => ({}))
  for (const key of ['b', 'c']) values.get(key, () => ({}))
  assert.notEqual(
    values.get('a', () => ({})),
    first,
  )
})

test('labels are shared when all keys and values are equal', () => {
  const labels = sharedLabels({ a: '1', b: '2' })
  assert.equal(sharedLabels({ a: '1', b: '2' }), labels)
  assert.deepEqual(sharedLabels({ a: '1', b: '3' }), { a: '1', b: '3' })
  assert.deepEqual(sharedLabels({ a: '1' }), { a: '1' })
  assert.deepEqual(sharedLabels({}), {})
  assert.equal(sharedLabels(undefined), undefined)
  // A JSON null becomes undefined, although the type excludes null.
  assert.equal(sharedLabels(null as unknown as undefined), undefined)
})

test('labels that differ are not taken for the same, also where a server checks none', () => {
  assert.deepEqual(sharedLabels({ app: 'x,role=db' }), { app: 'x,role=db' })
  assert.deepEqual(sharedLabels({ app: 'x', role: 'db' }), { app: 'x', role: 'db' })
})

test('long values are not stored', () => {
  const values = new SharedValues<object>(2)
  const key = 'a'.repeat(1025)
  assert.notEqual(
    values.get(key, () => ({})),
    values.get(key, () => ({})),
  )
})

test('what is absent stays absent', () => {
  assert.equal(sharedString(undefined), undefined)
  assert.equal(sharedString('a'), 'a')
})
