import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { LeaseSighting } from '../../src/kubernetes-service/leases/inspect.ts'
import type { Verdict } from '../../src/kubernetes-service/leases/lease-watch.ts'
import { planEviction } from '../../src/kubernetes-service/masters-eviction.ts'

interface Given {
  readonly address: string
  readonly verdict: Verdict
  readonly leased?: boolean
}

function plan(given: readonly Given[], listed: readonly string[] | undefined, force = false, address = '192.0.2.1') {
  const sightings = given.map(
    ({ address: at, verdict, leased = true }, index): LeaseSighting => ({
      id: `${index} ${verdict}`,
      revision: '1',
      address: at,
      holders: [],
      leased,
      life: verdict === 'stale' ? { type: 'never' } : { type: 'renewed', ttlMs: 15_000, leftMs: undefined },
      odd: [],
    }),
  )
  const verdict = ({ id }: LeaseSighting): Verdict => id.split(' ')[1] as Verdict
  const answer = planEviction({ address, sightings, verdict, listed, force })
  if (answer.type === 'watch') return `watch ${answer.forMs}`
  if (answer.type === 'refuse') return `refuse ${answer.because}`
  return answer.type === 'evict' ? answer.leases.map(({ id }) => id) : answer.type
}

const live = (address: string): Given => ({ address, verdict: 'live' })
const stale = (address: string): Given => ({ address, verdict: 'stale' })
const unknown = (address: string): Given => ({ address, verdict: 'unknown' })

test('a stale lease goes beside one that lives, a live one only by force, an unknown one is watched', () => {
  const other = live('192.0.2.2')
  assert.deepEqual(plan([stale('192.0.2.1'), other], []), ['0 stale'])
  assert.deepEqual(plan([live('192.0.2.1'), other], []), 'refuse live')
  assert.deepEqual(plan([live('192.0.2.1'), other], [], true), ['0 live'])
  assert.deepEqual(plan([unknown('192.0.2.1'), other], []), 'watch 15000')
  assert.deepEqual(plan([unknown('192.0.2.1'), other], [], true), ['0 unknown'])
  assert.deepEqual(plan([other], ['192.0.2.1']), 'absent')
})

test('the last address is kept, by force too', () => {
  for (const own of [stale, live]) {
    assert.deepEqual(plan([own('192.0.2.1')], ['192.0.2.1'], true), 'refuse last')
    assert.deepEqual(plan([own('192.0.2.1')], undefined, true), 'refuse last')
    assert.deepEqual(plan([own('192.0.2.1'), stale('192.0.2.2')], [], true), 'refuse last')
  }
  assert.deepEqual(plan([stale('192.0.2.1')], ['192.0.2.1', '192.0.2.2']), ['0 stale'])
  assert.deepEqual(plan([stale('192.0.2.1'), unknown('192.0.2.2')], []), 'watch 15000')
})

test('of two leases of one address the stale one goes, and the other one counts as who remains', () => {
  assert.deepEqual(plan([stale('192.0.2.1'), live('192.0.2.1')], ['192.0.2.1']), ['0 stale'])
  assert.deepEqual(plan([stale('192.0.2.1'), live('192.0.2.1')], ['192.0.2.1'], true), 'refuse last')
})

test('a record without a lease does not count as somebody who remains', () => {
  assert.deepEqual(plan([stale('192.0.2.1'), { ...live('192.0.2.2'), leased: false }], []), 'refuse last')
})

test('whatever there is, nothing goes while nobody else is listed or live, and nothing that lives goes without force', () => {
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
