import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { integer, list, map, object, string, stringSet, strings } from '../../src/apiserver/kind.ts'
import {
  changedFields,
  type FieldSet,
  fieldsOf,
  intersection,
  mergeFields,
  pathsOf,
  removeFields,
  union,
  without,
} from '../../src/apiserver/managed-fields.ts'

const schema = object({
  labels: map,
  spec: object({ ports: list(object({ port: integer, name: string }), ['port']), cidrs: strings, tags: stringSet }),
})

test('maps and keyed lists are owned with their items, structs by their fields, other lists as a whole', () => {
  const value = { labels: { a: '1' }, spec: { ports: [{ port: 80, name: 'x' }], cidrs: ['c'], tags: ['t'] } }
  assert.deepEqual(fieldsOf(value, schema), {
    'f:labels': { '.': {}, 'f:a': {} },
    'f:spec': {
      'f:ports': { '.': {}, 'k:{"port":80}': { '.': {}, 'f:port': {}, 'f:name': {} } },
      'f:cidrs': {},
      'f:tags': { '.': {}, 'v:"t"': {} },
    },
  })
})

test('what changed is what another value, or a value at all, came to', () => {
  const live = { labels: { a: '1', b: '2' }, spec: { ports: [{ port: 80 }], cidrs: ['c'] } }
  const next = { labels: { a: '1', b: '3' }, spec: { ports: [{ port: 80, name: 'x' }, { port: 81 }], cidrs: ['d'] } }
  assert.deepEqual(changedFields(live, next, schema), {
    'f:labels': { 'f:b': {} },
    'f:spec': {
      'f:ports': { 'k:{"port":80}': { 'f:name': {} }, 'k:{"port":81}': { '.': {}, 'f:port': {} } },
      'f:cidrs': {},
    },
  })
  assert.equal(changedFields(live, live, schema), undefined)
})

test('paths are written as kube-apiserver writes them', () => {
  const fields = {
    'f:spec': { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { 'f:name': {} } }, 'f:tags': { 'v:"t"': {} } },
  }
  assert.deepEqual(pathsOf(fields), ['.spec.ports[port=80,protocol="TCP"].name', '.spec.tags[="t"]'])
})

const value = fc.record(
  {
    labels: fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2'), {
      minKeys: 1,
      noNullPrototype: true,
    }),
    spec: fc.record(
      {
        ports: fc.uniqueArray(
          fc.record(
            { port: fc.integer({ min: 1, max: 3 }), name: fc.constantFrom('x', 'y') },
            { noNullPrototype: true },
          ),
          {
            selector: ({ port }) => port,
            minLength: 1,
          },
        ),
        cidrs: fc.array(fc.constantFrom('c', 'd'), { minLength: 1, maxLength: 2 }),
      },
      { requiredKeys: ['cidrs'], noNullPrototype: true },
    ),
  },
  { requiredKeys: [], noNullPrototype: true },
)

function same(a: FieldSet | undefined, b: FieldSet | undefined): void {
  assert.deepEqual(a ?? {}, b ?? {})
}

test('sets of fields obey the laws of sets', () => {
  fc.assert(
    fc.property(value, value, (one, two) => {
      const [a, b] = [fieldsOf(one, schema), fieldsOf(two, schema)]
      same(union(a, a), a)
      same(union(a, b), union(b, a))
      same(intersection(a, a), a)
      assert.deepEqual(new Set(pathsOf(intersection(a, b) ?? {})), new Set(pathsOf(intersection(b, a) ?? {})))
      assert.equal(intersection(without(a, b) ?? {}, b), undefined)
    }),
  )
})

test('a value laid over another wins where both are, and leaves the rest', () => {
  fc.assert(
    fc.property(value, value, (one, two) => {
      const merged = mergeFields(one, two, schema)
      assert.equal(changedFields(merged, mergeFields(merged, two, schema), schema), undefined)
      assert.deepEqual(mergeFields({}, one, schema), one)
      assert.deepEqual(mergeFields(one, one, schema), one)
    }),
  )
})

test('what all fields are removed from is gone', () => {
  fc.assert(
    fc.property(value, (one) => {
      const left = (removeFields(one, fieldsOf(one, schema), schema) ?? {}) as { spec?: object; labels?: object }
      assert.equal(left.labels, undefined)
      assert.deepEqual(left.spec ?? {}, {})
    }),
  )
})
