import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeaseObserver, type ObservedLease } from '../../../src/kubernetes-service/leases/lease-observer.ts'

const a = (renewal: string): ObservedLease => ({ key: 'a', renewal, ttlMs: 15_000 })
const b = (renewal: string): ObservedLease => ({ key: 'b', renewal, ttlMs: 15_000 })

test('a lease that is not renewed for its whole TTL is over', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  assert.equal(observer.nextReadMs(0), 13_000, 'a little before its end')
  observer.readAll([a('1')], 13_000)
  assert.equal(observer.isOver('a', 14_999), false)
  assert.equal(observer.nextReadMs(13_000), 15_000)
  observer.readAll([a('1')], 15_000)
  assert.equal(observer.isOver('a', 15_000), true)
  assert.equal(observer.nextReadMs(15_000), undefined, 'what is over does not end again')
})

test('the end of a lease tells nothing before its holder has had the time to renew since a read: an outage may have passed', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.readAll([a('1')], 12_999)
  observer.readAll([a('1')], 15_100)
  assert.equal(observer.isOver('a', 15_100), false)
  assert.equal(observer.nextReadMs(15_100), 17_100)
  observer.readAll([a('1')], 17_099)
  assert.equal(observer.isOver('a', 17_099), false)
  observer.readAll([a('1')], 17_100)
  assert.equal(observer.isOver('a', 17_100), true)
})

test('a short lease is looked at less long before its end', () => {
  const observer = new LeaseObserver({ maxGapMs: 3_000 })
  observer.readAll([{ key: 'a', renewal: '1', ttlMs: 3_000 }], 0)
  assert.equal(observer.nextReadMs(0), 1_500)
})

test('each renewal gives a lease a whole TTL, counted from when it was seen', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1'), b('1')], 0)
  observer.readOne(a('2'), 9_000)
  observer.readAll([a('2'), b('1')], 13_000)
  observer.readAll([a('2'), b('1')], 15_000)
  assert.equal(observer.isOver('a', 15_000), false)
  assert.equal(observer.isOver('b', 15_000), true)
  assert.equal(observer.nextReadMs(15_000), 22_000)
})

test('a list that shows less than a watch has told is no renewal', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  const { told } = observer
  observer.readOne(a('2'), 1_000)
  observer.readAll([a('1')], 1_001, told)
  observer.readAll([a('2')], 14_000)
  assert.equal(observer.isOver('a', 15_999), false)
  assert.equal(observer.isOver('a', 16_000), true)
})

test('a list that shows a lease from before it was deleted and made anew does not bring the old one back', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  const old = { key: 'a', renewal: '1', ttlMs: 3_000 }
  observer.readAll([old], 0)
  const { told } = observer
  observer.forget('a')
  observer.readOne(a('2'), 100)
  observer.readAll([old], 101, told)
  for (const nowMs of [1_600, 3_200, 13_100]) {
    observer.readAll([a('2')], nowMs)
    assert.equal(observer.isOver('a', nowMs), false)
  }
  assert.equal(observer.isOver('a', 15_100), true)
})

test('what a watch told of since a list began is not forgotten by it', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  const { told } = observer
  observer.readOne(a('1'), 100)
  observer.readAll([], 101, told)
  assert.equal(observer.nextReadMs(101), 13_100)
  observer.readAll([], 102)
  assert.equal(observer.nextReadMs(102), undefined)
})

test('a failed read gives every lease a fresh TTL at the next successful one', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.interrupted()
  observer.readAll([a('1')], 15_000)
  assert.equal(observer.isOver('a', 15_000), false)
  observer.readAll([a('1')], 28_000)
  assert.equal(observer.isOver('a', 29_999), false)
  assert.equal(observer.isOver('a', 30_000), true)
})

test('a gap without any read, as of a frozen process, does not count either', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.readAll([a('1')], 60_000)
  assert.equal(observer.isOver('a', 60_000), false)
  observer.readAll([a('1')], 73_000)
  assert.equal(observer.isOver('a', 75_000), true)
})

test('a lease that a read no longer shows is forgotten', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1'), b('1')], 0)
  observer.readAll([b('1')], 1_000)
  assert.equal(observer.isOver('a', 100_000), false)
  observer.forget('b')
  assert.equal(observer.nextReadMs(1_000), undefined)
})
