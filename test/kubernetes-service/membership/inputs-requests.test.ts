import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Holder, MasterLease } from '../../../src/kubernetes-service/leases/master-leases.ts'
import type {
  FleetFacts,
  LeavingStep,
  OnShutdown,
  OwnLease,
  Phase,
} from '../../../src/kubernetes-service/membership/state.ts'
import { after, type Facts, holder, leaseOf, leaving, lost, NOW, phases, request, self, timings } from './one-input.ts'

test('a renewal counts from the time when it was sent; its answer ends the failures', () => {
  const facts = { lease: { request: request('renew'), failures: 3, missing: false, outlasts: true, retryAtMs: 1 } }
  const { lease } = after(facts, { type: 'done' }).state
  assert.deepEqual(
    [lease.renewedAtMs, lease.writtenAtMs, lease.retryAtMs, lease.failures, lease.request, lease.outlasts],
    [99_500, NOW, NOW, 0, undefined, false],
  )
  assert.deepEqual(lease.trust, { type: 'steady' })
})

test('an answer without a request changes nothing', () => {
  const { state, before } = after({ lease: { failures: 2 } }, { type: 'done' })
  assert.equal(state, before)
})

test('the list is reconciled when a write has changed the state in the record', () => {
  const effects = (state: Holder['state'], type: 'renew' | 'mark' = 'renew') =>
    after({ lease: { request: request(type, { state }) } }, { type: 'done' }).effects
  assert.deepEqual(effects('ready'), [])
  assert.deepEqual(effects('failing'), [{ type: 'reconcile' }])
  assert.deepEqual(effects('failing', 'mark'), [{ type: 'reconcile' }])
  assert.deepEqual(effects('unready', 'mark'), [{ type: 'reconcile' }, { type: 'report', event: { type: 'unready' } }])
  const marked = after({ lease: { request: request('mark', { state: 'failing' }) } }, { type: 'done' }).state
  assert.deepEqual(
    [marked.self.state, marked.lease.renewedAtMs],
    ['failing', 95_000],
    'a mark does not count as a renewal',
  )
})

test('after its removal a lease no longer counts as renewed', () => {
  const { lease } = after({ lease: { request: request('remove') } }, { type: 'done' }).state
  assert.deepEqual([lease.renewedAtMs, lease.writtenAtMs, lease.request], [undefined, NOW, undefined])
})

test('the first renewal after a failure, or a late renewal, begins a recovery', () => {
  const lateMs = timings.intervalMs + timings.attemptMs
  const trustAfter = (facts: Facts, sentAtMs = 99_500) => {
    const lease = { ...facts.lease, request: request('renew', {}, sentAtMs) }
    return after({ ...facts, lease }, { type: 'done' }).state.lease.trust
  }
  const recovering = (isNew: boolean) => ({ type: 'recovering', untilAtMs: NOW + timings.recoveryMs, isNew })
  assert.deepEqual(trustAfter({ lease: { trust: lost } }), recovering(false))
  assert.deepEqual(trustAfter({ lease: { trust: { type: 'lost', isNew: true } } }), recovering(true))
  assert.deepEqual(trustAfter({ phase: phases.joining, lease: { trust: lost } }), recovering(true))
  assert.deepEqual(trustAfter({ lease: { renewedAtMs: 99_500 - lateMs } }), recovering(false))
  assert.deepEqual(trustAfter({ lease: { renewedAtMs: 99_501 - lateMs } }), { type: 'steady' })
  const before = { type: 'recovering', untilAtMs: 101_000, isNew: true } as const
  assert.deepEqual(trustAfter({ lease: { trust: before } }), before, 'a recovery in progress is not prolonged')
  // A joining master has not renewed a lease before: its renewal is late if it comes long after its read.
  const joins = (readAtMs: number | undefined) =>
    trustAfter({ phase: phases.joining, lease: { renewedAtMs: undefined }, fleet: { readAtMs } })
  const spareMs = timings.ttlMs - timings.intervalMs
  assert.deepEqual(joins(99_500 - spareMs), recovering(true))
  assert.deepEqual(joins(99_501 - spareMs), { type: 'steady' })
  assert.deepEqual(joins(undefined), { type: 'steady' })
})

