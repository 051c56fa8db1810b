import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedValues, sharedLabels, sharedString } from '../../src/kube/shared-values.ts'

test('SharedValues creates the value for a key only once', () => {
  const values = new SharedValues<object>(2)
  const first = values.get('a', () => ({}))
  assert.equal(
    values.get('a', () => assert.fail('the value was created twice')),
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

test('SharedValues stores at most as many values as its limit', () => {
  for (let count = 1; count <= 7; count++) {
    const values = new SharedValues<number>(3)
    for (let key = 1; key <= count; key++) values.get(String(key), () => key)
    // The newest first, because a new value may replace all others.
    let stored = 0
    for (let key = count; key > 0; key--) if (values.get(String(key), () => 0) !== 0) stored++
    assert.ok(stored >= 1 && stored <= 3, `${stored} of ${count}`)
  }
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
