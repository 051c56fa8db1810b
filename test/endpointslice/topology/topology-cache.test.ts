import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Endpoint } from '../../../src/endpointslice/endpoint.ts'
import type { SliceInfo } from '../../../src/endpointslice/slice.ts'
import { cpuRatiosOf, planAllocations } from '../../../src/endpointslice/topology/allocations.ts'
import { removeHintsFromSlices, TopologyCache } from '../../../src/endpointslice/topology/topology-cache.ts'
import type { EndpointSlice, Node } from '../../../src/kube/resources.ts'

const serviceKey = 'ns/svc'

function node(zone: string, cpu = '4', status = 'True'): Node {
  const labels = { 'topology.kubernetes.io/zone': zone }
  return { metadata: { labels }, status: { allocatable: { cpu }, conditions: [{ type: 'Ready', status } as never] } }
}

function endpoint(zone: string | undefined, ready: boolean, index = 0): Endpoint {
  return {
    addresses: [`192.0.2.${index}`],
    conditions: { ready },
    ...(zone === undefined ? {} : { zone }),
  } as Endpoint
}

function slice(endpoints: readonly Endpoint[], name = 'svc-1'): EndpointSlice {
  return { metadata: { name }, addressType: 'IPv4', endpoints }
}

function info(slices: Partial<Pick<SliceInfo, 'toCreate' | 'toUpdate' | 'unchanged'>>): SliceInfo {
  return { serviceKey, addressType: 'IPv4', toCreate: [], toUpdate: [], unchanged: [], ...slices }
}

function hintOf({ hints }: Endpoint): string | undefined {
  return hints?.forZones?.map(({ name }) => name).join()
}

const zones = ['zone-a', 'zone-b', 'zone-c', 'zone-d', 'zone-e']
/** The CPU of two zones or more, and slices of endpoints in them. */
const clusters = fc.integer({ min: 2, max: zones.length }).chain((size) =>
  fc.record({
    cpus: fc.array(fc.integer({ min: 1, max: 64 }), { minLength: size, maxLength: size }),
    slices: fc.array(
      fc.array(fc.record({ zone: fc.integer({ min: 0, max: size - 1 }), ready: fc.boolean() }), {
        maxLength: 20,
        size: 'max',
      }),
      { maxLength: 6 },
    ),
  }),
)

function build({ cpus, slices }: { cpus: number[]; slices: { zone: number; ready: boolean }[][] }) {
  const nodes = cpus.map((cpu, index) => node(zones[index] ?? '', `${cpu}`))
  const cache = new TopologyCache()
  cache.setNodes(nodes)
  const built = slices.map((endpoints, index) =>
    slice(
      endpoints.map(({ zone, ready }, at) => endpoint(zones[zone], ready, at)),
      `svc-${index}`,
    ),
  )
  const ready = slices.flat().filter(({ ready }) => ready).length
  return { cache, nodes, built, plan: planAllocations(cpuRatiosOf(nodes), ready) }
}

test('each ready endpoint gets a hint for one zone with Nodes, and no zone has too many while another lacks one', () => {
  fc.assert(
    fc.property(clusters, (cluster) => {
      const { cache, built, plan } = build(cluster)
      const { create, events } = cache.addHints(info({ toCreate: built }))
      const hints = create.flatMap(({ endpoints }) => endpoints ?? []).map((one) => ({ ...one, hint: hintOf(one) }))
      if (plan.type === 'refused') {
        assert.ok(hints.every(({ hint }) => hint === undefined))
        assert.deepEqual(events, [{ reason: 'TopologyAwareHintsDisabled', note: `${plan.message}, addressType: IPv4` }])
        return
      }
      assert.deepEqual(
        events.map(({ reason }) => reason),
        ['TopologyAwareHintsEnabled'],
      )
      const counts = new Map<string, number>()
      for (const { conditions, hint } of hints) {
        assert.equal(hint !== undefined, conditions?.ready)
        if (hint === undefined) continue
        assert.ok(plan.allocations.has(hint), hint)
        counts.set(hint, (counts.get(hint) ?? 0) + 1)
      }
      const distances = [...plan.allocations].map(([zone, { desired }]) => (counts.get(zone) ?? 0) - desired)
      const surplus = Math.max(...distances)
      const lack = -Math.min(...distances)
      // The plan subtracts ones from these numbers, so its sums may differ from those here in the last digits.
      const [half, one] = [0.5 + 1e-9, 1 + 1e-9]
      assert.ok(surplus < half || lack < half || (surplus < one && lack < one), `${surplus} too many, ${lack} too few`)
    }),
    { numRuns: 3000 },
  )
})

test('adding hints a second time changes nothing', () => {
  fc.assert(
    fc.property(clusters, (cluster) => {
      const { cache, built, plan } = build(cluster)
      const unchanged = cache.addHints(info({ toCreate: built })).create
      const again = cache.addHints(info({ unchanged }))
      assert.deepEqual([again.create, again.update], [[], []])
      assert.equal(again.events.length, plan.type === 'refused' ? 1 : 0)
    }),
    { numRuns: 1000 },
  )
})

test('slices that need no change are returned as the same objects', () => {
  const cache = new TopologyCache()
  cache.setNodes([node('zone-a'), node('zone-b')])
  const given = info({
    toCreate: [slice([endpoint('zone-a', true), endpoint('zone-b', true), endpoint('zone-b', false)])],
  })
  const before = structuredClone(given)
  const hinted = cache.addHints(given).create
  assert.deepEqual(given, before, 'the input is not changed')
  assert.equal(cache.addHints(info({ toUpdate: hinted })).update[0], hinted[0])
  assert.equal(removeHintsFromSlices(given).create[0], given.toCreate[0])
  assert.deepEqual(removeHintsFromSlices(info({ unchanged: given.toCreate })).update, [])
})

