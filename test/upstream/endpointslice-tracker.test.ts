// Upstream's test of deletions deletes the slice that was tracked first, whatever the column `delete` contains.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { SliceTracker } from '../../src/endpointslice/slice-tracker.ts'
import type { EndpointSlice } from '../../src/kube/resources.ts'

const { tables } = JSON.parse(readFileSync(new URL('./data/endpointslice-tracker.json', import.meta.url), 'utf8')) as {
  readonly tables: {
    readonly update: readonly {
      readonly name: string
      readonly update: EndpointSlice
      readonly check: EndpointSlice
      readonly has: boolean
      readonly shouldSync: boolean
      readonly generation: number
    }[]
    readonly staleSlices: readonly {
      readonly name: string
      readonly service: string
      /** The tracked generations by uid; -1 for an expected deletion. */
      readonly generations?: Readonly<Record<string, number>>
      readonly slices: readonly EndpointSlice[]
      readonly want: boolean
    }[]
    readonly deletion: readonly {
      readonly name: string
      readonly update: EndpointSlice
      readonly expectDeletion: EndpointSlice
      readonly check: EndpointSlice
      readonly delete: EndpointSlice
      readonly has: boolean
      readonly shouldSync: boolean
      readonly handleDeletion: boolean
    }[]
    readonly deleteService: readonly {
      readonly name: string
      readonly update: EndpointSlice
      readonly service: string
      readonly has: boolean
      readonly shouldSync: boolean
    }[]
  }
}

test('the 4 tables are complete', () => {
  assert.deepEqual(
    Object.values(tables).map(({ length }) => length),
    [4, 7, 7, 3],
  )
})

for (const { name, update, check, has, shouldSync, generation } of tables.update) {
  test(`Update: ${name}`, () => {
    const tracker = new SliceTracker()
    tracker.update(update)
    assert.equal(tracker.has(check), has)
    assert.equal(tracker.shouldSync(check), shouldSync)
    assert.equal(tracker.generation(update), generation)
  })
}

for (const { name, service, generations = {}, slices, want } of tables.staleSlices) {
  test(`StaleSlices: ${name}`, () => {
    const tracker = new SliceTracker()
    const [namespace = '', serviceName = ''] = service.split('/')
    for (const [uid, generation] of Object.entries(generations)) {
      const labels = { 'kubernetes.io/service-name': serviceName }
      const slice = { addressType: 'IPv4', endpoints: [], metadata: { namespace, uid, labels, generation } }
      if (generation === -1) tracker.expectDeletion(slice)
      else tracker.update(slice)
    }
    assert.equal(tracker.isStale(service, slices), want)
  })
}

for (const { name, update, expectDeletion, check, has, shouldSync, handleDeletion } of tables.deletion) {
  test(`Deletion: ${name}`, () => {
    const tracker = new SliceTracker()
    tracker.update(update)
    tracker.expectDeletion(expectDeletion)
    assert.equal(tracker.has(check), has)
    assert.equal(tracker.shouldSync(check), shouldSync)
    assert.equal(tracker.handleDeletion(update), handleDeletion)
    assert.equal(tracker.has(update), false)
  })
}

for (const { name, update, service, has, shouldSync } of tables.deleteService) {
  test(`DeleteService: ${name}`, () => {
    const tracker = new SliceTracker()
    tracker.update(update)
    tracker.deleteService(service)
    assert.equal(tracker.has(update), has)
    assert.equal(tracker.shouldSync(update), shouldSync)
  })
}
