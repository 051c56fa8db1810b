import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Contention } from '../../../src/kubernetes-service/guarded-writes/contention.ts'
import type { Holder, MasterLease } from '../../../src/kubernetes-service/leases/master-leases.ts'
import {
  type FleetFacts,
  type MembershipInput,
  mayConfirmAtMs,
  type OwnLease,
  type Phase,
  type ServerFacts,
} from '../../../src/kubernetes-service/membership/state.ts'
import {
  after,
  type Facts,
  holder,
  leaseOf,
  leases,
  leaving,
  lost,
  master,
  NOW,
  phases,
  probed,
  request,
  self,
  silent,
  timings,
} from './one-input.ts'

test('an answered probe sets the state of the server and the time of its answer', () => {
  const { server } = after({ server: { probingSinceAtMs: 99_900 } }, probed({ failsByEtcd: true })).state
  assert.deepEqual(
    [server.answeredAtMs, server.probedAtMs, server.serving, server.failsByEtcd, server.probingSinceAtMs],
    [NOW, 99_900, true, true, 99_900],
  )
  const asked = after({ server: { probingSinceAtMs: 99_900 } }, probed({ requested: true })).state.server
  assert.equal(asked.probingSinceAtMs, undefined)
  const unanswered = after({}, probed(silent)).state.server
  assert.deepEqual([unanswered.answeredAtMs, unanswered.serving], [99_000, false])
})

test('an older probe does not overrule a newer one, unless only the older one was answered', () => {
  const newer = { probedAtMs: 99_900, serving: true, failsByEtcd: false }
  const failing = { serving: false, failsByEtcd: true }
  const ofServer = (server: Partial<ServerFacts>, input: Parameters<typeof probed>[0]) => {
    const { serving, failsByEtcd, probedAtMs, readySinceAtMs } = after({ server }, probed(input)).state.server
    return [serving, failsByEtcd, probedAtMs, readySinceAtMs !== undefined]
  }
  const known = [true, false, 99_900, true]
  assert.deepEqual(ofServer({ ...newer, answeredAtMs: 99_950 }, { sentAtMs: 99_899, ...failing }), known)
  assert.deepEqual(ofServer({ ...newer, answeredAtMs: 99_900 }, { sentAtMs: 99_899, ...failing }), known)
  assert.deepEqual(
    ofServer({ ...newer, answeredAtMs: 99_000 }, { sentAtMs: 99_899, ...failing, answered: false }),
    known,
  )
  const overruled = [false, true, 99_900, false]
  assert.deepEqual(ofServer({ ...newer, answeredAtMs: 99_000 }, { sentAtMs: 99_899, ...failing }), overruled)
  assert.deepEqual(ofServer({ ...newer, answeredAtMs: 99_950 }, { sentAtMs: 99_900, ...failing }), overruled)
})

test('if a probe that a renewal waits for is not answered, the renewal is postponed for a moment', () => {
  for (const phase of [phases.listed, phases.joining]) {
    const { lease, server } = after({ phase }, probed({ ...silent, requested: true })).state
    const pauseMs = phase === phases.listed ? timings.retryMs : 2
    assert.deepEqual([lease.failures, lease.retryAtMs, lease.trust.type], [1, NOW + pauseMs, 'lost'])
    assert.equal(server.serving, false)
  }
  const untouched = (facts: Facts, input: MembershipInput): void => {
    const { state, before } = after(facts, input)
    assert.deepEqual(state.lease, before.lease)
  }
  untouched({}, probed({ ...silent }))
  untouched({}, probed({ serving: false, requested: true }))
  // Another probe was answered since.
  untouched({ server: { answeredAtMs: 99_900 } }, probed({ ...silent, requested: true }))
  untouched({ phase: leaving({ type: 'probing', sinceAtMs: 0 }) }, probed({ ...silent, requested: true }))
})