test('an unready endpoint retains its hint but gets no new one', () => {
  const cache = new TopologyCache()
  cache.setNodes([node('zone-a'), node('zone-b')])
  const gone = { ...endpoint('zone-a', false), hints: { forZones: [{ name: 'zone-b' }] } }
  const { update } = cache.addHints(
    info({ toUpdate: [slice([endpoint('zone-a', true), endpoint('zone-b', true), gone, endpoint('zone-a', false)])] }),
  )
  assert.deepEqual(update[0]?.endpoints?.map(hintOf), ['zone-a', 'zone-b', 'zone-b', undefined])
})

test('an endpoint without a zone removes the hints of its Service', () => {
  const cache = new TopologyCache()
  cache.setNodes([node('zone-a'), node('zone-b')])
  const { create } = cache.addHints(info({ toCreate: [slice([endpoint('zone-a', true), endpoint('zone-b', true)])] }))
  assert.ok(cache.hasPopulatedHints(serviceKey))
  const lost = slice([endpoint('zone-a', true), endpoint(undefined, true)], 'svc-2')
  const hinted = cache.addHints(info({ unchanged: create, toUpdate: [lost] }))
  assert.deepEqual(hinted.update.flatMap(({ endpoints }) => endpoints ?? []).map(hintOf), [
    undefined,
    undefined,
    undefined,
    undefined,
  ])
  assert.deepEqual(hinted.events, [
    {
      reason: 'TopologyAwareHintsDisabled',
      note: 'One or more endpoints do not have a zone specified, addressType: IPv4',
    },
  ])
  assert.ok(!cache.hasPopulatedHints(serviceKey))
  assert.deepEqual(
    cache.addHints(info({ unchanged: [lost, slice([endpoint('zone-b', true)])] })).update,
    [],
    'slices without hints are not written',
  )
})

test('the hints for a zone that loses its ready Nodes are assigned anew', () => {
  const cache = new TopologyCache()
  cache.setNodes([node('zone-a'), node('zone-b'), node('zone-c')])
  const three = ['zone-a', 'zone-b', 'zone-c', 'zone-a', 'zone-b', 'zone-c'].map((zone) => endpoint(zone, true))
  const { create } = cache.addHints(info({ toCreate: [slice(three)] }))
  assert.deepEqual(cache.overloadedServices(), [])
  const remaining = create.map((one) => ({
    ...one,
    endpoints: (one.endpoints ?? []).filter(({ zone }) => zone !== 'zone-c'),
  }))
  cache.setNodes([node('zone-a', '6'), node('zone-b', '2'), node('zone-c', '2', 'False')])
  assert.deepEqual(cache.overloadedServices(), [serviceKey])
  const { update, events } = cache.addHints(info({ unchanged: remaining }))
  assert.deepEqual(update.flatMap(({ endpoints }) => endpoints ?? []).map(hintOf), [
    'zone-a',
    'zone-a',
    'zone-a',
    'zone-b',
  ])
  assert.deepEqual(events, [])
  assert.deepEqual(cache.overloadedServices(), [])
})

test('endpoints with a hint for another zone count for that zone', () => {
  const cache = new TopologyCache()
  cache.setNodes([node('zone-a'), node('zone-b')])
  const [crowded] = cache.addHints(
    info({ toCreate: [slice(Array.from({ length: 6 }, () => endpoint('zone-a', true)))] }),
  ).create
  assert.deepEqual(crowded?.endpoints?.map(hintOf), ['zone-b', 'zone-b', 'zone-b', 'zone-a', 'zone-a', 'zone-a'])
  assert.deepEqual(cache.overloadedServices(), [])
})

test('a Service gets one event for enabled hints, whatever its address types', () => {
  const cache = new TopologyCache()
  cache.setNodes([node('zone-a'), node('zone-b')])
  const toCreate = [slice([endpoint('zone-a', true), endpoint('zone-b', true)])]
  const note = 'Topology Aware Hints has been enabled, addressType: IPv4'
  assert.deepEqual(cache.addHints(info({ toCreate })).events, [{ reason: 'TopologyAwareHintsEnabled', note }])
  assert.deepEqual(cache.addHints({ ...info({ toCreate }), addressType: 'IPv6' }).events, [])
  cache.removeHints(serviceKey, 'IPv4')
  assert.ok(!cache.hasPopulatedHints(serviceKey))
  cache.setNodes([])
  assert.deepEqual(cache.overloadedServices(), [serviceKey], 'its other slices still have hints')
  cache.removeHints(serviceKey, 'IPv6')
  assert.deepEqual(cache.overloadedServices(), [])
})

test('events explain missing hints in the words of kube-controller-manager', () => {
  const cache = new TopologyCache()
  const given = info({
    toCreate: [slice([endpoint('zone-a', true), endpoint('zone-b', true), endpoint('zone-b', true)])],
  })
  const notes = (): readonly string[] => cache.addHints(given).events.map(({ note }) => note)
  assert.deepEqual(notes(), [
    'Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4',
  ])
  cache.setNodes(zones.map((zone) => node(zone)))
  assert.deepEqual(notes(), ['Insufficient number of endpoints (3 endpoints, 5 zones), addressType: IPv4'])
  cache.setNodes([node('zone-a'), node('zone-b')])
  assert.deepEqual(notes(), [
    'Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (3 endpoints, 2 zones), addressType: IPv4',
  ])
})
