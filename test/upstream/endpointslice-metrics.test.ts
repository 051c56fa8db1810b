// metrics/cache_test.go of k8s.io/endpointslice v0.36.3: three functions, each a history. Upstream reads its cache;
// these tests read the metrics.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EndpointSliceMetrics } from '../../src/endpointslice/slice-metrics.ts'
import type { AddressTypePlan, Packing } from '../../src/endpointslice/slices-plan.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

function planOf(packings: readonly Packing[]): AddressTypePlan {
  return { addressType: 'IPv4', actions: [], changed: 0, events: [], leftOut: [], added: 0, removed: 0, packings }
}

function measured(maxEndpointsPerSlice: number) {
  const metrics = prometheusMetrics()
  const subject = new EndpointSliceMetrics({ metrics, maxEndpointsPerSlice })
  const read = async (name: string): Promise<Record<string, number>> => {
    const lines = (await metrics.expose())
      .split('\n')
      .filter((line) => line.startsWith(`endpoint_slice_controller_${name}`))
    return Object.fromEntries(lines.map((line) => [/="(.*)"/.exec(line)?.[1] ?? '', Number(line.split(' ').at(-1))]))
  }
  const totals = async (): Promise<readonly (number | undefined)[]> => [
    (await read('desired_endpoint_slices'))[''],
    (await read('num_endpoint_slices'))[''],
    (await read('endpoints_desired'))[''],
  ]
  return { subject, totals, distributed: () => read('services_count_by_traffic_distribution') }
}

test('TestNumEndpointsAndSlices', async () => {
  const { subject, totals } = measured(100)
  const efficient = [
    { endpoints: 45, slices: 1 },
    { endpoints: 35, slices: 1 },
  ]
  const inefficient = [
    { endpoints: 12, slices: 5 },
    { endpoints: 18, slices: 8 },
  ]
  const steps: readonly [service: string, packings: readonly Packing[] | undefined, wanted: readonly number[]][] = [
    ['ns1/svc1', inefficient, [2, 13, 30]],
    ['ns1/svc2', efficient, [4, 15, 110]],
    ['ns1/svc3', inefficient, [6, 28, 140]],
    ['ns1/svc1', efficient, [6, 17, 190]],
    ['ns1/svc3', undefined, [4, 4, 160]],
  ]
  for (const [service, packings, wanted] of steps) {
    if (packings === undefined) subject.deleteService(service)
    else subject.planned(service, [planOf(packings)], undefined)
    assert.deepEqual(await totals(), wanted)
  }
  subject.reset()
  assert.deepEqual(await totals(), [0, 0, 0], 'another term of leadership begins')
})

test('TestPlaceHolderSlice', async () => {
  const { subject, totals } = measured(100)
  subject.planned(
    'ns1/svc1',
    [
      planOf([
        { endpoints: 0, slices: 1 },
        { endpoints: 0, slices: 1 },
      ]),
    ],
    undefined,
  )
  assert.deepEqual(await totals(), [1, 2, 0])
})

test('TestCache_ServicesByTrafficDistribution', async () => {
  const { subject, distributed } = measured(100)
  const steps: readonly [service: string, distribution: string | undefined, wanted: Record<string, number>][] = [
    ['ns1/service1', 'PreferClose', { PreferClose: 1 }],
    ['ns1/service1', 'PreferClose', { PreferClose: 1 }],
    ['ns1/service2', 'PreferClose', { PreferClose: 2 }],
    ['ns2/service3', 'FutureValue', { PreferClose: 2, FutureValue: 1 }],
    ['ns3/service4', undefined, { PreferClose: 2, FutureValue: 1 }],
    ['ns1/service2', 'AnotherFutureValue', { PreferClose: 1, FutureValue: 1, AnotherFutureValue: 1 }],
    ['ns2/service3', 'deleted', { PreferClose: 1, FutureValue: 0, AnotherFutureValue: 1 }],
    ['ns1/service1', undefined, { PreferClose: 0, FutureValue: 0, AnotherFutureValue: 1 }],
    ['ns1/service2', undefined, { PreferClose: 0, FutureValue: 0, AnotherFutureValue: 0 }],
  ]
  for (const [service, distribution, wanted] of steps) {
    if (distribution === 'deleted') subject.deleteService(service)
    else subject.planned(service, [], distribution)
    assert.deepEqual(await distributed(), wanted)
  }
})
