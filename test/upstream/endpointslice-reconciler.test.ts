// Upstream's reconciler writes through a fake client. Our reconciler returns a plan, which the runner applies to the
// given slices. In upstream, chance decides which of several equal slices is filled and which endpoint goes where. So
// the tests compare the writes, the sizes of the slices, and their endpoints as a whole. Two differences are
// deliberate: the totals of a Service with two families cover both (upstream: the family that came last); and
// PreferSameZone without its feature gate, because the gate is always on here.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { leftOutError, SyncFailure } from '../../src/endpointslice/desired-endpoints.ts'
import type { Labels } from '../../src/endpointslice/slice.ts'
import { planWrites } from '../../src/endpointslice/slice-actions.ts'
import { EndpointSliceMetrics } from '../../src/endpointslice/slice-metrics.ts'
import { isPlaceholder, planSlices } from '../../src/endpointslice/slices-plan.ts'
import { asksForTopology, trafficDistributionOf } from '../../src/endpointslice/topology/hints-plan.ts'
import { TopologyCache } from '../../src/endpointslice/topology/topology-cache.ts'
import type { EndpointSlice, Node, Pod, Service } from '../../src/kube/resources.ts'
import { keyOfObject } from '../../src/kube/store.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { expand, type Numbered } from './numbered-objects.ts'
import { assertSame } from './same.ts'

type Endpoint = NonNullable<EndpointSlice['endpoints']>[number]

interface ReconcileCase {
  readonly test: string
  readonly name: string
  readonly given: {
    readonly service: Service
    readonly nodes: readonly Node[]
    readonly pods: readonly Numbered<Pod>[]
    readonly slices: readonly (Omit<EndpointSlice, 'endpoints'> & {
      readonly endpoints: readonly Numbered<Endpoint>[]
    })[]
    readonly maxEndpointsPerSlice: number
    readonly topology?: boolean
    readonly preferSame?: boolean
  }
  readonly expect: {
    /** In no particular order. `slice`: without its name and endpoints. */
    readonly actions: readonly { readonly verb: string; readonly slice?: EndpointSlice; readonly endpoints?: number }[]
    /** The number of endpoints in each slice afterwards, sorted. */
    readonly sizes: readonly number[]
    readonly endpoints: Readonly<Record<string, readonly Numbered<Endpoint>[]>>
    readonly hintsByZone?: Readonly<Record<string, number>>
    readonly metrics: Readonly<Record<string, number>>
    readonly error?: string
  }
}

interface PlaceholderCase {
  readonly name: string
  readonly x?: EndpointSlice
  readonly y?: EndpointSlice
  readonly want: boolean
}

interface FinalizeCase {
  readonly name: string
  readonly service: Service
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly delete: readonly EndpointSlice[]
  readonly expect: Readonly<Record<string, boolean>>
}

const { tables } = JSON.parse(
  readFileSync(new URL('./data/endpointslice-reconciler.json', import.meta.url), 'utf8'),
) as {
  readonly tables: {
    readonly reconcile: readonly ReconcileCase[]
    readonly placeholder: readonly PlaceholderCase[]
    readonly finalize: readonly FinalizeCase[]
  }
}

test('the cases of all 26 functions are present', () => {
  assert.equal(new Set(tables.reconcile.map((one) => one.test)).size, 24)
  assert.deepEqual([tables.reconcile.length, tables.placeholder.length, tables.finalize.length], [57, 8, 5])
})

for (const one of tables.reconcile) test(one.name, () => reconcile(one))

