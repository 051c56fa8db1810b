import assert from 'node:assert/strict'
import { test } from 'node:test'
import { wakeAtMs } from '../../../src/kubernetes-service/membership/step.ts'
import { type Facts, holder, leaseOf, leaving, master, NOW, phases, self, timings } from './one-input.ts'

const departure = { id: 'life-2/1', isStop: false, seenAtMs: 99_000 }
const missing = { lease: leaseOf(holder(2)), sinceAtMs: 98_000, provedAtMs: 99_900 }
const recovering = { type: 'recovering', untilAtMs: 100_100, isNew: true } as const

for (const [what, facts, expectedMs] of [
  ['renews its lease', {}, 105_000],
  ['repeats a request', { lease: { retryAtMs: 100_020 } }, 100_020],
  ['repeats a read', { fleet: { retryAtMs: 100_050 } }, 100_050],
  ['ends its recovery', { lease: { trust: recovering } }, 100_100],
  ['removes a master whose lease has ended', { fleet: { missing: [missing] } }, 99_900 + timings.removalMarginMs],
  ['confirms a departure', { fleet: { departures: [departure] }, server: { readySinceAtMs: 94_000 } }, 101_000],
  ['probes its failing server', { self: { ...self, state: 'failing' }, server: { serving: false } }, 104_000],
  ['probes its server while its lease is missing', { lease: { missing: true }, server: { serving: false } }, NOW],
  ['joins after a failure', { phase: phases.joining, lease: { retryAtMs: 100_004 } }, 100_000],
  [
    'leaves without a confirmation',
    { phase: leaving({ type: 'waiting', sinceAtMs: 99_000, untilAtMs: 100_300 }), fleet: { readAtMs: 99_900 } },
    100_300,
  ],
  [
    'reads the confirmations of its departure',
    { phase: leaving({ type: 'waiting', sinceAtMs: 99_000, untilAtMs: 103_000 }), fleet: { readAtMs: 99_900 } },
    100_400,
  ],
] as const satisfies readonly (readonly [string, Facts, number])[]) {
  test(`without another input a master ${what} in time`, () => {
    assert.equal(wakeAtMs(master(facts as Facts), NOW - 1, timings), expectedMs)
  })
}
