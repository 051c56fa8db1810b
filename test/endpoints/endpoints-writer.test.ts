import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EndpointsTracker } from '../../src/endpoints/endpoints-writer.ts'

const key = 'ns/web'

function version(resourceVersion: string, uid = 'uid-1') {
  return { metadata: { namespace: 'ns', name: 'web', uid, resourceVersion } }
}

test('no copy is stale before the first write', () => {
  const tracker = new EndpointsTracker()
  assert.equal(tracker.isStale(key, undefined, 0), false)
  assert.equal(tracker.isStale(key, version('1'), 0), false)
})

test('a copy without the created object is stale until an event is observed or ten seconds have passed', () => {
  const tracker = new EndpointsTracker()
  tracker.created(key, version('1'), 1_000)
  assert.deepEqual(tracker.unseen(key), { metadata: { namespace: 'ns', name: 'web', uid: 'uid-1' } })
  assert.equal(tracker.isStale(key, undefined, 10_999), true)
  assert.equal(tracker.isStale(key, undefined, 11_000), false)
  assert.equal(tracker.isStale(key, version('1'), 1_000), false)
  tracker.observed(key)
  assert.equal(tracker.isStale(key, undefined, 1_000), false)
  assert.equal(tracker.unseen(key), undefined)
})

test('a copy of the replaced version is stale, whatever other event was observed', () => {
  const tracker = new EndpointsTracker()
  tracker.replaced(version('1'), version('2'), 0)
  tracker.observed(key)
  assert.equal(tracker.isStale(key, version('1'), 0), true)
  assert.equal(tracker.isStale(key, version('2'), 0), false)
  assert.equal(tracker.isStale(key, undefined, 0), false)
})

test('a copy without a change or deletion is trusted again after a hundred seconds', () => {
  const tracker = new EndpointsTracker()
  tracker.replaced(version('1'), version('2'), 1_000)
  assert.equal(tracker.isStale(key, version('1'), 100_999), true)
  assert.equal(tracker.isStale(key, version('1'), 101_000), false)
  tracker.deleted(key, version('2'), 1_000)
  for (const [nowMs, old] of [
    [100_999, true],
    [101_000, false],
  ] as const) {
    assert.equal(tracker.isStale(key, version('2'), nowMs), old)
    assert.equal(tracker.isDeleted(key, version('2'), nowMs), old)
  }
})

test('an update that changed nothing does not make the copy stale', () => {
  const tracker = new EndpointsTracker()
  tracker.replaced(version('1'), version('1'), 0)
  assert.equal(tracker.isStale(key, version('1'), 0), false)
})

test('a copy of a deleted object is stale, a copy of its successor is not', () => {
  const tracker = new EndpointsTracker()
  tracker.deleted(key, version('1'), 0)
  for (const old of [true, false]) {
    const copy = version('1', old ? 'uid-1' : 'uid-2')
    assert.equal(tracker.isStale(key, copy, 0), old)
    assert.equal(tracker.isDeleted(key, copy, 0), old)
  }
  assert.equal(tracker.isDeleted(key, undefined, 0), false)
  // The object still exists, because it has a finalizer.
  tracker.observed(key)
  assert.equal(tracker.isStale(key, version('2'), 0), false)
})

test('a list settles every write before it, and returns the keys of writes that it does not show', () => {
  const tracker = new EndpointsTracker()
  const [before, after] = [version('1'), version('2')]
  for (const [write, old, isShown] of [
    [() => tracker.created(key, after, 1_000), undefined, false],
    [() => tracker.created(key, after, 1_000), after, true],
    [() => tracker.replaced(before, after, 1_000), before, false],
    [() => tracker.replaced(before, after, 1_000), after, true],
    [() => tracker.deleted(key, before, 1_000), before, false],
    [() => tracker.deleted(key, before, 1_000), undefined, true],
  ] as const) {
    write()
    assert.deepEqual(
      tracker.listed(1_000, () => old),
      [],
      'the answer may have come after the request',
    )
    assert.deepEqual(
      tracker.listed(1_001, () => old),
      isShown ? [] : [key],
    )
    assert.equal(tracker.isStale(key, old, 1_001), false)
  }
})
