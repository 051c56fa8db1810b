import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { sleep } from '../../src/runtime/clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

test('virtual time stands still until it is advanced, and then advances by exactly that much', async () => {
  const time = new VirtualClock({ startWallMs: 1000 })
  const clock = time.view()
  const monotonicMs = clock.monotonicMs()
  await new Promise(setImmediate)
  assert.equal(time.nowMs, 0)
  await time.advance(250)
  assert.equal(time.nowMs, 250)
  assert.equal(clock.wallMs(), 1250)
  assert.equal(clock.monotonicMs() - monotonicMs, 250)
})

test('a callback sees its due time as the current time', async () => {
  const time = new VirtualClock()
  const seen: number[] = []
  time.view().schedule(70, () => seen.push(time.nowMs))
  time.view().schedule(30, () => seen.push(time.nowMs))
  await time.advance(100)
  assert.deepEqual(seen, [30, 70])
})

test('an advance runs what is due exactly at its end and leaves later callbacks to the next advance', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const ran: number[] = []
  for (const dueMs of [10, 11]) clock.schedule(dueMs, () => ran.push(dueMs))
  await time.advance(10)
  assert.deepEqual(ran, [10])
  await time.advance(1)
  assert.deepEqual(ran, [10, 11])
})

test('callbacks run by due time and then by scheduling order, across all views', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(20), fc.nat(2), fc.boolean()), { maxLength: 60, size: 'max' }),
      async (events) => {
        const time = new VirtualClock()
        const views = [time.view(), time.view({ skewMs: 5000 }), time.view({ skewMs: -5000 })]
        const ran: number[] = []
        const cancels = events.map(([dueMs, view], sequence) => views[view]?.schedule(dueMs, () => ran.push(sequence)))
        for (const [sequence, [, , cancelled]] of events.entries()) if (cancelled) cancels[sequence]?.()
        await time.advance(20)
        const expected = events
          .map(([dueMs, , cancelled], sequence) => ({ dueMs, cancelled, sequence }))
          .filter(({ cancelled }) => !cancelled)
          .sort((a, b) => a.dueMs - b.dueMs || a.sequence - b.sequence)
        assert.deepEqual(
          ran,
          expected.map(({ sequence }) => sequence),
        )
      },
    ),
    { numRuns: 100 },
  )
})

test('all promises that an event settles, however long the chain, are settled before the next event of the same instant', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const log: string[] = []
  clock.schedule(5, () => {
    const chain = async (): Promise<void> => {
      for (let i = 0; i < 200; i++) await undefined
      log.push('first is over')
    }
    void chain()
  })
  clock.schedule(5, () => log.push('second begins'))
  await time.advance(5)
  assert.deepEqual(log, ['first is over', 'second begins'])
})

test('a function called just before an advance schedules its timers in time for that advance', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const work = (async () => {
    await undefined
    await sleep(clock, 3)
    await sleep(clock, 4)
    return time.nowMs
  })()
  await time.advance(100)
  assert.equal(await work, 7)
})

test('an advance by zero runs what is due now', async () => {
  const time = new VirtualClock()
  let ran = false
  time.view().schedule(0, () => {
    ran = true
  })
  await time.advance(0)
  assert.equal(ran, true)
})

test('a skewed view differs only in wall time, and its skew can change', async () => {
  const time = new VirtualClock({ startWallMs: 50_000 })
  const clock = time.view({ skewMs: -2000 })
  const monotonicMs = clock.monotonicMs()
  assert.equal(clock.wallMs(), 48_000)
  clock.setSkew(3000)
  assert.equal(clock.wallMs(), 53_000)
  assert.equal(clock.monotonicMs(), monotonicMs)
})

test('the monotonic times of two views are unrelated', () => {
  const time = new VirtualClock()
  assert.notEqual(time.view().monotonicMs(), time.view().monotonicMs())
})

test('a frozen process runs nothing while time passes, and runs all overdue callbacks in order when it is thawed', async () => {
  const time = new VirtualClock()
  const frozen = time.view()
  const other = time.view()
  const log: string[] = []
  frozen.schedule(10, () => log.push(`b at ${time.nowMs}`))
  frozen.schedule(5, () => log.push(`a at ${time.nowMs}`))
  frozen.schedule(90, () => log.push(`c at ${time.nowMs}`))
  other.schedule(10, () => log.push(`other at ${time.nowMs}`))
  const monotonicMs = frozen.monotonicMs()
  frozen.freeze()
  await time.advance(50)
  assert.deepEqual(log, ['other at 10'])
  assert.equal(frozen.monotonicMs() - monotonicMs, 50)
  frozen.thaw()
  assert.equal(frozen.frozen, false)
  await time.advance(50)
  assert.deepEqual(log, ['other at 10', 'a at 50', 'b at 50', 'c at 90'])
})

