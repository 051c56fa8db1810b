import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Holder, HolderState } from '../../../src/kubernetes-service/leases/master-leases.ts'
import type { InspectedLease, LeaseLife } from '../../../src/kubernetes-service/masters/inspection.ts'
import { mastersRows, planEviction, type Verdict } from '../../../src/kubernetes-service/masters/masters.ts'

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

function sighting(address: string, holders: readonly Holder[], more: Partial<InspectedLease> = {}): InspectedLease {
  return { id: `/leases/${address}`, revision: '7', address, holders, life: ends, leased: true, odd: [], ...more }
}

/** Address, host and the codes of the conflicts. */
function rows(sightings: readonly InspectedLease[], listed: readonly string[] | undefined, verdict?: Verdict) {
  const judge = (one: InspectedLease): Verdict => verdict ?? (one.life.type === 'never' ? 'stale' : 'live')
  return mastersRows({ leases: sightings, listed, verdict: judge, nowMs }).map(
    ({ address, holder: held, conflicts }) => [address, held?.host, ...conflicts.map(({ code }) => code)],
  )
}

test('listed masters with live leases have no conflicts, and are sorted by address and host', () => {
  const [b, a] = [sighting('192.0.2.2', [holder('192.0.2.2', 'b')]), sighting('192.0.2.1', [holder('192.0.2.1', 'a')])]
  assert.deepEqual(rows([b, a], ['192.0.2.1', '192.0.2.2']), [
    ['192.0.2.1', 'a'],
    ['192.0.2.2', 'b'],
  ])
  const shared = ['c', 'a', 'b'].map((host) => sighting('192.0.2.1', [holder('192.0.2.1', host)]))
  assert.deepEqual(
    rows(shared, ['192.0.2.1']).map(([, host]) => host),
    ['a', 'b', 'c'],
  )
  const [row] = mastersRows({ leases: [a], listed: ['192.0.2.1'], verdict: () => 'live', nowMs })
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

test('two hosts at one address are reported on both rows, whether they share a lease or have one each', () => {
  const [a, b] = [holder('192.0.2.1', 'a'), holder('192.0.2.1', 'b')]
  const expected = [
    ['192.0.2.1', 'a', 'shared-address'],
    ['192.0.2.1', 'b', 'shared-address'],
  ]
  assert.deepEqual(rows([sighting('192.0.2.1', [a, b])], ['192.0.2.1']), expected)
  assert.deepEqual(rows([sighting('192.0.2.1', [a]), sighting('192.0.2.1', [b])], ['192.0.2.1']), expected)
})

test('each of thousands of rows for one address names ten of its hosts', () => {
  const hosts = Array.from({ length: 5000 }, (_, index) => `host-${index + 10_000}`)
  const leases = hosts.map((host) => sighting('192.0.2.1', [holder('192.0.2.1', host)]))
  const all = mastersRows({ leases, listed: ['192.0.2.1'], verdict: () => 'live', nowMs })
  assert.equal(all.length, 5000)
  for (const { conflicts } of all) {
    assert.equal(conflicts[0]?.message, `shared by ${hosts.slice(0, 10).join(', ')} and 4990 more`)
  }
})

test('each conflict has its code: no record, no lease, no end, no renewal, an odd value', () => {
  const listed = ['192.0.2.1']
  const own = [holder('192.0.2.1', 'a')]
  const table: readonly (readonly [InspectedLease, readonly string[], Verdict?])[] = [
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

test('a ready master without a lease has only the conflict no-lease; an unready or withdrawn one has none', () => {
  const early = sighting('192.0.2.1', [holder('192.0.2.1', 'a')], { leased: false })
  assert.deepEqual(rows([early], []), [['192.0.2.1', 'a', 'no-lease']])
  for (const state of ['unready', 'withdrawn'] as const) {
    const record = sighting('192.0.2.1', [holder('192.0.2.1', 'a', state)], { leased: false })
    assert.deepEqual(rows([record], []), [['192.0.2.1', 'a']])
  }
})

test('an address listed without a lease and a live master that is not listed are different conflicts', () => {
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

test('if the list is unknown, no row has a conflict about being listed', () => {
  const [row] = mastersRows({
    leases: [sighting('192.0.2.1', [holder('192.0.2.1', 'a')])],
    listed: undefined,
    verdict: () => 'live',
    nowMs,
  })
  assert.deepEqual([row?.listed, row?.conflicts], [undefined, []])
})

test('a lease without an address comes last, and an unreadable start time gives no age', () => {
  const nameless = sighting('192.0.2.1', [{ ...holder('192.0.2.1', 'a'), startedAt: 'yesterday' }], {
    address: undefined,
  })
  const all = mastersRows({
    leases: [nameless, sighting('192.0.2.2', [holder('192.0.2.2', 'b')])],
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

interface Given {
  readonly address: string
  readonly verdict: Verdict
  readonly leased?: boolean
}

function plan(given: readonly Given[], listed: readonly string[] | undefined, force = false, address = '192.0.2.1') {
  const sightings = given.map(
    ({ address: at, verdict, leased = true }, index): InspectedLease => ({
      id: `${index} ${verdict}`,
      revision: '1',
      address: at,
      holders: [],
      leased,
      life: verdict === 'stale' ? { type: 'never' } : { type: 'renewed', ttlMs: 15_000, leftMs: undefined },
      odd: [],
    }),
  )
  const verdict = ({ id }: InspectedLease): Verdict => id.split(' ')[1] as Verdict
  const answer = planEviction({ address, leases: sightings, verdict, listed, force })
  if (answer.type === 'watch') return `watch ${answer.forMs}`
  if (answer.type === 'refuse') return `refuse ${answer.because}`
  return answer.type === 'evict' ? answer.leases.map(({ id }) => id) : answer.type
}

const live = (address: string): Given => ({ address, verdict: 'live' })
const stale = (address: string): Given => ({ address, verdict: 'stale' })
const unknown = (address: string): Given => ({ address, verdict: 'unknown' })

test('a stale lease is evicted if another is live, a live one only by force, and an unknown one is watched first', () => {
  const other = live('192.0.2.2')
  assert.deepEqual(plan([stale('192.0.2.1'), other], []), ['0 stale'])
  assert.deepEqual(plan([live('192.0.2.1'), other], []), 'refuse live')
  assert.deepEqual(plan([live('192.0.2.1'), other], [], true), ['0 live'])
  assert.deepEqual(plan([unknown('192.0.2.1'), other], []), 'watch 15000')
  assert.deepEqual(plan([unknown('192.0.2.1'), other], [], true), ['0 unknown'])
  assert.deepEqual(plan([other], ['192.0.2.1']), 'absent')
})

test('the last address is never evicted, not even by force', () => {
  for (const own of [stale, live]) {
    assert.deepEqual(plan([own('192.0.2.1')], ['192.0.2.1'], true), 'refuse last')
    assert.deepEqual(plan([own('192.0.2.1')], undefined, true), 'refuse last')
    assert.deepEqual(plan([own('192.0.2.1'), stale('192.0.2.2')], [], true), 'refuse last')
  }
  assert.deepEqual(plan([stale('192.0.2.1')], ['192.0.2.1', '192.0.2.2']), ['0 stale'])
  assert.deepEqual(plan([stale('192.0.2.1'), unknown('192.0.2.2')], []), 'watch 15000')
})

test('of two leases of one address the stale one is evicted, and the other counts as remaining', () => {
  assert.deepEqual(plan([stale('192.0.2.1'), live('192.0.2.1')], ['192.0.2.1']), ['0 stale'])
  assert.deepEqual(plan([stale('192.0.2.1'), live('192.0.2.1')], ['192.0.2.1'], true), 'refuse last')
})

test('a record without a lease does not count as a remaining master', () => {
  assert.deepEqual(plan([stale('192.0.2.1'), { ...live('192.0.2.2'), leased: false }], []), 'refuse last')
})

test('any eviction leaves another address listed or a lease live, and without force evicts only stale leases', () => {
  const address = fc.integer({ min: 1, max: 3 }).map((n) => `192.0.2.${n}`)
  const given = fc.record({
    address,
    verdict: fc.constantFrom<Verdict>('live', 'stale', 'unknown'),
    leased: fc.boolean(),
  })
  const lists = fc.option(fc.uniqueArray(address), { nil: undefined })
  fc.assert(
    fc.property(fc.array(given, { maxLength: 6 }), lists, fc.boolean(), (all, listed, force) => {
      const going = plan(all, listed, force)
      if (typeof going === 'string') return
      const gone = new Set(going.map((id) => Number(id.split(' ')[0])))
      const remaining = all.filter((one, index) => !gone.has(index) && one.leased && one.verdict === 'live')
      assert.ok(remaining.length > 0 || listed?.some((one) => one !== '192.0.2.1'))
      for (const index of gone) {
        assert.equal(all[index]?.address, '192.0.2.1')
        if (!force) assert.equal(all[index]?.verdict, 'stale')
      }
    }),
    { numRuns: 5_000 },
  )
})
