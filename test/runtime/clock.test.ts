import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Clock, every, sleep } from '../../src/runtime/clock.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

// The contract of Clock, on both of its adapters. `pass` lets at least that much time go by.
for (const [name, setUp] of [
  ['the system clock', () => ({ clock: systemClock, pass: (ms: number) => sleep(systemClock, ms) })],
  [
    'a view of the virtual clock',
    () => {
      const time = new VirtualClock()
      return { clock: time.view() as Clock, pass: (ms: number) => time.advance(ms) }
    },
  ],
] as const) {
  test(`${name} runs a callback once, after its delay and not before`, async () => {
    const { clock, pass } = setUp()
    const dueMs = clock.monotonicMs() + 5
    const ranAtMs: number[] = []
    clock.schedule(5, () => ranAtMs.push(clock.monotonicMs()))
    await pass(30)
    assert.equal(ranAtMs.length, 1)
    assert.ok((ranAtMs[0] as number) >= dueMs, `${ranAtMs[0]} is before ${dueMs}`)
  })

  test(`${name} never runs a callback inside schedule, even with a delay of zero or less`, async () => {
    const { clock, pass } = setUp()
    for (const delayMs of [0, -1, -Infinity]) {
      let ran = false
      clock.schedule(delayMs, () => {
        ran = true
      })
      assert.equal(ran, false)
      await pass(5)
      assert.equal(ran, true, `delay ${delayMs}`)
    }
  })

  test(`${name} runs callbacks in order of their due times`, async () => {
    const { clock, pass } = setUp()
    const order: string[] = []
    clock.schedule(20, () => order.push('late'))
    clock.schedule(1, () => order.push('early'))
    await pass(40)
    assert.deepEqual(order, ['early', 'late'])
  })

  test(`${name} does not run a cancelled callback; a late or repeated cancel is harmless`, async () => {
    const { clock, pass } = setUp()
    let runs = 0
    const cancelEarly = clock.schedule(2, () => runs++)
    const cancelLate = clock.schedule(1, () => runs++)
    cancelEarly()
    cancelEarly()
    await pass(20)
    cancelLate()
    assert.equal(runs, 1)
  })

  test(`${name} does not run a callback with an infinite delay, and rejects a delay of NaN`, async () => {
    const { clock, pass } = setUp()
    let ran = false
    const cancel = clock.schedule(Infinity, () => {
      ran = true
    })
    await pass(5)
    cancel()
    assert.equal(ran, false)
    assert.throws(() => clock.schedule(Number.NaN, () => {}), RangeError)
  })

  test(`${name} ends a sleep at once when its signal is aborted`, async () => {
    const { clock, pass } = setUp()
    const controller = new AbortController()
    const asleep = sleep(clock, 60_000, controller.signal)
    controller.abort(new Error('enough'))
    await assert.rejects(asleep, /enough/)
    await assert.rejects(sleep(clock, 0, controller.signal), /enough/)
    await pass(1)
  })
}

test('a callback that is called periodically may end that itself', async () => {
  const time = new VirtualClock()
  const clock = time.view()
  let calls = 0
  const cancel = every(clock, 1000, () => {
    if (++calls === 2) cancel()
  })
  await time.advance(10_000)
  assert.deepEqual([calls, clock.timers], [2, 0])
})

test('the system clock does not run a callback at once if its delay overflows setTimeout', async () => {
  let ran = false
  const cancel = systemClock.schedule(2 ** 31, () => {
    ran = true
  })
  await sleep(systemClock, 20)
  cancel()
  assert.equal(ran, false)
})

test('the system clock does not run a callback when its timer fires too early', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let ran = false
  const cancel = systemClock.schedule(60_000, () => {
    ran = true
  })
  t.mock.timers.tick(60_000)
  cancel()
  assert.equal(ran, false)
})

test('the system clock returns the current wall time', () => {
  assert.ok(Math.abs(systemClock.wallMs() - Date.now()) < 1000)
})