test('a renewal proves that leases missing before it was sent have expired, unless it is the first after a failure', () => {
  const provedAt = (sinceAtMs: number, lease: Partial<OwnLease> = {}, renewed: readonly string[] = []) => {
    const missing = [{ lease: leaseOf(holder(2)), sinceAtMs, provedAtMs: undefined }]
    const facts = { lease: { ...lease, request: request('renew') }, fleet: { missing, renewed } }
    const { fleet } = after(facts, { type: 'done' }).state
    return [fleet.missing[0]?.provedAtMs, fleet.renewed]
  }
  const names = ['192.0.2.2 host-2']
  assert.deepEqual(provedAt(99_500), [NOW, []])
  assert.deepEqual(provedAt(99_501), [undefined, []])
  assert.deepEqual(
    provedAt(99_500, { trust: lost }, names),
    [NOW, []],
    'earlier observations are discarded after a failure',
  )
  assert.deepEqual(provedAt(99_500, { trust: lost }), [undefined, []])
  const recovering = { type: 'recovering', untilAtMs: 110_000, isNew: false } as const
  assert.deepEqual(provedAt(99_500, { trust: recovering }, names), [NOW, names])
  assert.deepEqual(provedAt(99_500, { renewedAtMs: 80_000 }), [undefined, []], 'a late renewal begins a recovery')
})

test('the renewal of a missing lease counts as a correction if the lease could not have expired by then', () => {
  const corrected = (renewedAtMs: number) => {
    const facts = { lease: { renewedAtMs, missing: true, request: request('renew') } }
    const { state } = after(facts, { type: 'done' })
    const { missing, contention } = state.lease
    return [missing, contention.phase === 'calm' ? contention.corrections : contention.phase]
  }
  const endMs = 99_500 - timings.ttlMs
  assert.deepEqual(corrected(endMs + 1), [false, [NOW]])
  assert.deepEqual(corrected(endMs), [false, []])
  const there = after({ lease: { request: request('renew') } }, { type: 'done' })
  assert.equal(there.state.lease.contention, there.before.lease.contention)
})

test('a failed request is retried twice after 250 ms, then each second; while joining, with a back-off from 2 ms', () => {
  const failed = (failures: number, phase: Phase = phases.listed) => {
    const { lease } = after(
      { phase, lease: { failures, request: request('renew') } },
      { type: 'failed', failure: 'unknown' },
    ).state
    assert.deepEqual([lease.request, lease.failures], [undefined, failures + 1])
    return lease.retryAtMs - NOW
  }
  assert.deepEqual(
    [0, 1, 2, 9].map((failures) => failed(failures)),
    [250, 250, 1_000, 1_000],
  )
  assert.deepEqual(
    [0, 1, 2, 8, 9, 20].map((failures) => failed(failures, phases.joining)),
    [2, 4, 8, 512, 1_000, 1_000],
  )
})

test('after a failed request this master trusts no expiry, unless the store is only unprepared', () => {
  const trustAfter = (failure: 'unknown' | 'unprepared', facts: Facts = {}) => {
    const lease = { ...facts.lease, request: request('renew') }
    return after({ ...facts, lease }, { type: 'failed', failure }).state.lease
  }
  assert.deepEqual(trustAfter('unknown').trust, lost)
  assert.deepEqual(trustAfter('unknown', { phase: phases.joining }).trust, { type: 'lost', isNew: true })
  const isNew = { type: 'recovering', untilAtMs: 110_000, isNew: true } as const
  assert.deepEqual(trustAfter('unknown', { lease: { trust: isNew } }).trust, { type: 'lost', isNew: true })
  const { trust, failures, request: pending } = trustAfter('unprepared')
  assert.deepEqual([trust, failures, pending], [{ type: 'steady' }, 1, undefined])
})

