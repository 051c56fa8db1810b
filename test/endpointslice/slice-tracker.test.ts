import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SliceChanges, SliceTracker } from '../../src/endpointslice/slice-tracker.ts'
import type { EndpointSlice } from '../../src/kube/resources.ts'

function slice(generation: number, service = 'web', managedBy = 'me'): EndpointSlice {
  const labels = { 'kubernetes.io/service-name': service, 'endpointslice.kubernetes.io/managed-by': managedBy }
  const metadata = { name: 'web-1', namespace: 'n', uid: 'u', generation, labels, resourceVersion: String(generation) }
  return { metadata, addressType: 'IPv4', endpoints: [] }
}

function subject() {
  const tracker = new SliceTracker()
  const queued: string[] = []
  const changes = new SliceChanges({
    tracker,
    manages: ({ metadata }) => metadata?.labels?.['endpointslice.kubernetes.io/managed-by'] === 'me',
    queue: (key) => queued.push(key),
  })
  return { tracker, changes, queuedSince: () => queued.splice(0) }
}

test('an echo that arrives before the response to its write is recognised once the response arrives', () => {
  const { tracker, changes, queuedSince } = subject()
  changes.begin('n/web')
  changes.take({ type: 'added', object: slice(1) })
  tracker.update(slice(1))
  changes.end('n/web')
  assert.deepEqual(queuedSince(), [])
  changes.begin('n/web')
  changes.take({ type: 'updated', old: slice(1), object: slice(2) })
  tracker.update(slice(2))
  changes.end('n/web')
  changes.begin('n/web')
  changes.take({ type: 'deleted', old: slice(2) })
  tracker.expectDeletion(slice(2))
  changes.end('n/web')
  assert.deepEqual(queuedSince(), [])
  assert.equal(tracker.isStale('n/web', []), false)
})

test('a change by somebody else during a sync queues the Service when the sync ends', () => {
  const { changes, queuedSince } = subject()
  changes.begin('n/web')
  changes.take({ type: 'added', object: slice(1) })
  assert.deepEqual(queuedSince(), [])
  changes.end('n/web')
  assert.deepEqual(queuedSince(), ['n/web'])
})

test('a slice that moves to another Service is judged after both syncs end, and queues both Services', () => {
  const { tracker, changes, queuedSince } = subject()
  tracker.update(slice(1))
  changes.begin('n/web')
  changes.begin('n/other')
  assert.deepEqual(
    [...changes.take({ type: 'updated', old: slice(1), object: slice(1, 'other') })],
    ['n/web', 'n/other'],
  )
  changes.end('n/web')
  assert.deepEqual(queuedSince(), [])
  changes.end('n/other')
  assert.deepEqual(queuedSince(), ['n/other', 'n/web'])
  assert.equal(tracker.isStale('n/web', []), false, 'the former Service does not expect the slice')
})

test('an unexpected deletion queues the Service, whether or not the slice was known', () => {
  const { tracker, changes, queuedSince } = subject()
  changes.take({ type: 'deleted', old: slice(1) })
  assert.deepEqual(queuedSince(), ['n/web'])
  tracker.update(slice(1))
  changes.take({ type: 'deleted', old: slice(1) })
  assert.deepEqual(queuedSince(), ['n/web'])
  assert.equal(tracker.has(slice(1)), false)
})

test('slices of other controllers queue nothing, except when they become managed or cease to be', () => {
  const { changes, queuedSince } = subject()
  const foreign = slice(1, 'web', 'somebody')
  changes.take({ type: 'added', object: foreign })
  changes.take({ type: 'updated', old: foreign, object: slice(2, 'web', 'somebody') })
  changes.take({ type: 'deleted', old: foreign })
  assert.deepEqual(queuedSince(), [])
  changes.take({ type: 'updated', old: foreign, object: slice(2) })
  assert.deepEqual(queuedSince(), ['n/web'])
  changes.take({ type: 'updated', old: slice(2), object: foreign })
  assert.deepEqual(queuedSince(), ['n/web'])
})

test('a change that leaves the generation unchanged, such as of annotations, queues nothing, as upstream', () => {
  const { tracker, changes, queuedSince } = subject()
  tracker.update(slice(1))
  const { metadata, ...rest } = slice(1)
  changes.take({
    type: 'updated',
    old: slice(1),
    object: { ...rest, metadata: { ...metadata, annotations: { a: 'b' } } },
  })
  assert.deepEqual(queuedSince(), [])
})

test('a slice missing after a broken watch makes the cache stale until the cache shows later changes', () => {
  const { tracker, changes } = subject()
  tracker.update(slice(5))
  assert.equal(tracker.isStale('n/web', []), true)
  const other = (resourceVersion: string): EndpointSlice => ({
    ...slice(1, 'other'),
    metadata: { ...slice(1, 'other').metadata, uid: 'other', resourceVersion },
  })
  changes.take({ type: 'added', object: other('4') })
  assert.equal(tracker.isStale('n/web', []), true)
  changes.take({ type: 'updated', old: other('4'), object: other('6') })
  assert.equal(tracker.isStale('n/web', []), false)
  assert.equal(tracker.isStale('n/web', [slice(5)]), false)
  assert.equal(tracker.isStale('n/web', [slice(4)]), true)
  tracker.update(slice(7))
  changes.take({ type: 'added', object: other('5') })
  assert.equal(tracker.isStale('n/web', []), true)
})

test('a cache that has not shown a write or deletion for 100 seconds is trusted', () => {
  let nowMs = 0
  const tracker = new SliceTracker(() => nowMs)
  const copies = [
    [() => tracker.update(slice(7)), [slice(5)]],
    [() => tracker.expectDeletion(slice(2)), [slice(2)]],
  ] as const
  for (const [write, copy] of copies) {
    const writtenMs = nowMs
    write()
    nowMs = writtenMs + 99_000
    assert.equal(tracker.isStale('n/web', copy), true)
    nowMs = writtenMs + 100_000
    assert.equal(tracker.isStale('n/web', copy), false)
  }
})

test('a list settles every earlier write; a slice that contradicts it is forgotten and its Service returned', () => {
  let nowMs = 1_000
  const tracker = new SliceTracker(() => nowMs)
  const copy = [slice(2)]
  const outcomes: readonly (readonly [write: () => void, copy: readonly EndpointSlice[], isShown: boolean])[] = [
    [() => tracker.update(slice(2)), copy, true],
    [() => tracker.update(slice(3)), copy, false],
    [() => tracker.update(slice(2)), [], false],
    [() => tracker.expectDeletion(slice(2)), copy, false],
    [() => tracker.expectDeletion(slice(2)), [], true],
  ]
  for (const [write, found, isShown] of outcomes) {
    write()
    assert.deepEqual([...tracker.listed(nowMs, () => found)], [], 'the answer may have come after the request')
    nowMs++
    assert.deepEqual([...tracker.listed(nowMs, () => found)], isShown ? [] : ['n/web'])
    assert.deepEqual([tracker.has(slice(2)), tracker.isStale('n/web', found)], [isShown, false])
  }
})