async function reconcile({ given, expect }: ReconcileCase): Promise<void> {
  const { service, nodes, maxEndpointsPerSlice } = given
  const slices = given.slices.map((slice) => ({ ...slice, endpoints: expand(slice.endpoints) }) as EndpointSlice)
  const topology = given.topology ? new TopologyCache() : undefined
  topology?.setNodes(nodes)
  const before = structuredClone(slices)
  const plan = planSlices({
    service,
    pods: expand(given.pods),
    nodeOf: (name) => nodes.find(({ metadata }) => metadata?.name === name),
    slices,
    maxEndpointsPerSlice,
    triggerTime: 'now',
    topology,
  })
  assert.deepEqual(slices, before, 'the input is not changed')

  const state = new Map(slices.map((slice) => [slice.metadata?.name ?? '', slice]))
  const actions = plan.addressTypes.flatMap((one) => one.actions)
  const done = actions.map(({ type, slice }, index) => {
    const name = slice.metadata?.name ?? ''
    if (type === 'delete') {
      assert.ok(state.delete(name))
      return { verb: type }
    }
    assert.equal(state.has(name), type === 'update')
    state.set(type === 'create' ? `new ${index}` : name, slice)
    const { endpoints, apiVersion: _apiVersion, kind: _kind, ...head } = slice
    const { name: _name, ...metadata } = head.metadata ?? {}
    return { verb: type, slice: { ...head, metadata }, endpoints: endpoints?.length }
  })
  for (const slice of plan.unsupported) {
    assert.ok(state.delete(slice.metadata?.name ?? ''))
    done.push({ verb: 'delete' })
  }

  const gateOff = service.spec?.trafficDistribution === 'PreferSameZone' && !given.preferSame
  assertSame(inOrder(done), inOrder(expect.actions), 'the writes')
  assert.deepEqual(
    [...state.values()].map(({ endpoints }) => endpoints?.length ?? 0).sort((a, b) => a - b),
    expect.sizes,
  )
  const all: Record<string, Endpoint[]> = {}
  const hints: Record<string, number> = {}
  for (const { addressType, endpoints } of state.values()) {
    for (const endpoint of endpoints ?? []) {
      const { hints: own, ...rest } = endpoint
      for (const { name } of own?.forZones ?? []) hints[name] = (hints[name] ?? 0) + 1
      const list = all[addressType] ?? []
      all[addressType] = list
      list.push(expect.hintsByZone !== undefined || gateOff ? rest : endpoint)
    }
  }
  const wanted = Object.entries(expect.endpoints).map(([type, groups]) => [type, inOrder(expand(groups))])
  assertSame(
    Object.fromEntries(Object.entries(all).map(([type, endpoints]) => [type, inOrder(endpoints)])),
    Object.fromEntries(wanted),
    'the endpoints',
  )
  if (expect.hintsByZone !== undefined) assert.deepEqual(hints, expect.hintsByZone)
  if (gateOff) assert.deepEqual(hints, { 'zone-a': 1, 'zone-b': 3, 'zone-c': 2 })

  const key = keyOfObject(service)
  const errors = plan.addressTypes.flatMap(({ leftOut }) => leftOut.map((pod) => leftOutError(key, pod)))
  assert.equal(errors.length === 0 ? undefined : new SyncFailure(errors).message, expect.error)

  const metrics = prometheusMetrics()
  const measured = new EndpointSliceMetrics({ metrics, maxEndpointsPerSlice })
  const distribution = trafficDistributionOf(service)
  measured.planned(key, plan.addressTypes, distribution)
  const annotated = topology !== undefined && asksForTopology(service)
  for (const { changed } of plan.addressTypes) measured.finished(changed, annotated ? 'Auto' : 'Disabled', distribution)
  if (!gateOff) assert.deepEqual(await values(metrics), bothFamilies(expect.metrics, plan.addressTypes.length))
}

test('a placeholder is recognized by its address type, ports, endpoints, namespace and labels', () => {
  for (const { name, x, y, want } of tables.placeholder) {
    // Our function always compares two slices, and both have the same address type and namespace.
    if (x === undefined || y === undefined || x.addressType !== y.addressType) continue
    if ((x.metadata?.namespace ?? '') !== (y.metadata?.namespace ?? '')) continue
    assert.equal(isPlaceholder(x, (y.metadata?.labels ?? {}) as Labels), want, name)
  }
})

for (const one of tables.finalize) {
  test(`finalize: ${one.name}`, () => {
    const { service } = one
    const { actions } = planWrites({ ...one, service, remove: one.delete, triggerTime: 'now' })
    // The slices that upstream's test creates first always exist.
    const there = new Set(['to-update', 'to-delete'])
    for (const { type, slice } of actions) {
      const name = slice.metadata?.name ?? ''
      if (type === 'delete') there.delete(name)
      else there.add(name)
    }
    for (const [name, expected] of Object.entries(one.expect)) assert.equal(there.has(name), expected, name)
  })
}

function inOrder<T>(items: readonly T[]): readonly T[] {
  const text = (item: T): string => JSON.stringify(sorted(item))
  return [...items].sort((a, b) => (text(a) < text(b) ? -1 : 1))
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(
    ([, inner]) => inner !== undefined && !(Array.isArray(inner) && inner.length === 0),
  )
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, sorted(inner)]))
}

const totals = ['desiredSlices', 'actualSlices', 'desiredEndpoints']

function bothFamilies(metrics: Readonly<Record<string, number>>, families: number): Record<string, number> {
  const entries = Object.entries(metrics)
  return Object.fromEntries(entries.map(([name, value]) => [name, totals.includes(name) ? value * families : value]))
}

/** The metrics by their names in the data, without zeros. */
async function values(metrics: ReturnType<typeof prometheusMetrics>): Promise<Record<string, number>> {
  const found: Record<string, number> = {}
  const name = (line: string): string | undefined => {
    const [, metric = '', labels = ''] = /^endpoint_slice_controller_(\w+?)(?:\{(.*)\})? /.exec(line) ?? []
    const label = (key: string): string => new RegExp(`${key}="([^"]*)"`).exec(labels)?.[1] ?? ''
    switch (metric) {
      case 'desired_endpoint_slices':
        return 'desiredSlices'
      case 'num_endpoint_slices':
        return 'actualSlices'
      case 'endpoints_desired':
        return 'desiredEndpoints'
      case 'endpoints_added_per_sync_sum':
        return 'added'
      case 'endpoints_removed_per_sync_sum':
        return 'removed'
      case 'endpointslices_changed_per_sync_sum':
        return `changed/${label('topology')}/${label('traffic_distribution')}`
      case 'services_count_by_traffic_distribution':
        return `distributed/${label('traffic_distribution')}`
      default:
        return undefined
    }
  }
  for (const line of (await metrics.expose()).split('\n')) {
    const key = name(line)
    const value = Number(line.split(' ').at(-1))
    if (key !== undefined && value !== 0) found[key] = value
  }
  return found
}
