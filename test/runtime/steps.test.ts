import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce, inSlices, type Steps } from '../../src/runtime/steps.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { longestWithoutPause, workingClock } from './working-clock.ts'

function* sumTo(limit: number, onStep: (step: number) => void = () => {}): Steps<number> {
  let sum = 0
  for (let step = 1; step <= limit; step++) {
    onStep(step)
    sum += step
    yield
  }
  return sum
}

test('atOnce executes all steps in one call', () => {
  assert.equal(atOnce(sumTo(1_000)), 500_500)
})

test('inSlices finishes a short computation before it returns', () => {
  const time = new VirtualClock()
  assert.equal(inSlices(time.view(), sumTo(1_000)), 500_500)
})

test('inSlices interrupts a long computation at least every 15 ms', async () => {
  const time = new VirtualClock()
  const { clock, worked } = workingClock(time)
  let step = 0
  const longest = longestWithoutPause(time, () => step)
  const ended = inSlices(
    clock,
    sumTo(1_000, (at) => {
      step = at
      worked(0.1)
    }),
  )
  await time.advance(10)
  assert.equal(await ended, 500_500)
  assert.ok(longest() > 0 && longest() <= 150, `${longest()} steps of 0.1 ms without a pause`)
})

test('inSlices interrupts a computation with steps of 3 ms at least every 15 ms too', async () => {
  const time = new VirtualClock()
  const { clock, worked } = workingClock(time)
  let step = 0
  const longest = longestWithoutPause(time, () => step)
  const ended = inSlices(
    clock,
    sumTo(100, (at) => {
      step = at
      worked(3)
    }),
  )
  await time.advance(1_000)
  await ended
  assert.ok(longest() > 0 && longest() <= 5, `${longest()} steps of 3 ms without a pause`)
})

test('an error in a later slice rejects the promise of inSlices', async () => {
  const time = new VirtualClock()
  const { clock, worked } = workingClock(time)
  const ended = Promise.resolve(
    inSlices(
      clock,
      sumTo(1_000, (step) => {
        if (step === 900) throw new Error('broken')
        worked(0.1)
      }),
    ),
  )
  const rejected = assert.rejects(ended, /broken/)
  await time.advance(10)
  await rejected
})
