import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pod } from '../../src/kube/resources.ts'
import { fieldsOf } from '../../src/protobuf/go-json.ts'
import type { FieldTree } from '../../src/protobuf/trimmed-objects.ts'
import {
  SharedValues,
  sharedLabels,
  sharedString,
  trimNode,
  trimPod,
  trimService,
} from '../../src/workloads/trimmed.ts'

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

test('labels that Go wrote as null are none, and are not taken for empty ones', () => {
  const labels = (given: unknown): unknown =>
    trimPod({ metadata: { name: 'a', labels: given } } as Pod).metadata?.labels
  assert.equal(labels(null), undefined)
  assert.deepEqual(labels({}), {})
})

/** An object with a value in every field of a message, and of the messages in it. */
function fullObject(message: string, depth = 0): object {
  const fields = [...fieldsOf(message).values()].filter(({ name }) => name !== '')
  return Object.fromEntries(
    fields.map(({ name, type, holds }) => {
      const value = type.includes('/') ? (depth > 4 ? {} : fullObject(type, depth + 1)) : sample(name, type)
      return [name, holds === 'list' ? [value] : holds === 'map' ? { [keyIn(name)]: value } : value]
    }),
  )
}

function sample(name: string, type: string): unknown {
  if (type === 'int') return 1
  if (type === 'bool') return true
  // Of the init containers only those with this policy are read, of the conditions only this one.
  return name === 'restartPolicy' ? 'Always' : name === 'type' ? 'Ready' : name === 'status' ? 'True' : 'text'
}

/** A key that the functions read. */
function keyIn(map: string): string {
  if (map === 'annotations') return 'service.kubernetes.io/topology-mode'
  return map === 'labels' ? 'topology.kubernetes.io/zone' : 'cpu'
}

/** The paths to the leaves of a tree. */
function pathsOf(tree: FieldTree, path: readonly string[] = []): readonly (readonly string[])[] {
  return Object.entries(tree).flatMap(([name, inner]) =>
    inner === true ? [[...path, name]] : pathsOf(inner, [...path, name]),
  )
}

/** The object with only the fields of the tree; `without`: but not this one. */
function pruned(object: unknown, tree: FieldTree, without: readonly string[] = []): unknown {
  if (Array.isArray(object)) return object.map((item) => pruned(item, tree, without))
  const [first, ...rest] = without
  return Object.fromEntries(
    Object.entries(object as object).flatMap(([name, value]) => {
      const inner = tree[name]
      if (inner === undefined || (name === first && rest.length === 0)) return []
      return [[name, inner === true ? value : pruned(value, inner, name === first ? rest : [])]]
    }),
  )
}

for (const [message, trim] of [
  ['core/v1.Pod', trimPod],
  ['core/v1.Node', trimNode],
  ['core/v1.Service', trimService],
] as const) {
  test(`the fields of a ${message} that are read from protobuf are those that its copy needs`, () => {
    const { fields } = trim.protobuf
    const trimmed = (object: unknown): object => trim(structuredClone(object) as never)
    const whole = fullObject(message)
    assert.deepEqual(trimmed(pruned(whole, fields)), trimmed(whole))
    for (const path of pathsOf(fields)) {
      assert.notDeepEqual(trimmed(pruned(whole, fields, path)), trimmed(whole), `${path.join('.')} is not needed`)
    }
  })
}