test('a master whose server or read fails before it joins is a newcomer', () => {
  const newcomer = { type: 'lost', isNew: true }
  const trustAfter = (phase: Phase, input: MembershipInput) => after({ phase }, input).state.lease.trust
  assert.deepEqual(trustAfter(phases.starting, probed({ serving: false })), newcomer)
  assert.deepEqual(trustAfter(phases.starting, probed(silent)), newcomer)
  assert.deepEqual(trustAfter(phases.starting, probed()), { type: 'steady' })
  assert.deepEqual(trustAfter(phases.listed, probed({ serving: false })), { type: 'steady' })
  assert.deepEqual(trustAfter(phases.joining, probed({ serving: false })), { type: 'steady' })
  assert.deepEqual(trustAfter(phases.joining, { type: 'read-failed' }), newcomer)
  assert.deepEqual(trustAfter(phases.starting, { type: 'read-failed' }), { type: 'steady' })
  assert.deepEqual(trustAfter(phases.listed, { type: 'read-failed' }), { type: 'steady' })
})

test('a server is ready since the answer, and has failed since the first failure', () => {
  const never = { readySinceAtMs: undefined, failedAtMs: undefined }
  const since = (server: Partial<ServerFacts>, input: Parameters<typeof probed>[0] = {}, nowMs = NOW) => {
    const { readySinceAtMs, failedAtMs } = after({ server }, probed(input), nowMs).state.server
    return [readySinceAtMs, failedAtMs]
  }
  assert.deepEqual(since(never), [NOW, undefined])
  assert.deepEqual(since(never, { serving: false }), [undefined, NOW])
  assert.deepEqual(since({ ...never, failedAtMs: 50_000 }, { serving: false }), [undefined, 50_000])
  assert.deepEqual(since({ ...never, failedAtMs: 50_000 }), [NOW, 50_000])
  assert.deepEqual(since({ readySinceAtMs: 1_000 }), [1_000, undefined])
  assert.deepEqual(since({ readySinceAtMs: 1_000 }, { refused: true }), [undefined, 99_000], 'a refusal is not ready')
  // The failure may have begun right after the last probe. What still counts of the earlier failure is added.
  assert.deepEqual(since({ readySinceAtMs: 1_000 }, { serving: false }), [undefined, 99_000])
  const earlier = (failedAtMs: number) => ({ readySinceAtMs: 98_000, failedAtMs })
  assert.deepEqual(since(earlier(97_001), { serving: false }), [undefined, 99_000])
  assert.deepEqual(since(earlier(96_000), { serving: false }), [undefined, 98_000])
  // The answer that made it ready came after that probe was sent.
  assert.deepEqual(since({ readySinceAtMs: 99_500 }, { serving: false }), [undefined, 99_000])
})

/**
 * How long a server confirms no departure after the last of these failures, in milliseconds. It was ready at 0, and is
 * ready again after that failure. Each failure lasts from one second to another, as seen by one probe a second.
 */
function waitsMs(...failures: readonly (readonly [fromS: number, untilS: number])[]): number {
  let state = master({ server: { probedAtMs: 0, answeredAtMs: 0, readySinceAtMs: 0 } })
  const endS = failures.at(-1)?.[1] ?? 0
  for (let s = 1; s <= endS; s++) {
    const serving = !failures.some(([fromS, untilS]) => fromS < s && s < untilS)
    state = after(state, probed({ sentAtMs: s * 1_000, serving }), s * 1_000).state
  }
  return mayConfirmAtMs(state.server, timings) - endS * 1_000
}

test('a failure soon after another extends the wait by its own length, not by the time between the two', () => {
  assert.equal(waitsMs([20, 50]), 24_000)
  assert.equal(waitsMs([20, 50], [68, 70]), 0.8 * (30_000 - 18_000 + 2_000))
  assert.equal(waitsMs([20, 50], [72, 74]), 0.8 * (30_000 - 22_000 + 2_000))
  assert.equal(waitsMs([20, 50], [80, 82]), 7_000)
  // If the time in between counted as failed, each of these failures would begin within the wait after the previous
  // one.
  assert.equal(waitsMs([20, 50], [68, 70], [105, 107], [166, 168], [267, 269]), 7_000)
  // Servers that failed together may not have noticed the two seconds in which this one was ready.
  assert.equal(waitsMs([20, 50], [52, 82]), 0.8 * (30_000 - 2_000 + 30_000))
  assert.equal(waitsMs([20, 320]), 144_000)
  assert.equal(waitsMs([20, 320], [420, 422]), 0.8 * (180_000 - 100_000 + 2_000))
})