test('a process that is frozen again before its turn runs its overdue callbacks in order after the next thaw', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const log: string[] = []
  clock.schedule(1, () => log.push('a'))
  clock.schedule(2, () => log.push('b'))
  clock.freeze()
  await time.advance(5)
  clock.thaw()
  clock.freeze()
  await time.advance(5)
  assert.deepEqual(log, [])
  clock.thaw()
  await time.advance(0)
  assert.deepEqual(log, ['a', 'b'])
})

test('a callback that is cancelled while its process is frozen does not run after the thaw', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  let ran = false
  const cancel = clock.schedule(1, () => {
    ran = true
  })
  clock.freeze()
  await time.advance(2)
  cancel()
  clock.thaw()
  await time.advance(2)
  assert.equal(ran, false)
})

test('runUntil stops at the event that makes the predicate true', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  let count = 0
  const tick = (): void => {
    count++
    clock.schedule(10, tick)
  }
  clock.schedule(10, tick)
  assert.equal(await time.runUntil(() => count === 3, 1000), true)
  assert.equal(time.nowMs, 30)
})

test('runUntil gives up at its limit, after a last check of the predicate', async () => {
  const time = new VirtualClock()
  assert.equal(await time.runUntil(() => false, 40), false)
  assert.equal(time.nowMs, 40)
  assert.equal(await time.runUntil(() => time.nowMs === 50, 10), true)
})

test('runUntil lets no time pass if the predicate already holds', async () => {
  const time = new VirtualClock()
  time.view().schedule(0, () => assert.fail('no callback may run'))
  assert.equal(await time.runUntil(() => true, 10), true)
  assert.equal(time.nowMs, 0)
})

test('an error thrown by a callback rejects the advance, and a later advance continues from there', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  let ran = false
  clock.schedule(5, () => {
    throw new Error('broken')
  })
  clock.schedule(6, () => {
    ran = true
  })
  await assert.rejects(time.advance(10), /broken/)
  assert.equal(time.nowMs, 5)
  await time.advance(10)
  assert.equal(ran, true)
})

test('an advance rejects when a program schedules endlessly at one instant', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const spin = (): void => void clock.schedule(0, spin)
  spin()
  await assert.rejects(time.advance(1), /more than 10000 events at 0 ms/)
})

test('ten thousand events at one instant are allowed', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  let count = 0
  for (let i = 0; i < 10_000; i++) clock.schedule(7, () => count++)
  await time.advance(7)
  assert.equal(count, 10_000)
})

test('only one advance can run at a time, and only by a finite time that is not negative', async () => {
  const time = new VirtualClock()
  const first = time.advance(1)
  await assert.rejects(time.advance(1), /already being advanced/)
  await first
  for (const ms of [-1, Number.NaN, Infinity]) await assert.rejects(time.advance(ms), RangeError)
})

test('a view counts its pending callbacks and subtracts a cancelled one only once', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const other = time.view()
  const cancel = clock.schedule(10, () => {})
  clock.schedule(20, () => {})
  other.schedule(20, () => {})
  assert.deepEqual([clock.timers, other.timers], [2, 1])
  cancel()
  cancel()
  assert.equal(clock.timers, 1)
  clock.freeze()
  await time.advance(30)
  assert.deepEqual([clock.timers, other.timers], [1, 0])
  clock.thaw()
  await time.advance(0)
  assert.equal(clock.timers, 0)
  cancel()
  assert.equal(clock.timers, 0)
  clock.schedule(1, () => {
    throw new Error('thrown')
  })
  await assert.rejects(time.advance(1), /thrown/)
  assert.equal(clock.timers, 0)
})

test('a program that waits for process.nextTick continues before the next event', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  const log: string[] = []
  const program = async (): Promise<void> => {
    await sleep(clock, 5)
    await new Promise<void>((resolve) => process.nextTick(resolve))
    log.push(`went on at ${time.nowMs}`)
  }
  const done = program()
  clock.schedule(6, () => void log.push('next event'))
  await time.advance(10)
  await done
  assert.deepEqual(log, ['went on at 5', 'next event'])
})
