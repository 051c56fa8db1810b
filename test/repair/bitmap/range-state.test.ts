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

test('what was cleared is left to its server for 250 ms, to the millisecond', async () => {
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

test('of numbers that were cleared one after the other the last decides when none is left to its server', async () => {
  const { time, state, stored } = start()
  state.watched(stored(0b110))
  state.watched(stored(0b100))
  await time.advance(200)
  state.watched(stored(0))
  assert.equal(state.releasedMs, 250)
  await time.advance(100)
  assert.deepEqual([[...(state.released() ?? [])], state.releasedMs], [[2], 150])
})

test('an answer that was under way while states may have been missed is not taken for the newest', () => {
  const { state, stored } = start()
  const first = stored(0b1)
  state.watched(first)
  const { watchEvents: news } = state
  assert.ok(state.upToDate(first))
  state.interrupted()
  assert.notEqual(state.watchEvents, news)
  assert.ok(state.outdated && !state.upToDate(first))
})

function bits(...numbers: readonly number[]): Bitmap {
  const bitmap = new Bitmap(16)
  for (const number of numbers) bitmap.add(number)
  return bitmap
}

test('of numbers that nobody holds the first that may be given back decides when to return', () => {
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

test('a state from before the write that sets a number, told of while it is under way, does not say that the number was cleared', () => {
  const own = new RecentlySet(16)
  own.setting(bits(1, 2))
  own.still(bits(2))
  own.still(bits(1, 2))
  own.still(bits(1))
  own.wereSet(0)
  own.unheld(bits(), 0)
  assert.deepEqual([...own.unheld(bits(), 2_000).due], [1])
})

test('a number that a Service has held for longer than a server takes to store it is released by its server alone', () => {
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
