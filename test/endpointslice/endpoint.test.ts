import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Endpoint, isSameEndpoint, isUnchanged } from '../../src/endpointslice/endpoint.ts'

const one: Endpoint = {
  addresses: ['192.0.2.1'],
  conditions: { ready: true, serving: true, terminating: false },
  hostname: 'a-0',
  nodeName: 'node-a',
  zone: 'zone-a',
  targetRef: { kind: 'Pod', namespace: 'n', name: 'a', uid: 'u' },
}

const others: readonly (readonly [what: string, endpoint: Endpoint, same: boolean, unchanged: boolean])[] = [
  ['nothing', structuredClone(one), true, true],
  ['the address', { ...one, addresses: ['192.0.2.2'] }, false, true],
  ['the number of addresses', { ...one, addresses: ['192.0.2.1', '192.0.2.2'] }, false, true],
  ['the hostname', { ...one, hostname: 'b-0' }, false, true],
  ['the name of the target', { ...one, targetRef: { ...one.targetRef, name: 'b' } }, false, false],
  ['the namespace of the target', { ...one, targetRef: { ...one.targetRef, namespace: 'm' } }, false, false],
  ['the uid of the target', { ...one, targetRef: { ...one.targetRef, uid: 'v' } }, true, false],
  ['the kind of the target', { ...one, targetRef: { ...one.targetRef, kind: 'Cat' } }, true, false],
  ['the resourceVersion of the target', { ...one, targetRef: { ...one.targetRef, resourceVersion: '7' } }, true, true],
  ['ready', { ...one, conditions: { ...one.conditions, ready: false } }, true, false],
  ['serving', { ...one, conditions: { ...one.conditions, serving: false } }, true, false],
  ['terminating', { ...one, conditions: { ...one.conditions, terminating: true } }, true, false],
  ['the Node', { ...one, nodeName: 'node-b' }, true, false],
  ['the zone', { ...one, zone: 'zone-b' }, true, false],
  ['the hints', { ...one, hints: { forZones: [{ name: 'zone-a' }] } }, true, true],
]

for (const [what, other, same, unchanged] of others) {
  test(`an endpoint that differs in ${what} counts as ${same ? 'the same' : 'another'} endpoint, otherwise ${unchanged ? 'unchanged' : 'changed'}`, () => {
    assert.equal(isSameEndpoint(one, other), same)
    assert.equal(isSameEndpoint(other, one), same)
    assert.equal(isUnchanged(one, other), unchanged)
    assert.equal(isUnchanged(other, one), unchanged)
  })
}

test('the order of addresses does not matter; an absent field differs from an empty one', () => {
  const two = { ...one, addresses: ['192.0.2.2', '192.0.2.1'] }
  assert.ok(isSameEndpoint(two, { ...one, addresses: ['192.0.2.1', '192.0.2.2'] }))
  const { zone: _zone, targetRef: _targetRef, ...bare } = one
  assert.ok(!isUnchanged(bare, { ...bare, zone: '' }))
  assert.ok(isUnchanged(bare, bare))
  assert.ok(!isUnchanged(bare, { ...bare, targetRef: {} }))
})
