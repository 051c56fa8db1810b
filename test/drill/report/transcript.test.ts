import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { DrillEvent } from '../../../src/drill/event.ts'
import { renderTranscript, Transcript } from '../../../src/drill/report/transcript.ts'
import { address, begin, dead, frozen, leases, refused, slice, sliceGone, state, step, write } from './histories.ts'

const render = (...events: readonly DrillEvent[]): readonly string[] =>
  renderTranscript({ seed: 1, violations: [], events }).split('\n')

test('a transcript has one line in columns for each change, step and violation', () => {
  const events = [
    ...[...begin(3), leases(-10, [1, 2, 3])],
    ...[step(5000, 'kill', [2]), state(5000, 2, dead), write(5001, 1)],
    { atMs: 5000, type: 'served', count: 80 } as const,
    leases(14_950.25, [1, 3]),
    { ...slice(14_968.666, [1, 3]), object: 'endpoints' } as DrillEvent,
    slice(14_972.6, [1, 3]),
    { atMs: 99_000, type: 'violation', invariant: 'live-master-listed', detail: 'master-2' } as const,
    state(100_000, 2),
  ]
  assert.deepEqual(render(...events), [
    '   +0.000s  start     192.0.2.1 192.0.2.2 192.0.2.3 listed',
    '   +5.000s  step      kill master-2',
    '   +5.000s  state     master-2: sidecar down, server down, clients refused, does not renew, not healthy',
    '  +14.950s  leases    192.0.2.1 192.0.2.3  (-192.0.2.2)',
    '  +14.969s  endpoints 192.0.2.1 192.0.2.3  (by master-1)',
    '  +14.973s  slice     192.0.2.1 192.0.2.3  (-192.0.2.2, by master-1)',
    '  +99.000s  violated  live-master-listed: master-2',
    ' +100.000s  state     master-2: sidecar running, server ready, clients served, renews, healthy',
    '',
  ])
})

test('the first line covers every list and state at time 0', () => {
  const lines = render(state(-1, 1), slice(-1, [1]), state(-1, 2), slice(0, [1, 2]), state(0, 2), step(0, 'kill', [1]))
  assert.deepEqual(lines, [
    '   +0.000s  start     192.0.2.1 192.0.2.2 listed',
    '   +0.000s  step      kill master-1',
    '',
  ])
})

test('the first line states that nobody is listed at time 0', () => {
  assert.deepEqual(render(state(-1, 1), step(5, 'compact', [])).slice(0, 1), ['   +0.000s  start     nobody listed'])
})

test('a list line shows the writer, and the difference if an address stays; an empty list differs from a deleted one', () => {
  const changes = [slice(1000, [2, 3]), slice(1500, [4]), sliceGone(2000), slice(3000, []), slice(3500, [1, 2])]
  const lines = render(...begin(2), ...changes, leases(4000, []))
  assert.deepEqual(lines.slice(1, -1), [
    '   +1.000s  slice     192.0.2.2 192.0.2.3  (-192.0.2.1 +192.0.2.3, by master-1)',
    '   +1.500s  slice     192.0.2.4  (by master-1)',
    '   +2.000s  slice     gone  (by damage)',
    '   +3.000s  slice     nobody  (by master-1)',
    '   +3.500s  slice     192.0.2.1 192.0.2.2  (by master-1)',
    '   +4.000s  leases    nobody',
  ])
})

test('the loss of one of two leases for the same address is shown', () => {
  const lines = render(...begin(1), leases(-1, [1, 1]), leases(1000, [1]))
  assert.equal(lines[1], '   +1.000s  leases    192.0.2.1  (-192.0.2.1)')
})

test('the line of a new master shows its whole state, that of a known master only what changed', () => {
  const lines = render(...begin(1), state(1000, 2), state(2000, 1, { address: address(9) }), state(3000, 2, frozen))
  assert.deepEqual(lines.slice(1, -1), [
    '   +1.000s  state     master-2: 192.0.2.2, sidecar running, server ready, clients served, renews, healthy',
    '   +2.000s  state     master-1: 192.0.2.9',
    '   +3.000s  state     master-2: sidecar frozen, server silent, clients black-holed, does not renew, not healthy',
  ])
})