test('the first failure reports the leases that are missing at that time', () => {
  const missing = [{ lease: leaseOf(holder(2)), sinceAtMs: 98_000, provedAtMs: undefined }]
  const reports = (
    failure: 'unknown' | 'unprepared',
    lease: Partial<OwnLease> = {},
    fleet: Partial<FleetFacts> = { missing },
  ) => after({ lease: { ...lease, request: request('renew') }, fleet }, { type: 'failed', failure }).effects
  const report = { type: 'report', event: { type: 'expiry-suspected', addresses: ['192.0.2.2'] } }
  assert.deepEqual(reports('unknown'), [report])
  assert.deepEqual(reports('unknown', { trust: lost }), [])
  assert.deepEqual(reports('unprepared'), [])
  assert.deepEqual(reports('unknown', {}, {}), [])
})

test('a master whose request is refused as withdrawn ends; if it is leaving, it removes its lease', () => {
  const withdrawn = { type: 'failed', failure: 'withdrawn' } as const
  const listed = after({ lease: { request: request('renew') } }, withdrawn)
  assert.deepEqual([listed.state.phase, listed.state.lease.request], [{ type: 'out', why: 'withdrawn' }, undefined])
  assert.deepEqual(listed.effects, [{ type: 'report', event: { type: 'out', why: 'withdrawn' } }])
  const departing = after({ phase: leaving({ type: 'announcing' }), lease: { request: request('mark') } }, withdrawn)
  assert.deepEqual(departing.state.phase, leaving({ type: 'removing' }, { mode: 'always' }))
  assert.deepEqual([departing.state.lease.request, departing.effects], [undefined, []])
})

test('the result of its write of the list determines the next step of a leaving master', () => {
  const listEnd = (step: LeavingStep, outcome: 'written' | 'conflict' | 'failed' | 'denied' | 'refused', more = {}) =>
    after({ phase: leaving(step, more) }, { type: 'list', outcome }).state
  const writing = { type: 'writing', sent: true } as const
  const listing = { type: 'listing', sent: true } as const
  assert.deepEqual(listEnd(writing, 'written').phase, { type: 'out', why: 'left' })
  assert.deepEqual(listEnd(listing, 'written').phase, { type: 'out', why: 'last-one' })
  assert.deepEqual(listEnd(writing, 'conflict').phase, leaving({ type: 'writing', sent: false }))
  assert.deepEqual(listEnd(listing, 'conflict').phase, leaving({ type: 'listing', sent: false }))
  assert.deepEqual(listEnd(writing, 'refused').phase, leaving({ type: 'returning' }))
  assert.deepEqual(listEnd(listing, 'refused').phase, leaving({ type: 'listing', sent: false }))
  const later = listEnd(writing, 'failed')
  assert.deepEqual(later.phase, leaving({ type: 'checking', sinceAtMs: NOW }))
  assert.equal(later.lease.retryAtMs, NOW + timings.retryMs)
  assert.deepEqual(listEnd(listing, 'failed').phase, { type: 'out', why: 'last-one' })
  assert.deepEqual(listEnd(writing, 'denied').phase, { type: 'out', why: 'denied' })
  assert.deepEqual(listEnd(listing, 'denied').phase, { type: 'out', why: 'last-one' })
  const last = listEnd(writing, 'denied', { mode: 'always' })
  assert.deepEqual(
    last.phase,
    leaving({ type: 'checking', sinceAtMs: NOW }, { mode: 'always' }),
    'with the mode always a denied master may leave as the last one',
  )
  // The lease of another life of this master was not removed.
  const another = leaseOf({ ...self, instanceId: 'earlier' })
  const whyLeft = (lease: MasterLease) =>
    after({ phase: leaving(writing), fleet: { leases: [lease] } }, { type: 'list', outcome: 'written' }).state.phase
  assert.deepEqual(whyLeft(another), { type: 'out', why: 'left-listed' })
  assert.deepEqual(whyLeft(leaseOf({ ...self, instanceId: 'earlier', state: 'withdrawn' })), {
    type: 'out',
    why: 'left',
  })
  assert.deepEqual(whyLeft(leaseOf(holder(2))), { type: 'out', why: 'left' })
  // A master that does not wait for the end of that write ignores it.
  for (const phase of [phases.listed, leaving({ type: 'removing' }), { type: 'out', why: 'left' }] as const) {
    const { state, before } = after({ phase }, { type: 'list', outcome: 'written' })
    assert.equal(state, before)
  }
})

