import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryLeaseRegistry, MemoryLeases } from '../../../src/kubernetes-service/leases/memory.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { addressesOf, holder } from './holders.ts'

const { signal } = new AbortController()
const ttlMs = 15_000

function setUp() {
  const time = new VirtualClock()
  const clock = time.view()
  const registry = new MemoryLeaseRegistry(clock)
  return { time, clock, registry, leases: new MemoryLeases(registry, { ttlMs }) }
}

test('without a watch a lease ends too, and no timer waits for its end', async () => {
  const { time, clock, leases } = setUp()
  await leases.update(holder('192.0.2.1'), signal)
  assert.equal(clock.timers, 0)
  await time.advance(ttlMs - 1)
  assert.deepEqual(await addressesOf(leases), ['192.0.2.1'])
  await time.advance(1)
  assert.deepEqual(await addressesOf(leases), [])
})

test('a subscriber that never reads is notified of the end of each lease at the moment of that end', async () => {
  const { time, registry, leases } = setUp()
  await time.advance(1_000)
  const begunMs = time.nowMs
  const notified: number[] = []
  registry.subscribe(() => notified.push(time.nowMs - begunMs))
  for (const address of ['192.0.2.1', '192.0.2.2', '192.0.2.3']) {
    await leases.update(holder(address), signal)
    await time.advance(2_000)
  }
  await time.advance(60_000)
  assert.deepEqual(notified, [0, 2_000, 4_000, ttlMs, ttlMs + 2_000, ttlMs + 4_000])
})

test('a new subscriber is notified of the end of a lease that existed before', async () => {
  const { time, registry, leases } = setUp()
  await leases.update(holder('192.0.2.1'), signal)
  let notified = 0
  registry.subscribe(() => notified++)
  await time.advance(ttlMs)
  assert.equal(notified, 1)
})

test('a lease has one timer for its end, however often it is renewed', async () => {
  const { clock, registry, leases } = setUp()
  registry.subscribe(() => {})
  for (let renewal = 0; renewal < 3; renewal++) await leases.update(holder('192.0.2.1'), signal)
  assert.equal(clock.timers, 1)
})

test('after one of two subscribers has ended only the other is notified; after the last no timer is left', async () => {
  const { time, clock, registry, leases } = setUp()
  const notified: string[] = []
  const [endFirst, endSecond] = ['first', 'second'].map((name) => registry.subscribe(() => notified.push(name)))
  await leases.update(holder('192.0.2.1'), signal)
  endFirst?.()
  await time.advance(ttlMs)
  assert.deepEqual(notified, ['first', 'second', 'second'])
  await leases.update(holder('192.0.2.1'), signal)
  assert.equal(clock.timers, 1)
  endSecond?.()
  assert.equal(clock.timers, 0)
})

test('leases that never end have no timer', () => {
  const { clock, registry } = setUp()
  registry.subscribe(() => {})
  assert.equal(clock.timers, 0)
  registry.addForeign('192.0.2.1')
  assert.equal(clock.timers, 0)
})
