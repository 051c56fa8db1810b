import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeaseObserver, type ObservedLease } from '../../src/kube/lease-observer.ts'

const a = (renewal: string): ObservedLease => ({ key: 'a', renewal, ttlMs: 15_000 })
const b = (renewal: string): ObservedLease => ({ key: 'b', renewal, ttlMs: 15_000 })

/** Reads `leases` at each of these times. Returns, for each time, whether the first lease is over. */
function judged(observer: LeaseObserver, leases: readonly ObservedLease[], timesMs: readonly number[]): boolean[] {
  return timesMs.map((nowMs) => {
    observer.readAll(leases, nowMs)
    return observer.isOver(leases[0]?.key ?? '')
  })
}

test('a lease expires if it is not renewed for its whole TTL', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  assert.deepEqual(judged(observer, [a('1')], [0]), [false])
  assert.equal(observer.nextReadMs(0), 13_000, 'the next read is due shortly before the expiry')
  assert.deepEqual(judged(observer, [a('1')], [13_000, 14_999]), [false, false])
  assert.equal(observer.nextReadMs(14_999), 15_000)
  assert.deepEqual(judged(observer, [a('1')], [15_000]), [true])
  assert.equal(observer.nextReadMs(15_000), undefined, 'an expired lease does not expire again')
})

test('a lease past its TTL expires only after two lists, between which its holder has time to renew after an outage', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  assert.deepEqual(judged(observer, [a('1')], [0, 12_999, 15_100]), [false, false, false])
  assert.equal(observer.nextReadMs(15_100), 17_100)
  assert.deepEqual(judged(observer, [a('1')], [17_099, 17_100]), [false, true])
})

test('a lease of three seconds is due for a list 1.5 seconds before its end', () => {
  const observer = new LeaseObserver({ maxGapMs: 3_000 })
  observer.readAll([{ key: 'a', renewal: '1', ttlMs: 3_000 }], 0)
  assert.equal(observer.nextReadMs(0), 1_500)
})

test('each renewal gives a lease a whole TTL, from when a list or a watch first reports it', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1'), b('1')], 0)
  observer.readOne(a('2'), 9_000)
  observer.readAll([a('2'), b('1')], 13_000)
  observer.readAll([a('2'), b('1')], 15_000)
  assert.deepEqual([observer.isOver('a'), observer.isOver('b')], [false, true])
  assert.equal(observer.nextReadMs(15_000), 22_000)
})

test('watch events expire no lease, and do not fill a gap between lists', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1'), b('1')], 0)
  for (let second = 1; second <= 40; second++) observer.readOne(b(String(second)), second * 1_000)
  assert.equal(observer.isOver('a'), false)
  assert.deepEqual(judged(observer, [a('1'), b('40')], [40_000, 53_000, 55_000]), [false, false, true])
})

test('a list with an older renewal than a watch event does not count as a renewal', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  const { eventCount } = observer
  observer.readOne(a('2'), 1_000)
  observer.readAll([a('1')], 1_001, eventCount)
  assert.deepEqual(judged(observer, [a('2')], [14_000, 15_999, 16_000]), [false, false, true])
})

test('a list from before the deletion and recreation of a lease does not restore the old lease', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  const old = { key: 'a', renewal: '1', ttlMs: 3_000 }
  observer.readAll([old], 0)
  const { eventCount } = observer
  observer.forget('a')
  observer.readOne(a('2'), 100)
  observer.readAll([old], 101, eventCount)
  assert.deepEqual(judged(observer, [a('2')], [1_600, 3_200, 13_100, 15_100]), [false, false, false, true])
})

test('a list does not remove a lease that a watch has reported since the list began', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  const { eventCount } = observer
  observer.readOne(a('1'), 100)
  observer.readAll([], 101, eventCount)
  assert.equal(observer.nextReadMs(101), 13_100)
  observer.readAll([], 102)
  assert.equal(observer.nextReadMs(102), undefined)
})

test('a failed list gives every lease a fresh TTL at the next successful one', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.interrupted()
  assert.deepEqual(judged(observer, [a('1')], [15_000, 28_000, 29_999, 30_000]), [false, false, false, true])
})

test('a gap without lists, as in a frozen process, does not count toward the TTL either', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  assert.deepEqual(judged(observer, [a('1')], [0, 60_000, 73_000, 75_000]), [false, false, false, true])
})

test('an expired lease stays expired, whatever happens to the lists, until it is renewed', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  assert.deepEqual(judged(observer, [a('1')], [0, 13_000, 15_000]), [false, false, true])
  observer.interrupted()
  observer.readOne(a('1'), 16_000)
  assert.deepEqual(judged(observer, [a('1')], [17_000, 60_000]), [true, true])
  assert.deepEqual(judged(observer, [a('2')], [61_000]), [false])
})

test('a lease that a list no longer contains is forgotten', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1'), b('1')], 0)
  observer.readAll([b('1')], 1_000)
  assert.equal(observer.isOver('a'), false)
  observer.forget('b')
  assert.equal(observer.nextReadMs(1_000), undefined)
})

test('a lease present in the first list, or reported before it, counts as found until it is renewed', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readOne(a('1'), 0)
  observer.readAll([a('1'), b('1')], 100)
  assert.deepEqual([observer.isFound('a'), observer.isFound('b')], [true, true])
  observer.readOne(a('2'), 1_000)
  observer.readAll([a('2'), b('1'), { key: 'c', renewal: '1', ttlMs: 15_000 }], 2_000)
  assert.deepEqual([observer.isFound('a'), observer.isFound('b'), observer.isFound('c')], [false, true, false])
})

test('late watch events about renewals from before a list leave a lease found, and its TTL unchanged', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.interrupted()
  observer.readAll([a('3')], 30_000)
  observer.readOne(a('2'), 30_100)
  observer.readOne(a('3'), 30_100)
  assert.equal(observer.isFound('a'), true)
  assert.deepEqual(judged(observer, [a('3')], [43_000, 45_000]), [false, true], 'its time counts from the list')
  observer.readOne(a('4'), 45_100)
  assert.equal(observer.isFound('a'), false)
})
