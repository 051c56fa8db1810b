import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fnv128a, inHashOrder } from '../../src/workloads/hash-order.ts'

test('the 128-bit FNV-1a hash agrees with published values and with Go', () => {
  assert.equal(fnv128a(''), '6c62272e07bb014262b821756295c58d')
  assert.equal(fnv128a('a'), 'd228cb696f1a8caf78912b704e4a8964')
  const text =
    '(v1.EndpointPort){Name:(*string)http Protocol:(*v1.Protocol)TCP Port:(*int32)80 AppProtocol:(*string)ht"tp %}'
  assert.equal(fnv128a(text), 'cf9d76fad1de30a022ee7762f63c1bb5')
})

/** As Go's fnv.New128a gives them. */
const known: readonly (readonly [string, string])[] = [
  ['', '6c62272e07bb014262b821756295c58d'],
  ['a', 'd228cb696f1a8caf78912b704e4a8964'],
  ['hello', 'e3e1efd54283d94f7081314b599d31b3'],
  ['é\u2028😀', '2b7190aae002194bba4dfb272af91314'],
  ['0123456789'.repeat(100), 'fe3039ff00b6a34f130c396b71858add'],
]

for (const [text, hash] of known) {
  test(`the hash of ${JSON.stringify(text.slice(0, 12))} is Go's`, () => assert.equal(fnv128a(text), hash))
}

test('the hash of an item is computed once if several lists share the known hashes', () => {
  const asked: string[] = []
  const known = new Map<string, string>()
  const goText = (item: string): string => {
    asked.push(item)
    return item
  }
  const [first, second] = [
    ['a', 'b', 'c'],
    ['c', 'd', 'a'],
  ].map((items) => inHashOrder(items, goText, known))
  assert.deepEqual(asked, ['a', 'b', 'c', 'd'])
  assert.deepEqual(first, inHashOrder(['a', 'b', 'c'], goText))
  assert.deepEqual(second, inHashOrder(['c', 'd', 'a'], goText))
})