test('failed connections share one line per second and address, unless another line comes between', () => {
  const nobody = { ...refused(1500, 1), address: '', outcome: 'nobody' } as DrillEvent
  const silent = { ...refused(1200, 3), outcome: 'black-holed' } as DrillEvent
  const lines = render(
    ...[...begin(3), refused(-5, 2)],
    ...[refused(1100, 2), silent, refused(1300, 2), write(1301, 1), nobody, refused(1999, 2)],
    ...[refused(2000, 2), slice(2500, [1, 3]), refused(2501, 2), refused(2502, 2)],
  )
  assert.deepEqual(lines.slice(1, -1), [
    '   +1.100s  clients   3 refused by 192.0.2.2',
    '   +1.200s  clients   1 black-holed at 192.0.2.3',
    '   +1.500s  clients   1 with no address',
    '   +2.000s  clients   1 refused by 192.0.2.2',
    '   +2.500s  slice     192.0.2.1 192.0.2.3  (-192.0.2.2, by master-1)',
    '   +2.501s  clients   2 refused by 192.0.2.2',
  ])
})

test('a connection that is reported late gets the time of the line before it', () => {
  const late = { ...refused(1000, 3), outcome: 'black-holed' } as DrillEvent
  assert.deepEqual(
    render(...begin(3), refused(3100, 2), late, refused(3200, 2), step(3300, 'compact', [])).slice(1, -1),
    [
      '   +3.100s  clients   2 refused by 192.0.2.2',
      '   +3.100s  clients   1 black-holed at 192.0.2.3',
      '   +3.300s  step      compact',
    ],
  )
})

test('the first list of leases is shown without additions', () => {
  assert.deepEqual(render(...begin(1), leases(1000, [1])).slice(1, -1), ['   +1.000s  leases    192.0.2.1'])
})

test('a run without stored events has no transcript', () => {
  assert.equal(renderTranscript({ seed: 1, violations: [], events: undefined }), '')
})

const happenings = fc
  .array(
    fc.tuple(
      fc.integer({ min: -2000, max: 5000 }),
      fc.constantFrom<(atMs: number) => DrillEvent>(
        (atMs) => refused(atMs, 1),
        (atMs) => refused(atMs, 2),
        (atMs) => write(atMs, 1),
        (atMs) => ({ atMs, type: 'served', count: 3 }),
        (atMs) => step(atMs, 'compact', []),
      ),
    ),
    { maxLength: 60, size: 'max' },
  )
  .map((all) => all.toSorted(([a], [b]) => a - b).map(([atMs, make]) => make(atMs)))

test('a streamed transcript has the same lines as the whole one, in time order', () => {
  fc.assert(
    fc.property(happenings, (events) => {
      const transcript = new Transcript()
      const lines: string[] = []
      let failed = 0
      for (const [index, event] of events.entries()) {
        lines.push(...transcript.take(event))
        if (event.type === 'connection' && event.atMs >= 0) failed++
        const counted = lines.reduce((sum, line) => sum + Number(/clients +(\d+)/.exec(line)?.[1] ?? 0), 0)
        const recent = events
          .slice(0, index + 1)
          .filter((one) => one.type === 'connection' && one.atMs > event.atMs - 1000 && one.atMs >= 0)
        assert.ok(failed - counted <= recent.length)
      }
      lines.push(...transcript.end())
      assert.equal(lines.map((line) => `${line}\n`).join(''), renderTranscript({ seed: 1, violations: [], events }))
      const times = lines.map((line) => Number.parseFloat(line.trim()))
      assert.deepEqual(
        times,
        times.toSorted((a, b) => a - b),
      )
      assert.deepEqual(transcript.end(), [])
    }),
  )
})
