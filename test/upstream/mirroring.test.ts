import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  mayBeMirrored,
  mirroringManager,
  newMirror,
  planMirror,
  recycleSlices,
} from '../../src/endpointslice/mirroring/mirror-plan.ts'
import { sliceEndpoint } from '../../src/endpointslice/mirroring/mirrored-endpoints.ts'
import { ServiceSlices } from '../../src/endpointslice/slice-index.ts'
import { eventReasons } from '../../src/kube/event-object.ts'
import { Informer } from '../../src/kube/informer.ts'
import { type Endpoints, endpointSlices, type Service } from '../../src/kube/resources.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { Embedded } from '../apiserver/embedded.ts'
import {
  endpointsOf,
  type MirrorWrite,
  mirroringController,
  mirroringHelpers,
  mirroringReconciler,
  mirroringUtils,
} from './mirroring-tables.ts'

// Upstream leaves the order of endpoints in a slice, and of writes, to chance, so these tests ignore both. Upstream's
// client does not write the kind of an object. Empty fields equal absent ones, as in Go.

type Plan = ReturnType<typeof planMirror>

/** The value without empty fields; lists without a meaningful order are sorted. */
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical)
  if (typeof value !== 'object' || value === null) return value
  const nonEmpty = Object.entries(value)
    .map(
      ([key, inner]) =>
        [key, key === 'endpoints' ? inAnyOrder(inner as readonly unknown[]) : canonical(inner)] as const,
    )
    .filter(([, inner]) => !isEmpty(inner))
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(nonEmpty)
}

function inAnyOrder(list: readonly unknown[]): readonly unknown[] {
  return list.map(canonical).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === '' ||
    (typeof value === 'object' && Object.keys(value).length === 0)
  )
}

function assertWrites(plan: Plan, expected: readonly MirrorWrite[]): void {
  const counted = expected.some((write) => 'endpointCount' in write)
  const writes = plan.actions.map(({ type, slice }) => {
    if (type === 'delete') return { verb: type, name: slice.metadata?.name }
    const { apiVersion: _, kind: __, endpoints, ...rest } = slice
    return counted
      ? { verb: type, object: rest, endpointCount: endpoints?.length }
      : { verb: type, object: { ...rest, endpoints } }
  })
  assert.deepEqual(inAnyOrder(writes), inAnyOrder(expected))
}

function eventsOf(plan: Plan): readonly unknown[] {
  if (plan.type === 'withdrawn') return []
  return plan.events.map(({ reason, note }) => ({ type: eventReasons[reason].type, reason, note }))
}

for (const { name, given, expect } of mirroringReconciler.tables.reconcile) {
  test(`reconcile: ${name}`, () => {
    const { slices, maxEndpointsPerSubset } = given
    const plan = planMirror({ endpoints: endpointsOf(given), service: {}, slices, maxEndpointsPerSubset })
    assertWrites(plan, expect.writes)
    assert.deepEqual(eventsOf(plan), expect.events)
    if (expect.metrics === undefined) return
    assert.ok(plan.type === 'mirrored')
    const { groups, ...counts } = plan.tally
    const written = (type: string): number => plan.actions.filter((action) => action.type === type).length
    const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
    assert.deepEqual(
      {
        ...counts,
        desiredSlices: sum(groups.map(({ endpoints }) => Math.ceil(endpoints / maxEndpointsPerSubset))),
        actualSlices: sum(groups.map(({ slices }) => slices)),
        desiredEndpoints: sum(groups.map(({ endpoints }) => endpoints)),
        created: written('create'),
        updates: written('update'),
        deleted: written('delete'),
      },
      expect.metrics,
    )
  })
}

for (const { name, given, expect } of mirroringHelpers.tables.recycleSlices) {
  test(`recycleSlices: ${name}`, () => {
    const { create, update, remove } = recycleSlices({ ...given, remove: given.delete })
    assert.deepEqual(inAnyOrder(create), inAnyOrder(expect.create))
    assert.deepEqual(inAnyOrder(update), inAnyOrder(expect.update))
    assert.deepEqual(inAnyOrder(remove), inAnyOrder(expect.delete))
  })
}

for (const { name, given, expect } of mirroringUtils.tables.newEndpointSlice) {
  test(`newEndpointSlice: ${name}`, () => {
    const { ports, addressType } = given
    const group = { ports, addressType, endpoints: new Map() }
    const { apiVersion: _, kind: __, ...slice } = newMirror(given.endpoints, group, undefined)
    assert.deepEqual(canonical(slice), canonical(expect.slice))
  })
}

for (const { name, given, expect } of mirroringUtils.tables.addressToEndpoint) {
  test(`addressToEndpoint: ${name}`, () => {
    assert.deepEqual(sliceEndpoint(given.address, given.ready), expect)
  })
}

for (const { name, given, expect } of mirroringController.tables.syncEndpoints) {
  test(`syncEndpoints: ${name}`, () => {
    const slices = given.slices.filter(
      ({ metadata }) => metadata?.labels?.['endpointslice.kubernetes.io/managed-by'] === mirroringManager,
    )
    const service = given.service as Service | undefined
    const plan = planMirror({ endpoints: endpointsOf(given), service, slices, maxEndpointsPerSubset: 1000 })
    assertWrites(plan, expect.writes)
    assert.deepEqual(eventsOf(plan), expect.events)
  })
}

for (const { name, given, expect } of mirroringController.tables.shouldMirror) {
  test(`shouldMirror: ${name}`, () => {
    assert.equal(mayBeMirrored(given.endpoints as Endpoints), expect.mirrored)
  })
}

for (const { name, given, expect } of mirroringController.tables.slicesMirroredForService) {
  test(`endpointSlicesMirroredForService: ${name}`, () => {
    const { api, clock } = new Embedded()
    const informer = new Informer({
      api,
      clock,
      random: seededRandom(1, name),
      logger: silentLogger,
      resource: endpointSlices,
    })
    informer.store.apply({ type: 'ADDED', object: given.slice })
    const slices = new ServiceSlices({ informer, managedBy: mirroringManager })
    assert.deepEqual(slices.of(`${given.namespace}/${given.name}`), expect.found ? [given.slice] : [])
  })
}