test('a server that fails again never confirms earlier than without that failure', () => {
  const lengthS = fc.integer({ min: 2, max: 60 })
  fc.assert(
    fc.property(fc.array(fc.tuple(lengthS, lengthS), { minLength: 2, maxLength: 5 }), (periods) => {
      let atS = 0
      const failures = periods.map(([readyS, failedS]): [number, number] => {
        const fromS = atS + readyS
        atS = fromS + failedS
        return [fromS, atS]
      })
      const [, beforeS = 0] = failures.at(-2) ?? []
      assert.ok(atS * 1_000 + waitsMs(...failures) >= beforeS * 1_000 + waitsMs(...failures.slice(0, -1)))
    }),
  )
})

test('a failure is assumed if a server was not seen for too long, between two probes or during one', () => {
  const { unseenMs } = timings
  const since = (probedAtMs: number, sentAtMs: number, nowMs: number) => {
    const server = { readySinceAtMs: 1_000, probedAtMs, answeredAtMs: probedAtMs }
    const { readySinceAtMs, failedAtMs } = after({ server }, probed({ sentAtMs }), nowMs).state.server
    return [readySinceAtMs, failedAtMs]
  }
  const known = [1_000, undefined]
  assert.deepEqual(since(80_000, 80_000 + unseenMs - 1, 80_000 + unseenMs), known)
  assert.deepEqual(since(80_000, 80_000 + unseenMs, 80_001 + unseenMs), [80_001 + unseenMs, 80_000])
  assert.deepEqual(since(80_000, 80_001, 80_000 + unseenMs), known)
  assert.deepEqual(since(80_000, 80_001, 80_001 + unseenMs), [80_001 + unseenMs, 80_000])
})

test('a requested read ends with its answer, even if that is older than the answer of another read', () => {
  const reading = { readingSinceAtMs: 99_000 }
  const other = leaseOf(holder(2))
  const outdated = after({ fleet: { ...reading, readAtMs: 99_001 } }, leases([leaseOf(self), other]))
  assert.deepEqual(outdated.state.fleet.leases, [leaseOf(self)])
  assert.equal(outdated.state.fleet.readingSinceAtMs, undefined)
  const newest = after({ fleet: { ...reading, readAtMs: 99_000 } }, leases([leaseOf(self), other]))
  assert.deepEqual(newest.state.fleet.leases, [leaseOf(self), other])
  const unasked = after({ fleet: reading }, leases([leaseOf(self)], { requested: false }))
  assert.equal(unasked.state.fleet.readingSinceAtMs, 99_000)
  const first = after({ fleet: { readAtMs: undefined } }, leases([other]))
  assert.ok(first.state.fleet.leases.includes(other))
})

test('a failed read is due again after a pause, and a change makes a read due at once', () => {
  const { fleet } = after({ fleet: { readingSinceAtMs: 99_000 } }, { type: 'read-failed' }).state
  assert.deepEqual([fleet.isReadDue, fleet.readingSinceAtMs, fleet.retryAtMs], [true, undefined, NOW + timings.retryMs])
  assert.equal(after({}, { type: 'changed' }).state.fleet.isReadDue, true)
})

