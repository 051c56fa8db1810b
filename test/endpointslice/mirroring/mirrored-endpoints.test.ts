import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planMirror } from '../../../src/endpointslice/mirroring/mirror-plan.ts'
import type { EndpointSubset } from '../../../src/workloads/subsets.ts'

function mirrored(subsets: readonly EndpointSubset[], maxEndpointsPerSubset: number) {
  const endpoints = { metadata: { namespace: 'ns', name: 'svc' }, subsets }
  const plan = planMirror({ endpoints, service: {}, slices: [], maxEndpointsPerSubset })
  assert.ok(plan.type === 'mirrored')
  return plan
}

const port = { port: 80, protocol: 'TCP', appProtocol: 'http' }

test('the maximum applies to each subset without an event, and also to the slice that subsets share', () => {
  const subsets = ['192.0.2.2', '192.0.2.1'].map((ip) => ({ addresses: [{ ip }], ports: [port] }))
  const { events, actions } = mirrored(subsets, 1)
  assert.deepEqual(events, [])
  assert.deepEqual(
    actions.map(({ slice }) => slice.endpoints?.length),
    [1],
  )
})

test('duplicate ports with an appProtocol appear once for the same addresses', () => {
  const subset = { addresses: [{ ip: '192.0.2.1' }], ports: [port] }
  for (const subsets of [[subset, subset], [{ ...subset, ports: [port, port] }]]) {
    const [action] = mirrored(subsets, 10).actions
    assert.deepEqual(action?.slice.ports, [{ name: '', ...port }])
  }
})
