import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MirroringMetrics } from '../../../src/endpointslice/mirroring/mirroring-metrics.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'

/** Desired slices, slices and endpoints, as the gauges show them. */
async function gauges(registry: ReturnType<typeof prometheusMetrics>): Promise<readonly number[]> {
  const text = await registry.expose()
  return ['desired_endpoint_slices', 'num_endpoint_slices', 'endpoints_desired'].map((name) =>
    Number(new RegExp(`^endpoint_slice_mirroring_controller_${name} (\\S+)$`, 'm').exec(text)?.[1]),
  )
}

// Upstream's TestNumEndpointsAndSlices (pkg/controller/endpointslicemirroring/metrics/cache_test.go).
test('the gauges sum the latest plan of each Service, without forgotten ones', async () => {
  const registry = prometheusMetrics()
  const metrics = new MirroringMetrics(registry)
  const tally = { added: 0, updated: 0, removed: 0, skipped: 0 }
  const efficient = {
    ...tally,
    groups: [
      { endpoints: 45, slices: 1 },
      { endpoints: 35, slices: 1 },
    ],
  }
  const inefficient = {
    ...tally,
    groups: [
      { endpoints: 12, slices: 5 },
      { endpoints: 18, slices: 8 },
    ],
  }
  metrics.planned('ns1/svc1', inefficient, 100)
  assert.deepEqual(await gauges(registry), [2, 13, 30])
  metrics.planned('ns1/svc2', efficient, 100)
  assert.deepEqual(await gauges(registry), [4, 15, 110])
  metrics.planned('ns1/svc3', inefficient, 100)
  assert.deepEqual(await gauges(registry), [6, 28, 140])
  metrics.planned('ns1/svc1', efficient, 100)
  assert.deepEqual(await gauges(registry), [6, 17, 190])
  metrics.forget('ns1/svc3')
  assert.deepEqual(await gauges(registry), [4, 4, 160])
  assert.ok(metrics.knows('ns1/svc1') && !metrics.knows('ns1/svc3'))
  metrics.forget('ns1/svc3')
  assert.deepEqual(await gauges(registry), [4, 4, 160])
  metrics.reset()
  assert.deepEqual(await gauges(registry), [0, 0, 0])
})
