import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mastersRows } from '../../src/commands/masters-rows.ts'
import type { LeaseLife, LeaseSighting } from '../../src/kubernetes-service/leases/inspect.ts'
import type { Verdict } from '../../src/kubernetes-service/leases/lease-watch.ts'
import type { Holder, HolderState } from '../../src/kubernetes-service/leases/master-leases.ts'

const nowMs = Date.UTC(2026, 0, 1, 0, 1)
const ends: LeaseLife = { type: 'ends', leftMs: 9_000 }

function holder(address: string, host: string, state: HolderState = 'ready'): Holder {
  return {
    instanceId: `id of ${host}`,
    host,
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses: [address],
    ports: { securePort: 6443, nodePort: 0 },
    state,
  }
}

function sighting(address: string, holders: readonly Holder[], more: Partial<LeaseSighting> = {}): LeaseSighting {
  return { id: `/leases/${address}`, revision: '7', address, holders, life: ends, leased: true, odd: [], ...more }
}

/** Address, host and the codes of what does not fit. */
function rows(sightings: readonly LeaseSighting[], listed: readonly string[] | undefined, verdict?: Verdict) {
  const judge = (one: LeaseSighting): Verdict => verdict ?? (one.life.type === 'never' ? 'stale' : 'live')
  return mastersRows({ sightings, listed, verdict: judge, nowMs }).map(({ address, holder: held, conflicts }) => [
    address,
    held?.host,
    ...conflicts.map(({ code }) => code),
  ])
}

test('masters that live and are listed have no conflicts, and come by address and host', () => {
  const [b, a] = [sighting('192.0.2.2', [holder('192.0.2.2', 'b')]), sighting('192.0.2.1', [holder('192.0.2.1', 'a')])]
  assert.deepEqual(rows([b, a], ['192.0.2.1', '192.0.2.2']), [
    ['192.0.2.1', 'a'],
    ['192.0.2.2', 'b'],
  ])
  const [row] = mastersRows({ sightings: [a], listed: ['192.0.2.1'], verdict: () => 'live', nowMs })
  assert.deepEqual(row, {
    address: '192.0.2.1',
    holder: a.holders[0],
    ageMs: 60_000,
    life: ends,
    verdict: 'live',
    leased: true,
    listed: true,
    conflicts: [],
    id: '/leases/192.0.2.1',
    revision: '7',
  })
})

test('two hosts at one address are told on both rows, whether they share a lease or have one each', () => {
  const [a, b] = [holder('192.0.2.1', 'a'), holder('192.0.2.1', 'b')]
  const expected = [
    ['192.0.2.1', 'a', 'shared-address'],
    ['192.0.2.1', 'b', 'shared-address'],
  ]
  assert.deepEqual(rows([sighting('192.0.2.1', [a, b])], ['192.0.2.1']), expected)
  assert.deepEqual(rows([sighting('192.0.2.1', [a]), sighting('192.0.2.1', [b])], ['192.0.2.1']), expected)
})

test('what does not fit is named: no record, no lease, no end, no renewal, an odd value', () => {
  const listed = ['192.0.2.1']
  const own = [holder('192.0.2.1', 'a')]
  const table: readonly (readonly [LeaseSighting, readonly string[], Verdict?])[] = [
    [sighting('192.0.2.1', []), ['no-holder']],
    [sighting('192.0.2.1', own, { leased: false }), ['no-lease']],
    [sighting('192.0.2.1', own, { life: { type: 'never' } }), ['never-ends']],
    [sighting('192.0.2.1', own, { life: { type: 'renewed', ttlMs: 1, leftMs: undefined } }), ['not-renewed'], 'stale'],
    [sighting('192.0.2.1', own, { life: { type: 'renewed', ttlMs: 1, leftMs: undefined } }), [], 'unknown'],
    [sighting('192.0.2.1', own, { odd: [{ type: 'json', reason: 'the value is JSON' }] }), ['json-value']],
    [sighting('192.0.2.1', own, { odd: [{ type: 'unreadable', reason: '' }] }), ['unreadable-value']],
    [sighting('192.0.2.1', own, { odd: [{ type: 'misplaced', reason: '' }] }), ['misplaced-value']],
  ]
  for (const [one, codes, verdict] of table) {
    assert.deepEqual(rows([one], listed, verdict)[0]?.slice(2), codes)
  }
})

test('a master that is unready or was withdrawn needs no lease; one that is ready is not listed for want of one', () => {
  const early = sighting('192.0.2.1', [holder('192.0.2.1', 'a')], { leased: false })
  assert.deepEqual(rows([early], []), [['192.0.2.1', 'a', 'no-lease']])
  for (const state of ['unready', 'withdrawn'] as const) {
    const record = sighting('192.0.2.1', [holder('192.0.2.1', 'a', state)], { leased: false })
    assert.deepEqual(rows([record], []), [['192.0.2.1', 'a']])
  }
})

test('who is listed without being a member, and who is not listed and should be, are told apart', () => {
  const live = sighting('192.0.2.1', [holder('192.0.2.1', 'a')])
  assert.deepEqual(rows([live], ['192.0.2.9', '192.0.2.9']), [
    ['192.0.2.1', 'a', 'not-listed'],
    ['192.0.2.9', undefined, 'listed-without-lease'],
  ])
  assert.deepEqual(rows([sighting('192.0.2.1', [])], []), [['192.0.2.1', undefined, 'no-holder', 'not-listed']])
  const unready = sighting('192.0.2.1', [holder('192.0.2.1', 'a', 'unready')])
  assert.deepEqual(rows([unready], []), [['192.0.2.1', 'a']])
  const stale = sighting('192.0.2.1', [holder('192.0.2.1', 'a')], { life: { type: 'never' } })
  assert.deepEqual(rows([stale], []), [['192.0.2.1', 'a', 'never-ends']])
})

test('without the list nobody is said to be on it or missing from it', () => {
  const [row] = mastersRows({
    sightings: [sighting('192.0.2.1', [holder('192.0.2.1', 'a')])],
    listed: undefined,
    verdict: () => 'live',
    nowMs,
  })
  assert.deepEqual([row?.listed, row?.conflicts], [undefined, []])
})

test('a lease that names no address comes last, and an unreadable start is no age', () => {
  const nameless = sighting('192.0.2.1', [{ ...holder('192.0.2.1', 'a'), startedAt: 'yesterday' }], {
    address: undefined,
  })
  const all = mastersRows({
    sightings: [nameless, sighting('192.0.2.2', [holder('192.0.2.2', 'b')])],
    listed: [],
    verdict: () => 'live',
    nowMs,
  })
  assert.deepEqual(
    all.map(({ address, ageMs, listed }) => [address, ageMs, listed]),
    [
      ['192.0.2.2', 60_000, false],
      [undefined, undefined, undefined],
    ],
  )
})