test('a stopped master leaves if it may have a lease, depending on the mode', () => {
  const stopped = (mode: OnShutdown, facts: Facts = {}) => after(facts, { type: 'stop', mode }).state
  const departing = { sinceAtMs: NOW, before: 'failing' }
  const failing = holder(1, { state: 'failing' })
  const { phase, departures } = stopped('withdraw', { self: failing })
  assert.deepEqual(phase, leaving({ type: 'probing', sinceAtMs: NOW }, departing))
  assert.equal(departures, 1)
  const unread = { fleet: { leases: [leaseOf(holder(2))] } }
  assert.equal(stopped('withdraw', unread).phase.type, 'leaving', 'a master whose lease was not read yet leaves')
  assert.deepEqual(
    stopped('always', { self: failing }).phase,
    leaving({ type: 'removing' }, { ...departing, mode: 'always' }),
  )
  assert.deepEqual(stopped('keep').phase, { type: 'out', why: 'left-listed' })
  const none = { lease: { renewedAtMs: undefined }, fleet: { leases: [leaseOf(holder(2))], readAtMs: 99_000 } }
  for (const phase of [phases.starting, phases.joining]) {
    assert.deepEqual(stopped('withdraw', { ...none, phase }).phase, { type: 'out', why: 'not-listed' })
    assert.deepEqual(stopped('keep', { ...none, phase }).phase, { type: 'out', why: 'left-listed' })
    assert.equal(
      stopped('withdraw', { ...none, phase, fleet: {} }).phase.type,
      'leaving',
      'the lease of an earlier life may exist',
    )
    const unread = { leases: [], readAtMs: undefined }
    const unanswered = { renewedAtMs: undefined, failures: 1 }
    for (const unsure of [{ fleet: unread }, { lease: unanswered }]) {
      const { phase: out } = stopped('withdraw', { ...none, ...unsure, phase })
      assert.deepEqual(out, { type: 'out', why: 'left-listed' }, 'a lease may exist')
    }
    const lease = { request: request('renew') }
    assert.equal(
      stopped('withdraw', { ...none, phase, lease }).phase.type,
      'leaving',
      'the pending renewal may have created a lease',
    )
  }
})

test('a stop does not affect a master that leaves or is out, but a withdrawn one still removes its lease', () => {
  const same = (phase: Phase, mode: OnShutdown): void => {
    const { state, before } = after({ phase }, { type: 'stop', mode })
    assert.equal(state, before)
  }
  for (const mode of ['withdraw', 'always', 'keep'] as const) {
    same(leaving({ type: 'waiting', untilAtMs: 101_000, sinceAtMs: 99_000 }), mode)
    same({ type: 'out', why: 'left' }, mode)
  }
  same({ type: 'out', why: 'withdrawn' }, 'keep')
  for (const mode of ['withdraw', 'always'] as const) {
    const { phase } = after({ phase: { type: 'out', why: 'withdrawn' } }, { type: 'stop', mode }).state
    assert.deepEqual(phase, leaving({ type: 'removing' }, { mode: 'always', sinceAtMs: NOW }))
  }
})
