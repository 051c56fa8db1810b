import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reconcileTrafficDistribution } from '../../src/endpointslice/topology/hints-plan.ts'
import { removeHintsFromSlices } from '../../src/endpointslice/topology/topology-cache.ts'
import { trafficDistribution } from './topology-tables.ts'

// Upstream calls one function for every value of trafficDistribution. Here the caller removes the hints if the value is
// unknown or absent.

for (const { name, given, expect } of trafficDistribution.tables.reconcileHints) {
  test(`ReconcileHints: ${name}`, () => {
    const { toCreate, toUpdate, unchanged } = given
    const value = given.trafficDistribution
    const known = value === 'PreferClose' || value === 'PreferSameZone' || value === 'PreferSameNode'
    const before = structuredClone(unchanged)
    const hinted = known
      ? reconcileTrafficDistribution(value, toCreate, toUpdate, unchanged)
      : removeHintsFromSlices({ serviceKey: 'ns/svc', addressType: 'IPv4', toCreate, toUpdate, unchanged })
    assert.deepEqual(hinted.create, expect.create)
    assert.deepEqual(hinted.update, expect.update)
    const changed = hinted.update.length - toUpdate.length
    assert.equal(unchanged.length - changed, expect.unchanged.length)
    assert.deepEqual(unchanged, before, 'slices of the copy are never changed')
  })
}
