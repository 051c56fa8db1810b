import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pod } from '../../src/kube/resources.ts'
import { fieldsOf } from '../../src/protobuf/go-json.ts'
import type { FieldTree } from '../../src/protobuf/trimmed-objects.ts'
import { identityOfIpAddress, trimIpAddress } from '../../src/repair/ip-address/ip-address.ts'
import { trimService as trimServiceForRepair } from '../../src/repair/service-claims.ts'
import { trimNode, trimPod, trimService } from '../../src/workloads/trimmed.ts'

test('labels that are null become absent, and not empty', () => {
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
      return [name, holds === 'list' ? [value] : holds === 'map' ? mapOf(name, value) : value]
    }),
  )
}

function sample(name: string, type: string): unknown {
  if (type === 'int') return 1
  if (type === 'bool') return true
  // The functions read only init containers with this policy, and only this condition.
  return name === 'restartPolicy' ? 'Always' : name === 'type' ? 'Ready' : name === 'status' ? 'True' : 'text'
}

/** A map with keys that the functions read. */
function mapOf(name: string, value: unknown): object {
  if (name === 'annotations') return { 'service.kubernetes.io/topology-mode': value }
  if (name !== 'labels') return { cpu: value }
  return { 'topology.kubernetes.io/zone': value, 'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io' }
}

/** The paths to the leaves of a tree. */
function pathsOf(tree: FieldTree, path: readonly string[] = []): readonly (readonly string[])[] {
  return Object.entries(tree).flatMap(([name, inner]) =>
    inner === true ? [[...path, name]] : pathsOf(inner, [...path, name]),
  )
}

/** The object with only the fields of the tree, except the field `without`. */
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

for (const [message, trim, user] of [
  ['core/v1.Pod', trimPod, 'the controllers'],
  ['core/v1.Node', trimNode, 'the controllers'],
  ['core/v1.Service', trimService, 'the controllers'],
  ['core/v1.Service', trimServiceForRepair, 'the repairs'],
  ['networking/v1.IPAddress', trimIpAddress, 'the repairs'],
  ['networking/v1.IPAddress', identityOfIpAddress, 'the controllers'],
] as const) {
  test(`the protobuf fields read of ${message} are exactly those that the copy of ${user} needs`, () => {
    const { fields } = trim.protobuf
    const trimmed = (object: unknown): object => trim(structuredClone(object) as never)
    const whole = fullObject(message)
    assert.deepEqual(trimmed(pruned(whole, fields)), trimmed(whole))
    for (const path of pathsOf(fields)) {
      assert.notDeepEqual(trimmed(pruned(whole, fields, path)), trimmed(whole), `${path.join('.')} is not needed`)
    }
  })
}