test('the list is reconciled when the leases imply a different list, regardless of their order', () => {
  const two = holder(2, { addresses: ['192.0.2.2', '2001:db8::2'] })
  const pair = [leaseOf(self), leaseOf(two)]
  const reconciles = (found: readonly MasterLease[], before: readonly MasterLease[] = pair): boolean =>
    after({ fleet: { leases: before } }, leases(found)).effects.some(({ type }) => type === 'reconcile')
  assert.equal(reconciles(pair), false)
  assert.equal(reconciles(pair.toReversed()), false)
  assert.equal(reconciles([leaseOf({ ...self }), leaseOf({ ...two, confirms: ['life-3/1'] })]), false)
  const others: readonly Partial<Holder>[] = [
    ...([{ host: 'host-3' }, { state: 'failing' }, { addresses: ['192.0.2.2'] }] as const),
    ...[{ addresses: ['192.0.2.2', '2001:db8::3'] }, { addresses: ['192.0.2.2', '2001:db8::2', '192.0.2.3'] }],
    ...[{ ports: { securePort: 443, nodePort: 0 } }, { ports: { securePort: 6443, nodePort: 30_000 } }],
  ]
  for (const other of others)
    assert.equal(reconciles([leaseOf(self), leaseOf({ ...two, ...other })]), true, JSON.stringify(other))
  assert.equal(reconciles([leaseOf(self), { address: '192.0.2.2' }]), true)
  assert.equal(reconciles([leaseOf(self), leaseOf(two, { address: '192.0.2.4' })]), true)
  assert.equal(reconciles([...pair, leaseOf(holder(3))]), true)
  assert.equal(reconciles([...pair, leaseOf(self)]), true)
  assert.equal(reconciles([leaseOf(self)]), true, 'its expiry is suspected')
  // A withdrawn master that is gone is not missing.
  const withdrawn = { ...two, state: 'withdrawn' } as const
  const gone = [leaseOf(self), leaseOf(withdrawn)]
  assert.equal(reconciles([leaseOf(self), leaseOf({ ...withdrawn, host: 'host-3' })], gone), true)
  assert.equal(reconciles([leaseOf(self), leaseOf(withdrawn, { address: '192.0.2.4' })], gone), true)
  assert.equal(reconciles([leaseOf(self), leaseOf(self)], gone), true)
  assert.equal(reconciles([leaseOf(self), leaseOf(two)], [leaseOf(self), leaseOf(self)]), true)
  const suspected = [leaseOf(self), leaseOf(two, { expirySuspected: true })]
  assert.equal(reconciles(pair, suspected), true)
  const kubeApiservers = [leaseOf(self), { address: '192.0.2.7' }]
  assert.equal(reconciles(structuredClone(kubeApiservers), kubeApiservers), false)
  assert.equal(reconciles([leaseOf(self), leaseOf(holder(7))], kubeApiservers), true)
})

test('the renewal of a lease that was found at the start triggers a reconciliation', () => {
  const found = leaseOf(holder(2), { found: true })
  const { effects } = after({ fleet: { leases: [leaseOf(self), found] } }, leases([leaseOf(self), leaseOf(holder(2))]))
  assert.deepEqual(effects, [{ type: 'reconcile' }])
})

test('each lease that goes missing while this master cannot renew is reported once', () => {
  const before = [leaseOf(self), leaseOf(holder(2))]
  const reports = (trust: OwnLease['trust'], missing: FleetFacts['missing'] = []) =>
    after({ lease: { trust }, fleet: { leases: before, missing } }, leases([leaseOf(self)])).effects.filter(
      ({ type }) => type === 'report',
    )
  const report = { type: 'report', event: { type: 'expiry-suspected', addresses: ['192.0.2.2'] } }
  assert.deepEqual(reports(lost), [report])
  assert.deepEqual(reports({ type: 'recovering', untilAtMs: NOW, isNew: false }), [report])
  assert.deepEqual(reports({ type: 'steady' }), [])
  const known = [{ lease: leaseOf(holder(2)), sinceAtMs: 98_000, provedAtMs: undefined }]
  assert.deepEqual(reports(lost, known), [])
})

test('leases that were missing before are reported when this master can no longer trust its reads', () => {
  const missing = [{ lease: leaseOf(holder(2)), sinceAtMs: 98_000, provedAtMs: undefined }]
  const fleet = { leases: [leaseOf(self), leaseOf(holder(2))], missing }
  const reportsOf = (lease: Partial<OwnLease>, input: MembershipInput) =>
    after({ lease, fleet }, input).effects.filter(({ type }) => type === 'report')
  const report = { type: 'report', event: { type: 'expiry-suspected', addresses: ['192.0.2.2'] } }
  const renewal = (sentAtMs: number) => ({ request: { ...request('renew'), sentAtMs } })
  const { intervalMs, attemptMs } = timings
  const lateMs = 95_000 + intervalMs + attemptMs
  assert.deepEqual(reportsOf({ ...renewal(lateMs) }, { type: 'done' }), [report])
  assert.deepEqual(reportsOf({ ...renewal(lateMs - 1) }, { type: 'done' }), [])
  assert.deepEqual(reportsOf({ ...renewal(lateMs), trust: lost }, { type: 'done' }), [])
})

