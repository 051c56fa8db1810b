import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EndpointSlice, Endpoints } from '../../src/kube/resources.ts'
import { planSecondSlice, secondSliceName, secondSliceOf } from '../../src/kubernetes-service/endpoints-plan.ts'
import { endpointPorts } from '../../src/kubernetes-service/identity.ts'

const endpoints: Endpoints = {
  metadata: { name: 'kubernetes', namespace: 'default' },
  subsets: [{ addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }], ports: endpointPorts(6443) }],
}
const addresses = ['2001:db8::1', '2001:db8::2']

function wantedSlice(): EndpointSlice {
  const slice = secondSliceOf(endpoints, addresses)
  assert.ok(slice !== undefined)
  return slice
}
const wanted = wantedSlice()
const stored: EndpointSlice = {
  ...wanted,
  metadata: { ...wanted.metadata, uid: 'u', resourceVersion: '7', generation: 2 },
}

test('the second slice has its family in its name, the ports of Endpoints, one label and no owner', () => {
  assert.deepEqual(wanted, {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'kubernetes-ipv6',
      namespace: 'default',
      labels: { 'kubernetes.io/service-name': 'kubernetes' },
    },
    addressType: 'IPv6',
    endpoints: [
      { addresses: ['2001:db8::1'], conditions: { ready: true } },
      { addresses: ['2001:db8::2'], conditions: { ready: true } },
    ],
    ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
  })
  const other = secondSliceOf(endpoints, ['192.0.2.1'])
  assert.deepEqual([other?.metadata?.name, other?.addressType], [secondSliceName('IPv4'), 'IPv4'])
})

test('without second addresses, or without listed addresses in Endpoints, no second slice is wanted', () => {
  assert.equal(secondSliceOf(endpoints, []), undefined)
  assert.equal(secondSliceOf(undefined, addresses), undefined)
  assert.equal(secondSliceOf({ ...endpoints, subsets: [] }, addresses), undefined)
})

test('each kind of damage to the second slice is named and corrected; unknown fields are preserved', () => {
  const port = { name: 'https', port: 6443, protocol: 'TCP' }
  const damages: readonly [reason: string, damaged: object][] = [
    ['labels', { metadata: { ...stored.metadata, labels: undefined } }],
    ['labels', { metadata: { ...stored.metadata, labels: { ...stored.metadata?.labels, more: 'x' } } }],
    ['endpoints', { endpoints: null }],
    ['endpoints', { endpoints: [{ addresses: ['2001:db8::bad'], conditions: { ready: true } }] }],
    ['endpoints', { endpoints: stored.endpoints?.map((one) => ({ ...one, conditions: { ready: false } })) }],
    ['ports', { ports: null }],
    ['ports', { ports: [{ ...port, port: 6444 }] }],
    ['ports', { ports: [{ ...port, protocol: 'UDP' }] }],
  ]
  for (const [reason, damage] of damages) {
    const action = planSecondSlice(wanted, { ...stored, unknown: 1, ...damage } as EndpointSlice)
    assert.equal(action.type, 'update', reason)
    if (action.type !== 'update') continue
    assert.deepEqual(action.reasons, [reason])
    assert.deepEqual({ ...action.object, metadata: undefined }, { ...stored, unknown: 1, metadata: undefined })
    assert.equal(action.object.metadata?.resourceVersion, '7')
    assert.deepEqual(action.object.metadata?.labels, wanted.metadata?.labels)
  }
  assert.equal(planSecondSlice(wanted, undefined).type, 'create')
  assert.equal(planSecondSlice(wanted, { ...stored, addressType: 'IPv4' }).type, 'replace')
  assert.deepEqual(planSecondSlice(wanted, stored), { type: 'none' })
})

test('a second slice that is not wanted is removed', () => {
  assert.deepEqual(planSecondSlice(undefined, stored), {
    type: 'remove',
    reasons: ['single-stack'],
  })
  assert.deepEqual(planSecondSlice(undefined, undefined), { type: 'none' })
})

test('a slice under that name with foreign labels or an owner is not removed', () => {
  const owner = { apiVersion: 'v1', kind: 'Service', name: 'kubernetes', uid: 'x' }
  const labels = { ...stored.metadata?.labels }
  const foreign: readonly object[] = [
    { labels: { ...labels, 'endpointslice.kubernetes.io/managed-by': 'somebody.example' } },
    { labels: { 'kubernetes.io/service-name': 'other' } },
    { labels: { 'kubernetes.io/other': 'kubernetes' } },
    { labels: undefined },
    { ownerReferences: [owner] },
  ]
  for (const metadata of foreign) {
    const current = { ...stored, metadata: { ...stored.metadata, ...metadata } } as EndpointSlice
    assert.deepEqual(planSecondSlice(undefined, current), { type: 'none' }, JSON.stringify(metadata))
  }
})
