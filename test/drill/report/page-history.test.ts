import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DrillEvent } from '../../../src/drill/event.ts'
import { binned, binWidth, readHistory, type Span } from '../../../src/drill/report/page/history.ts'
import { count, seconds, share } from '../../../src/drill/report/page/html.ts'
import { begin, dead, frozen, leases, slice, state, step } from './histories.ts'

const texts = (spans: readonly Span[] = []): readonly string[] =>
  spans.map(({ fromMs, toMs, state: how }) => `${how} ${fromMs} to ${toMs}`)

const listedAlone: DrillEvent = {
  atMs: 0,
  type: 'listed',
  object: 'slice',
  addresses: ['192.0.2.9'],
  by: undefined,
  damage: false,
}

test('the history of a master consists of spans, and a listed master that is dead has its own state', () => {
  const { masters } = readHistory(
    [...begin(2), leases(-5, [1, 2]), state(5000, 2, dead), leases(14_000, [1]), slice(15_000, [1])],
    60_000,
  )
  const [first, second] = masters
  assert.deepEqual(texts(first?.tracks.slice), ['listed 0 to 60000'])
  assert.deepEqual(texts(second?.tracks.server), ['ready 0 to 5000', 'down 5000 to 60000'])
  assert.deepEqual(texts(second?.tracks.clients), ['served 0 to 5000', 'refused 5000 to 60000'])
  assert.deepEqual(texts(second?.tracks.slice), ['listed 0 to 5000', 'dead 5000 to 15000'])
  assert.deepEqual(texts(second?.tracks.lease), ['held 0 to 14000'])
})

test('a shared address counts as listed only for the masters that serve, and as dead for the last of them', () => {
  const shared = { address: '192.0.2.9' }
  const events: DrillEvent[] = [state(-10, 1, shared), state(-10, 2, shared)]
  const { masters } = readHistory(
    [...events, listedAlone, state(5000, 2, { ...dead, ...shared }), state(9000, 1, { ...dead, ...shared })],
    10_000,
  )
  assert.deepEqual(texts(masters[0]?.tracks.slice), ['listed 0 to 9000', 'dead 9000 to 10000'])
  assert.deepEqual(texts(masters[1]?.tracks.slice), ['listed 0 to 5000'])
})

test('a frozen master behind a shared address counts as dead and listed only while no other master serves there', () => {
  const shared = { address: '192.0.2.9' }
  const { masters } = readHistory(
    [
      ...[state(-10, 1, shared), state(-10, 2, shared), listedAlone],
      ...[state(5000, 2, { ...frozen, ...shared }), state(9000, 1, { ...frozen, ...shared })],
    ],
    10_000,
  )
  assert.deepEqual(texts(masters[0]?.tracks.slice), ['listed 0 to 9000', 'dead 9000 to 10000'])
  assert.deepEqual(texts(masters[1]?.tracks.slice), ['listed 0 to 5000', 'dead 9000 to 10000'])
})

test('an address that belongs to no master has a lane of its own', () => {
  const { unownedAddresses } = readHistory([...begin(2), slice(1000, [1, 2, 7]), slice(3000, [1, 2])], 10_000)
  assert.deepEqual(
    unownedAddresses.map(({ address, slice: spans }) => [address, ...texts(spans)]),
    [['192.0.2.7', 'listed 1000 to 3000']],
  )
})

test('events before time 0 are left out, and the history ends at its last event', () => {
  const write: DrillEvent = { atMs: -50, type: 'write', master: 'master-1', method: 'POST', path: '/' }
  const { untilMs, occurrences, steps } = readHistory(
    [write, ...begin(1), { ...write, atMs: 900 }, step(2500, 'kill', [1])],
    2000,
  )
  assert.equal(untilMs, 2500)
  assert.equal(
    occurrences.counts.reduce((sum, one) => sum + one.write, 0),
    1,
  )
  assert.equal(steps.length, 1)
})

test('events are counted in at most 120 bins of equal width', () => {
  assert.deepEqual(
    [1_000, 12_000, 60_000, 90_000, 600_000, 86_400_000].map(binWidth),
    [100, 100, 500, 1000, 5000, 720_000],
  )
  const bins = binned(
    ['a', 'b'],
    [
      { atMs: 0, kind: 'a' },
      { atMs: 1999, kind: 'b' },
      { atMs: 12_000, kind: 'a' },
    ],
    12_000,
  )
  assert.equal(bins.counts.length, 120)
  assert.deepEqual(
    [bins.counts[0], bins.counts[19], bins.counts[119]],
    [
      { a: 1, b: 0 },
      { a: 0, b: 1 },
      { a: 1, b: 0 },
    ],
  )
})

test('times, counts and shares each have one number format', () => {
  assert.deepEqual([17_734.4, 0, -0.2, -1500, undefined].map(seconds), [
    '17.734\u00A0s',
    '0.000\u00A0s',
    '0.000\u00A0s',
    '\u22121.500\u00A0s',
    '–',
  ])
  assert.deepEqual([0, 999, 1000, 1_234_567, -4200].map(count), ['0', '999', '1,000', '1,234,567', '\u22124,200'])
  assert.deepEqual([0, 0.00004, 1].map(share), ['0.000\u00A0%', '0.004\u00A0%', '100.000\u00A0%'])
})
