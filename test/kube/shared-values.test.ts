import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedValues, sharedLabels, sharedString } from '../../src/kube/shared-values.ts'

test('SharedValues creates the value for a key only once', () => {
  const values = new SharedValues<object>(2)
  const first = values.get('a', () => ({}))
  assert.equal(
    values.get('a', () => assert.fail('it is there')),
    first,
  )
})

test('SharedValues forgets an earlier value when its limit is exceeded', () => {
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

test('different labels are not confused, even if a value contains the text of a further label', () => {
  assert.deepEqual(sharedLabels({ app: 'x,role=db' }), { app: 'x,role=db' })
  assert.deepEqual(sharedLabels({ app: 'x', role: 'db' }), { app: 'x', role: 'db' })
})

test('a value whose key has more than 1,024 characters is not stored', () => {
  const values = new SharedValues<object>(2)
  const key = 'a'.repeat(1025)
  assert.notEqual(
    values.get(key, () => ({})),
    values.get(key, () => ({})),
  )
})

test('sharedString returns undefined for undefined, and an equal string for a string', () => {
  assert.equal(sharedString(undefined), undefined)
  assert.equal(sharedString('a'), 'a')
})
