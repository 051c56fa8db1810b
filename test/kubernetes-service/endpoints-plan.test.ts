import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Endpoints } from '../../src/kube/resources.ts'
import {
  type EndpointsObservation,
  planEndpointSlice,
  planEndpoints,
  sliceOf,
} from '../../src/kubernetes-service/endpoints-plan.ts'
import { endpointPorts, SKIP_MIRROR_LABEL } from '../../src/kubernetes-service/identity.ts'

const ports = endpointPorts(6443)
const right: Endpoints = {
  metadata: { name: 'kubernetes', namespace: 'default', resourceVersion: '7', labels: { [SKIP_MIRROR_LABEL]: 'true' } },
  subsets: [{ addresses: [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }], ports }],
}
const observed = (more: Partial<EndpointsObservation>): EndpointsObservation => ({
  addresses: ['192.0.2.1', '192.0.2.2'],
  current: right,
  ports,
  reconcilePorts: true,
  mayBecomeEmpty: false,
  ...more,
})

test('Endpoints that are in sync are left unchanged', () => {
  assert.deepEqual(planEndpoints(observed({})), { type: 'none' })
})

test('each kind of damage is named and corrected; annotations and unknown fields are preserved', () => {
  const subset = right.subsets?.[0]
  const damages: readonly [reason: string, current: Endpoints][] = [
    ['skip-mirror-label', { ...right, metadata: { ...right.metadata, labels: {} } }],
    ['addresses', { ...right, subsets: [{ ...subset, addresses: [{ ip: '192.0.2.2' }] }] }],
    ['addresses', { ...right, subsets: [{ ...subset, addresses: [{ ip: '192.0.2.1,192.0.2.2' }] }] }],
    ['ports', { ...right, subsets: [{ ...subset, ports: endpointPorts(6444) }] }],
    ['ports', { ...right, subsets: [{ ...subset, ports: [{ name: 'https', port: 6443, protocol: 'UDP' }] }] }],
    ['not-ready-addresses', { ...right, subsets: [{ ...subset, notReadyAddresses: [{ ip: '203.0.113.9' }] }] }],
    ['subsets', { ...right, subsets: [...(right.subsets ?? []), { addresses: [{ ip: '203.0.113.9' }], ports }] }],
    ['subsets', { ...right, subsets: [] }],
  ]
  for (const [reason, current] of damages) {
    const damaged = {
      ...current,
      metadata: { ...current.metadata, annotations: { other: 'yes' } },
      unknown: 1,
    } as Endpoints
    const action = planEndpoints(observed({ current: damaged }))
    assert.equal(action.type, 'update', reason)
    if (action.type !== 'update') continue
    assert.deepEqual(action.reasons, [reason])
    assert.deepEqual(action.object.subsets, right.subsets)
    assert.deepEqual(action.object.metadata?.annotations, { other: 'yes' })
    assert.equal(action.object.metadata?.resourceVersion, '7')
    assert.equal((action.object as { unknown?: number }).unknown, 1)
  }
})

test('ports that other masters may want are preserved while addresses are corrected', () => {
  const current = { ...right, subsets: [{ addresses: [{ ip: '192.0.2.9' }], ports: endpointPorts(9443) }] }
  const action = planEndpoints(observed({ current, reconcilePorts: false }))
  assert.equal(action.type, 'update')
  assert.deepEqual(action.type === 'update' && action.object.subsets?.[0]?.ports, endpointPorts(9443))
})

test('without live masters nothing is written, unless this master is stopping', () => {
  assert.deepEqual(planEndpoints(observed({ addresses: [] })), { type: 'refuse' })
  assert.deepEqual(planEndpoints(observed({ addresses: [], current: undefined })), { type: 'refuse' })
  const last = planEndpoints(observed({ addresses: [], mayBecomeEmpty: true }))
  assert.deepEqual(last.type === 'update' && last.object.subsets, [])
  assert.deepEqual(planEndpoints(observed({ addresses: [], current: undefined, mayBecomeEmpty: true })), {
    type: 'none',
  })
})

test('from any state one plan leads to exactly the live addresses, and a second plan finds nothing to do', () => {
  const address = fc.integer({ min: 1, max: 6 }).map((n) => ({ ip: `192.0.2.${n}` }))
  const port = fc.record({
    name: fc.constantFrom('https', 'other'),
    port: fc.constantFrom(6443, 443),
    protocol: fc.constantFrom('TCP', 'UDP'),
  })
  const subset = fc.record(
    { addresses: fc.array(address), notReadyAddresses: fc.array(address), ports: fc.array(port, { maxLength: 2 }) },
    { requiredKeys: [] },
  )
  const labels = fc.dictionary(fc.constantFrom(SKIP_MIRROR_LABEL, 'other'), fc.constantFrom('true', 'false'))
  const state = fc.record({ labels, subsets: fc.option(fc.array(subset, { maxLength: 3 }), { nil: undefined }) })
  const live = fc
    .uniqueArray(
      address.map(({ ip }) => ip),
      { minLength: 1 },
    )
    .map((ips) => ips.toSorted())
  fc.assert(
    fc.property(state, live, fc.boolean(), ({ labels: found, subsets }, addresses, missing) => {
      const start = { metadata: { name: 'kubernetes', namespace: 'default', labels: found }, subsets } as Endpoints
      const observation = observed({ addresses, current: missing ? undefined : start })
      const action = planEndpoints(observation)
      assert.notEqual(action.type, 'refuse')
      const next = action.type === 'create' || action.type === 'update' ? action.object : start
      const listed = (next.subsets ?? []).flatMap((one) => (one.addresses ?? []).map(({ ip }) => ip))
      assert.deepEqual(listed.toSorted(), addresses)
      assert.deepEqual(
        next.subsets?.flatMap((one) => one.notReadyAddresses ?? []),
        [],
      )
      assert.deepEqual(planEndpoints({ ...observation, current: next }), { type: 'none' })

      const slice = sliceOf(next)
      assert.deepEqual(slice.endpoints?.flatMap((endpoint) => endpoint.addresses).toSorted(), addresses)
      assert.deepEqual(planEndpointSlice(next, slice), { type: 'none' })
    }),
    { numRuns: 2_000 },
  )
})
