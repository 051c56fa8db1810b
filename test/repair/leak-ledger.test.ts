import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bitmap } from '../../src/net/bitmap.ts'
import { type LeakLedger, noLeaks, ripeLeaks, seenByPass, stillTaken } from '../../src/repair/leak-ledger.ts'

const size = 16
const bits = (...numbers: readonly number[]): Bitmap => {
  const bitmap = new Bitmap(size)
  for (const number of numbers) bitmap.add(number)
  return bitmap
}

/** Sees the same numbers at each of these times. */
function seen(times: readonly number[], ...numbers: readonly number[]): LeakLedger {
  return times.reduce((ledger, nowMs) => seenByPass(ledger, bits(...numbers), nowMs), noLeaks)
}

const ripe = (ledger: LeakLedger, nowMs: number): readonly number[] => [...ripeLeaks(ledger, size, nowMs)]

test('a leak is ripe in the third pass that sees it', () => {
  assert.deepEqual(ripe(seen([0, 180_000], 3), 180_000), [])
  assert.deepEqual(ripe(seen([0, 180_000, 360_000], 3), 360_000), [3])
})

test('a leak is not ripe before two minutes', () => {
  const ledger = seen([0, 10_000, 20_000, 30_000], 3)
  assert.deepEqual(ripe(ledger, 119_999), [])
  assert.deepEqual(ripe(ledger, 120_000), [3])
})

test('each number has its own time', () => {
  let ledger = seen([0, 60_000], 3)
  ledger = seenByPass(ledger, bits(3, 4), 120_000)
  assert.deepEqual(ripe(ledger, 120_000), [3])
  ledger = seenByPass(ledger, bits(3, 4), 180_000)
  ledger = seenByPass(ledger, bits(3, 4), 240_000)
  assert.deepEqual(ripe(ledger, 240_000), [3, 4])
})

test('what a pass does not see begins anew', () => {
  let ledger = seen([0, 60_000], 3, 4)
  ledger = seenByPass(ledger, bits(4), 120_000)
  ledger = seenByPass(ledger, bits(3, 4), 180_000)
  assert.deepEqual(ripe(ledger, 180_000), [4])
})

test('what was given back in between begins anew', () => {
  let ledger = seen([0, 60_000], 3, 4)
  ledger = stillTaken(stillTaken(ledger, bits(4, 5)), bits(3, 4))
  ledger = seenByPass(ledger, bits(3, 4), 180_000)
  assert.deepEqual(ripe(ledger, 400_000), [4])
})

test('what nobody may free does not make the ledger grow', () => {
  let ledger = noLeaks
  for (let pass = 0; pass < 50; pass++) {
    const numbers = Array.from({ length: Math.min(pass, size) }, (_, i) => i)
    ledger = seenByPass(ledger, bits(...numbers), pass * 60_000)
  }
  assert.equal(ledger.length, 1)
  assert.equal(ripe(ledger, 50 * 60_000).length, size)
})

test('the numbers that are given are not changed', () => {
  const given = bits(3)
  const ledger = seenByPass(seenByPass(noLeaks, given, 0), given, 1)
  stillTaken(ledger, bits())
  assert.deepEqual([...given], [3])
  assert.deepEqual([...(ledger[0]?.numbers ?? [])], [3])
})
