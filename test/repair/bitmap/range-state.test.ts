import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bitmap } from '../../../src/net/bitmap.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { type BitmapRange, nodePortClaims } from '../../../src/repair/bitmap/claims.ts'
import { RangeState, RecentlySet } from '../../../src/repair/bitmap/range-state.ts'
import type { StoredRange } from '../../../src/repair/registries/range-registry.ts'
import { MAX_STORE_DELAY_MS } from '../../../src/repair/repair.ts'
import { RepairMetrics } from '../../../src/repair/reporter.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'

function start() {
  const time = new VirtualClock()
  const claims = nodePortClaims(parsePortRange('30000-30015'))
  const state = new RangeState({
    range: claims.ranges[0] as BitmapRange,
    claims,
    where: 'here',
    adopt: false,
    metrics: new RepairMetrics({ kind: 'node-port', metrics: prometheusMetrics(), clock: time.view() }),
    clock: time.view(),
  })
  let revision = 0n
  const stored = (bits: number) =>
    ({
      type: 'range',
      range: '30000-30015',
      data: new Uint8Array([bits]),
      revision: ++revision,
    }) as unknown as StoredRange
  return { time, state, stored }
}

test('a cleared number is left to its server for exactly 250 ms', async () => {
  const { time, state, stored } = start()
  state.watched(stored(0b110))
  assert.deepEqual([state.released(), state.releasedMs], [undefined, undefined])
  state.watched(stored(0b100))
  await time.advance(249)
  assert.deepEqual([...(state.released() ?? [])], [1])
  assert.equal(state.releasedMs, 1)
  await time.advance(1)
  assert.deepEqual([state.released(), state.releasedMs], [undefined, undefined])
})

test('if numbers are cleared one after another, the last one decides when the wait ends', async () => {
  const { time, state, stored } = start()
  state.watched(stored(0b110))
  state.watched(stored(0b100))
  await time.advance(200)
  state.watched(stored(0))
  assert.equal(state.releasedMs, 250)
  await time.advance(100)
  assert.deepEqual([[...(state.released() ?? [])], state.releasedMs], [[2], 150])
})

test('an answer from before an interruption of the watch is no longer up to date', () => {
  const { state, stored } = start()
  const first = stored(0b1)
  state.watched(first)
  const { watchEvents: eventsBefore } = state
  assert.ok(state.upToDate(first))
  state.interrupted()
  assert.notEqual(state.watchEvents, eventsBefore)
  assert.ok(state.outdated && !state.upToDate(first))
})

function bits(...numbers: readonly number[]): Bitmap {
  const bitmap = new Bitmap(16)
  for (const number of numbers) bitmap.add(number)
  return bitmap
}

test('of several numbers without a Service, the first that may be released decides when to check again', () => {
  const own = new RecentlySet(16)
  own.setting(bits(1))
  own.wereSet(0)
  assert.equal(own.unheld(bits(), 0).inMs, 2_000)
  own.setting(bits(2))
  own.wereSet(500)
  assert.equal(own.unheld(bits(), 500).inMs, 1_500)
  const { due, inMs } = own.unheld(bits(), 2_000)
  assert.deepEqual([[...due], inMs], [[1], 500])
})

test('an older state that the watch delivers during a write does not mark the number of that write as cleared', () => {
  const own = new RecentlySet(16)
  own.setting(bits(1, 2))
  own.still(bits(2))
  own.still(bits(1, 2))
  own.still(bits(1))
  own.wereSet(0)
  own.unheld(bits(), 0)
  assert.deepEqual([...own.unheld(bits(), 2_000).due], [1])
})

test('a set number that a Service held for longer than MAX_STORE_DELAY_MS is left to its server to release', () => {
  for (const [heldMs, due] of [
    [MAX_STORE_DELAY_MS, [1]],
    [MAX_STORE_DELAY_MS + 1, []],
  ] as const) {
    const own = new RecentlySet(16)
    own.setting(bits(1))
    own.wereSet(0)
    own.unheld(bits(1), heldMs)
    own.unheld(bits(), heldMs + 1)
    assert.deepEqual([...own.unheld(bits(), heldMs + 10_000).due], due)
  }
})
