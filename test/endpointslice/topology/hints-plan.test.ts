import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Endpoint } from '../../../src/endpointslice/endpoint.ts'
import {
  reconcileTrafficDistribution,
  type TrafficDistribution,
} from '../../../src/endpointslice/topology/hints-plan.ts'
import type { EndpointSlice } from '../../../src/kube/resources.ts'

const names = (prefix: string) =>
  fc.array(
    fc.constantFrom(`${prefix}-1`, `${prefix}-2`).map((name) => ({ name })),
    { maxLength: 2 },
  )
const endpoints = fc.record(
  {
    addresses: fc.constant(['192.0.2.1']),
    conditions: fc.record({ ready: fc.boolean() }, { noNullPrototype: true }),
    zone: fc.constantFrom('zone-1', 'zone-2'),
    nodeName: fc.constantFrom('node-1', 'node-2'),
    hints: fc.record({ forZones: names('zone'), forNodes: names('node') }, { requiredKeys: [], noNullPrototype: true }),
  },
  { requiredKeys: ['addresses', 'conditions'], noNullPrototype: true },
) as fc.Arbitrary<Endpoint>
const slices: fc.Arbitrary<EndpointSlice[]> = fc.array(
  fc.array(endpoints, { maxLength: 5 }).map((endpoints) => ({ addressType: 'IPv4', endpoints })),
  { maxLength: 4 },
)
const distributions = fc.constantFrom<TrafficDistribution>('PreferClose', 'PreferSameZone', 'PreferSameNode')

test('ready endpoints get hints for their own zone and Node, others stay unchanged, and a second run does nothing', () => {
  fc.assert(
    fc.property(distributions, slices, slices, (distribution, toUpdate, unchanged) => {
      const before = structuredClone([toUpdate, unchanged])
      const { update } = reconcileTrafficDistribution(distribution, [], toUpdate, unchanged)
      const withNodes = distribution === 'PreferSameNode'
      for (const one of update.flatMap(({ endpoints }) => endpoints ?? [])) {
        if (!one.conditions?.ready) continue
        assert.deepEqual(one.hints?.forZones?.map(({ name }) => name) ?? [], one.zone === undefined ? [] : [one.zone])
        const node = withNodes ? one.nodeName : undefined
        assert.deepEqual(one.hints?.forNodes?.map(({ name }) => name) ?? [], node === undefined ? [] : [node])
      }
      const idle = (list: readonly EndpointSlice[]) =>
        list.flatMap(({ endpoints }) => endpoints ?? []).filter(({ conditions }) => !conditions?.ready)
      assert.deepEqual(idle(update.slice(0, toUpdate.length)), idle(toUpdate))
      assert.deepEqual([toUpdate, unchanged], before, 'the input is not changed')
      assert.deepEqual(reconcileTrafficDistribution(distribution, [], [], update).update, [])
    }),
    { numRuns: 1000 },
  )
})

for (const distribution of ['PreferClose', 'PreferSameZone'] as const) {
  test(`a change from PreferSameNode to ${distribution} removes the hints for Nodes`, () => {
    const here = { addresses: ['192.0.2.1'], conditions: { ready: true }, zone: 'zone-1', nodeName: 'node-1' }
    const slice: EndpointSlice = { addressType: 'IPv4', endpoints: [here] }
    const [created] = reconcileTrafficDistribution('PreferSameNode', [slice], [], []).create
    assert.deepEqual(created?.endpoints?.[0]?.hints, { forZones: [{ name: 'zone-1' }], forNodes: [{ name: 'node-1' }] })
    const unchanged = created === undefined ? [] : [created]
    assert.deepEqual(reconcileTrafficDistribution('PreferSameNode', [], [], unchanged).update, [])
    const [updated] = reconcileTrafficDistribution(distribution, [], [], unchanged).update
    assert.deepEqual(updated?.endpoints?.[0]?.hints, { forZones: [{ name: 'zone-1' }] })
  })
}
