import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeaseObserver, type ObservedLease } from '../../../src/kubernetes-service/leases/lease-observer.ts'

const a = (renewal: string): ObservedLease => ({ key: 'a', renewal, ttlMs: 15_000 })
const b = (renewal: string): ObservedLease => ({ key: 'b', renewal, ttlMs: 15_000 })

test('a lease that is not renewed for its whole TTL is over', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.readAll([a('1')], 10_000)
  observer.readAll([a('1')], 14_999)
  assert.equal(observer.isOver('a', 14_999), false)
  assert.equal(observer.nextEndMs(14_999), 15_000)
  observer.readAll([a('1')], 15_000)
  assert.equal(observer.isOver('a', 15_000), true)
})

test('each renewal gives a lease a whole TTL, counted from when it was seen', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1'), b('1')], 0)
  observer.readOne(a('2'), 9_000)
  observer.readAll([a('2'), b('1')], 15_000)
  assert.equal(observer.isOver('a', 15_000), false)
  assert.equal(observer.isOver('b', 15_000), true)
  assert.equal(observer.nextEndMs(10_000), 15_000)
  assert.equal(observer.nextEndMs(15_000), 24_000, 'what is over does not end again')
})

test('a list that shows less than a watch has told is no renewal', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.readOne(a('2'), 1_000)
  observer.readAll([a('1')], 1_001)
  observer.readAll([a('2')], 10_000)
  assert.equal(observer.isOver('a', 15_999), false)
  assert.equal(observer.isOver('a', 16_000), true)
})

test('a failed read gives every lease a fresh TTL at the next successful one', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.interrupted()
  observer.readAll([a('1')], 15_000)
  assert.equal(observer.isOver('a', 15_000), false)
  assert.equal(observer.isOver('a', 30_000), true)
})

test('a gap without any read, as of a frozen process, does not count either', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1')], 0)
  observer.readAll([a('1')], 60_000)
  assert.equal(observer.isOver('a', 60_000), false)
  assert.equal(observer.isOver('a', 75_000), true)
})

test('a lease that a read no longer shows is forgotten', () => {
  const observer = new LeaseObserver({ maxGapMs: 15_000 })
  observer.readAll([a('1'), b('1')], 0)
  observer.readAll([b('1')], 1_000)
  assert.equal(observer.isOver('a', 100_000), false)
  observer.forget('b')
  assert.equal(observer.nextEndMs(1_000), undefined)
})
