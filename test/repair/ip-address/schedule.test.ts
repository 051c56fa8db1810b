import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IpAddressSchedule } from '../../../src/repair/ip-address/schedule.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'

function schedule() {
  const time = new VirtualClock()
  return {
    time,
    schedule: new IpAddressSchedule({ clock: time.view(), random: { next: () => 0 }, intervalMs: 180_000 }),
  }
}

test('an address is left to its server for 150 to 300 ms after its IPAddress was deleted, regardless of other deletions', async () => {
  const { time, schedule: work } = schedule()
  work.markDeleted('10.96.0.1')
  await time.advance(140)
  work.markDeleted('10.96.0.2')
  await time.advance(145)
  assert.deepEqual([work.isJustDeleted('10.96.0.1'), work.isJustDeleted('10.96.0.2')], [true, true])
  await time.advance(20)
  assert.deepEqual([work.isJustDeleted('10.96.0.1'), work.isJustDeleted('10.96.0.2')], [false, false])
  const { signal } = new AbortController()
  const [{ names }] = await Promise.all([work.next(signal), time.advance(100)])
  assert.deepEqual([...names], ['10.96.0.1', '10.96.0.2'])
  work.end()
})

test('a delayed check has one timer per address, set to the earliest time', async () => {
  const { time, schedule: work } = schedule()
  const stop = new AbortController()
  const rounds: unknown[] = []
  const ended = (async () => {
    for (;;) {
      const { names } = await work.next(stop.signal)
      rounds.push([time.nowMs - 10, ...names])
    }
  })().catch(() => {})
  work.markAfter(['a', 'b'], 1_000)
  work.markAfter(['a'], 1_000)
  work.markAfter(['b', 'c'], 2_000)
  work.markAfter(new Set(['b']), 500)
  await time.advance(600)
  work.markAfter(['b'], 2_000)
  await time.advance(9_400)
  assert.deepEqual(rounds.splice(0), [
    [500, 'b'],
    [1_000, 'a'],
    [2_000, 'c'],
    [2_600, 'b'],
  ])
  work.markAfter(['a'], 100)
  await time.advance(99)
  work.markAfter(['a'], 100)
  await time.advance(10_000)
  assert.deepEqual(rounds.splice(0), [[10_100, 'a']], 'the check is not delayed further')
  work.markAfter(['a', 'b'], 1_000)
  work.end()
  await time.advance(10_000)
  assert.deepEqual(rounds, [])
  stop.abort()
  await ended
})

test('an earlier full pass replaces a later one, and the next regular pass follows one interval after it', async () => {
  const { time, schedule: work } = schedule()
  const stop = new AbortController()
  const passes: unknown[] = []
  const ended = (async () => {
    for (;;) {
      const { full, regular } = await work.next(stop.signal)
      passes.push([time.nowMs - 10, full, regular])
    }
  })().catch(() => {})
  work.passAfter(10_000)
  work.passAfter(5_000)
  work.passAfter(8_000)
  await time.advance(170_000)
  assert.deepEqual(passes, [
    [5_000, true, true],
    [167_010, true, true],
  ])
  work.end()
  stop.abort()
  await ended
})
