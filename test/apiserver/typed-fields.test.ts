import assert from 'node:assert/strict'
import { test } from 'node:test'
import { any, object, string } from '../../src/apiserver/schema.ts'
import { compare, withDeclared } from '../../src/apiserver/typed-fields.ts'

const DEPTH = 400

test('comparing deeply nested values does not read the inner values again at each level', () => {
  let reads = 0
  const nested = (last: number): unknown => {
    const counted = (): string => {
      reads++
      return 'same'
    }
    let value = Object.assign(Object.defineProperty({}, 'same', { enumerable: true, get: counted }), { last }) as object
    for (let depth = 0; depth < DEPTH; depth++) value = { a: value, b: [depth], c: {} }
    return value
  }
  const { added, modified, removed } = compare(nested(1), nested(2), any)
  assert.ok(reads < 200, `${reads}`)
  assert.deepEqual([added, removed], [{}, {}])
  let node = modified
  for (let depth = 0; depth < DEPTH; depth++) {
    assert.deepEqual(Object.keys(node), ['f:a'])
    node = node['f:a'] ?? {}
  }
  assert.deepEqual(node, { 'f:last': {} })
})

test('only the schema declares fields, not properties inherited from Object.prototype', () => {
  const schema = object({ known: object({ a: string }) })
  const below = { 'f:a': {} }
  for (const [name, node] of [
    ['known', { '.': {}, ...below }],
    ['other', below],
    ['constructor', below],
  ] as const) {
    assert.deepEqual(withDeclared({ [`f:${name}`]: below }, schema), { [`f:${name}`]: node }, name)
  }
})