test('before it joins, a master starts after the latest earlier life that it reads', () => {
  const earlier = holder(1, { instanceId: 'before', startedAt: '2026-01-02T00:00:00.000000Z' })
  for (const phase of [phases.starting, phases.joining]) {
    const { state } = after({ phase }, leases([leaseOf(earlier)]))
    assert.equal(state.self.startedAt, '2026-01-02T00:00:00.001000Z')
  }
  assert.equal(after({}, leases([leaseOf(earlier)])).state.self, self)
})

test('a read that was sent before the end of the margin proves no expiry, however late its answer comes', () => {
  const gone = leaseOf(holder(2))
  const missing = [{ lease: gone, sinceAtMs: 98_000, provedAtMs: 99_000 }]
  const fleet = { leases: [leaseOf(self), { ...gone, expirySuspected: true }], missing, readAtMs: 98_000 }
  const listedAfter = (sentAtMs: number) =>
    after({ fleet }, leases([leaseOf(self)], { sentAtMs })).state.fleet.leases.map(({ address }) => address)
  const endMs = 99_000 + timings.removalMarginMs
  assert.deepEqual(listedAfter(endMs - 1), ['192.0.2.1', '192.0.2.2'])
  assert.deepEqual(listedAfter(endMs), ['192.0.2.1'])
})

test('a deleted own lease is missing at once and counts as undone, unless it must have expired', () => {
  const taken = after({}, leases([]))
  const { lease } = taken.state
  assert.deepEqual([lease.missing, lease.missedAtMs, lease.retryAtMs], [true, NOW, NOW])
  assert.equal(lease.contention, taken.before.lease.contention, 'the contention is unchanged')
  const fought = { phase: 'calm', corrections: Array.from({ length: 10 }, (_, index) => 95_000 + index) } as const
  const undone = after({ lease: { contention: fought } }, leases([]))
  assert.equal(undone.state.lease.contention.phase, 'backing-off')
  const expired = { renewedAtMs: NOW - timings.ttlMs, contention: fought }
  assert.equal(after({ lease: expired }, leases([])).state.lease.contention, fought)
  assert.equal(after({ lease: expired }, leases([])).state.lease.missing, true)
})

test('an own lease that exists again is in sync, and the time of its next request does not change', () => {
  const backingOff: Contention = {
    ...{ phase: 'backing-off', sinceMs: 90_000, writtenMs: 94_000, corrections: 10, inSyncSinceMs: undefined },
  }
  const own = { missing: true, missedAtMs: 98_000, retryAtMs: 104_000, contention: backingOff }
  const { lease } = after({ lease: own }, leases([leaseOf(self)])).state
  assert.deepEqual([lease.missing, lease.missedAtMs, lease.retryAtMs], [false, 98_000, 104_000])
  assert.deepEqual(lease.contention, { ...backingOff, inSyncSinceMs: NOW })
})

test('a lease that a read shows after its end is known to outlast it', () => {
  const outlasts = (sentAtMs: number, list = [leaseOf(self)]) =>
    after({}, leases(list, { sentAtMs }), 120_000).state.lease.outlasts
  const endMs = 95_000 + timings.ttlMs
  assert.deepEqual([outlasts(endMs - 1), outlasts(endMs), outlasts(endMs, [])], [false, true, false])
  assert.equal(after({ lease: { outlasts: true } }, leases([leaseOf(self)])).state.lease.outlasts, false)
})

test('a read from before the last write, or during a request, does not show that the own lease is missing', () => {
  const isMissing = (lease: Partial<OwnLease>) => after({ lease }, leases([])).state.lease.missing
  assert.equal(isMissing({ writtenAtMs: 99_001 }), false)
  assert.equal(isMissing({ writtenAtMs: 99_000 }), true)
  assert.equal(isMissing({ request: request('renew') }), false)
})

test('a listed master whose own record is withdrawn is out; a withdrawn record of another life does not count', () => {
  const withdrawn = { ...self, state: 'withdrawn' } as const
  const { state, effects } = after({}, leases([leaseOf(withdrawn)]))
  assert.deepEqual(state.phase, { type: 'out', why: 'withdrawn' })
  assert.ok(effects.some((effect) => effect.type === 'report' && effect.event.type === 'out'))
  const ofBefore = after({}, leases([leaseOf({ ...withdrawn, instanceId: 'before' })]))
  assert.equal(ofBefore.state.phase.type, 'listed')
})
