import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cpuRatiosOf, fits, planRedistribution, redistribute } from '../../src/endpointslice/topology/allocations.ts'
import { isReady, summaryOf, TopologyCache } from '../../src/endpointslice/topology/topology-cache.ts'
import type { EndpointSlice, Node } from '../../src/kube/resources.ts'
import { topologyCache, topologySliceInfo, topologyUtils } from './topology-tables.ts'

// Upstream's tests set the ratios of zones; here Nodes have them, in hundredths. Upstream stores hints per Service;
// here the tests count the hints in the resulting slices.

const countsByZone = (counts: Readonly<Record<string, number>>): ReadonlyMap<string, number> =>
  new Map(Object.entries(counts))

function nodesWith(ratios: Readonly<Record<string, number>> = {}): readonly Node[] {
  return Object.entries(ratios).map(([zone, ratio]) => ({
    metadata: { name: zone, labels: { 'topology.kubernetes.io/zone': zone } },
    status: { allocatable: { cpu: `${Math.round(ratio * 100)}` }, conditions: [{ type: 'Ready', status: 'True' }] },
  }))
}

function hintsIn(slices: readonly EndpointSlice[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { endpoints } of slices) {
    for (const { hints } of endpoints ?? []) {
      for (const { name } of hints?.forZones ?? []) counts[name] = (counts[name] ?? 0) + 1
    }
  }
  return counts
}

for (const { name, given, expect } of topologyCache.tables.addHints) {
  test(`addHints: ${name}`, () => {
    const cache = new TopologyCache()
    cache.setNodes(nodesWith(given.ratios))
    const { create, update, events } = cache.addHints(given)
    assert.deepEqual(create, expect.create)
    assert.deepEqual(update, expect.update)
    assert.deepEqual(
      events,
      expect.events.map(({ reason, note }) => ({ reason, note })),
    )
    assert.deepEqual(hintsIn([...create, ...update]), expect.hintsByZone?.IPv4 ?? {})
    assert.equal(cache.hasPopulatedHints(given.serviceKey), expect.hintsByZone !== undefined)
  })
}

for (const { name, given, expect } of topologyCache.tables.setNodes) {
  test(`setNodes: ${name}`, () => {
    const ratios = cpuRatiosOf(given.nodes)
    assert.equal(ratios !== undefined, expect.sufficientNodeInfo)
    assert.deepEqual(ratios && Object.fromEntries(ratios), expect.ratios)
  })
}

for (const { name, given, expect } of topologySliceInfo.tables.totalReadyEndpoints) {
  test(`getTotalReadyEndpoints: ${name}`, () => {
    const slices = [...given.toCreate, ...given.toUpdate, ...given.unchanged].map(({ ready, unready }) => ({
      addressType: 'IPv4',
      endpoints: Array.from({ length: ready + unready }, (_, index) => ({
        addresses: [`192.0.2.${index}`],
        conditions: { ready: index < ready },
      })),
    }))
    const total = slices.reduce((sum, slice) => sum + summaryOf(slice).readyEndpoints, 0)
    assert.equal(total, expect.ready)
  })
}

for (const { name, given, expect } of topologyUtils.tables.redistributeHints) {
  test(`redistributeHints: ${name}`, () => {
    const zones = given.slices.flatMap(({ endpoints }) =>
      (endpoints ?? []).filter(isReady).map(({ zone }) => zone ?? ''),
    )
    const plan = { giving: countsByZone(given.giving), receiving: countsByZone(given.receiving) }
    const redistributions: Record<string, number> = {}
    for (const [index, to] of redistribute(zones, plan)) {
      const from = zones[index] ?? ''
      redistributions[from] = (redistributions[from] ?? 0) - 1
      redistributions[to] = (redistributions[to] ?? 0) + 1
    }
    assert.deepEqual(redistributions, expect.redistributions)
  })
}

for (const { name, given, expect } of topologyUtils.tables.givingAndReceivingZones) {
  test(`getGivingAndReceivingZones: ${name}`, () => {
    const allocations = new Map(Object.entries(given.allocations))
    const { giving, receiving } = planRedistribution(allocations, countsByZone(given.allocated))
    assert.deepEqual(Object.fromEntries(giving), expect.giving)
    assert.deepEqual(Object.fromEntries(receiving), expect.receiving)
  })
}

for (const { name, given, expect } of topologyUtils.tables.hintsByZone) {
  test(`getHintsByZone: ${name}`, () => {
    const { hints } = summaryOf(given.slice)
    const rest =
      hints !== undefined && fits(hints, countsByZone(given.allocated), new Map(Object.entries(given.allocations)))
    assert.deepEqual(rest ? Object.fromEntries(hints) : undefined, expect.hints)
  })
}
