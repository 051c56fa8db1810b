import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Holder } from '../../../src/kubernetes-service/leases/master-leases.ts'
import {
  contended,
  type Membership,
  type MembershipEffect,
  membershipFault,
  type OutReason,
  type Phase,
} from '../../../src/kubernetes-service/membership/state.ts'
import { startMembership, step } from '../../../src/kubernetes-service/membership/step.ts'
import { membershipTimings } from '../../../src/kubernetes-service/membership/timings.ts'

const self: Holder = {
  instanceId: 'life-1',
  host: 'host-1',
  startedAt: '2026-01-01T00:00:00.000000Z',
  addresses: ['192.0.2.1'],
  ports: { securePort: 6443, nodePort: 0 },
  state: 'ready',
}
const began = startMembership(self)
const listed: Phase = { type: 'listed', departure: undefined }
const leaving: Phase = {
  type: 'leaving',
  mode: 'withdraw',
  step: { type: 'removing' },
  sinceAtMs: 0,
  before: 'ready',
  departure: 'life-1/1',
}
const withdrawn = 'this master was withdrawn and is not listed again until it is restarted'

/** The fault of a membership whose lease was renewed at 0, when the clock shows `nowMs`. */
function faultOf(phase: Phase, { lease = {}, state = self.state, nowMs = 0 }: Given = {}): string | undefined {
  const membership: Membership = {
    ...began,
    phase,
    self: { ...self, state },
    lease: { ...began.lease, renewedAtMs: 0, ...lease },
  }
  return membershipFault(membership, nowMs, { ttlMs: 15_000 })
}

interface Given {
  readonly lease?: Partial<Membership['lease']>
  readonly state?: Holder['state']
  readonly nowMs?: number
}

const out = (why: OutReason): Phase => ({ type: 'out', why })

const table: readonly [description: string, phase: Phase, given: Given, fault: string | undefined][] = [
  ['that has renewed its lease in time', listed, { nowMs: 14_999 }, undefined],
  ['whose record states failing', listed, { state: 'failing' }, undefined],
  [
    'that has not renewed its lease for a TTL',
    listed,
    { nowMs: 15_000 },
    'the lease of this master was not renewed for 15s',
  ],
  [
    'that has not renewed its lease for longer than a TTL',
    listed,
    { nowMs: 75_999 },
    'the lease of this master was not renewed for 1m15s',
  ],
  ['without its lease', listed, { lease: { missing: true } }, 'the lease of this master is missing'],
  [
    'whose record states unready',
    listed,
    { state: 'unready' },
    'the holder record of this master has the state unready',
  ],
  ['that another process has withdrawn', out('withdrawn'), {}, withdrawn],
  ['that has left after a stop', out('left'), { lease: { renewedAtMs: undefined } }, undefined],
  ['that leaves', leaving, { lease: { renewedAtMs: undefined }, nowMs: 60_000 }, undefined],
  ['that was never listed', { type: 'joining', sinceAtMs: 0 }, { lease: { renewedAtMs: undefined } }, undefined],
]

for (const [description, phase, given, fault] of table) {
  test(`a master ${description}: ${fault ?? 'nothing is wrong'}`, () => assert.equal(faultOf(phase, given), fault))
}

test('a lease that had to be created again is reported as corrected, a lease that was only renewed is not', () => {
  const timings = membershipTimings({ leaseTtlMs: 15_000, reconcileIntervalMs: 10_000, readinessProbePeriodMs: 1_000 })
  let state = began
  const reported: unknown[] = []
  for (const [nowMs, input] of [
    [0, 'corrected'],
    [1_000, 'corrected'],
    [60_000, 'written'],
  ] as const) {
    const effects: MembershipEffect[] = []
    state = contended(state, input, { nowMs, timings, effects })
    for (const effect of effects) {
      if (effect.type === 'report' && effect.event.type === 'contention') reported.push([input, effect.event.corrected])
    }
  }
  assert.ok(reported.length >= 2)
  for (const one of reported)
    assert.ok(Array.isArray(one) && one[1] === (one[0] === 'corrected'), JSON.stringify(reported))
})

test('a master that returns to the list repeats a write that was refused or met a conflict', () => {
  const timings = membershipTimings({ leaseTtlMs: 15_000, reconcileIntervalMs: 10_000, readinessProbePeriodMs: 1_000 })
  for (const outcome of ['conflict', 'refused'] as const) {
    const state: Membership = {
      ...began,
      phase: { ...leaving, step: { type: 'listing', sent: true } } as Phase,
      lease: { ...began.lease, renewedAtMs: 0 },
    }
    const { effects } = step(state, { type: 'list', outcome }, 1_000, timings)
    assert.deepEqual(
      effects.map(({ type }) => type),
      ['write-list'],
      outcome,
    )
  }
})

test('a stopping master whose own server does not answer leaves the list even if no other master is ready', () => {
  const timings = membershipTimings({ leaseTtlMs: 15_000, reconcileIntervalMs: 10_000, readinessProbePeriodMs: 1_000 })
  const needsOthers = (answeredAtMs: number, mode: 'withdraw' | 'always' = 'withdraw'): unknown => {
    const state: Membership = {
      ...began,
      server: { ...began.server, answeredAtMs },
      phase: { ...leaving, mode, step: { type: 'writing', sent: false } } as Phase,
    }
    const { effects } = step(state, { type: 'timer' }, leaving.sinceAtMs + 1_000, timings)
    return effects.map((effect) => effect.type === 'write-list' && effect.needsOthers)
  }
  assert.deepEqual(needsOthers(leaving.sinceAtMs), [true])
  assert.deepEqual(needsOthers(leaving.sinceAtMs - 1), [false])
  assert.deepEqual(needsOthers(leaving.sinceAtMs, 'always'), [false])
})

test('a record with different ports or addresses triggers a reconciliation at once', () => {
  const timings = membershipTimings({ leaseTtlMs: 15_000, reconcileIntervalMs: 10_000, readinessProbePeriodMs: 1_000 })
  const span = { beganMs: Date.parse(self.startedAt), nowMs: Date.parse(self.startedAt) }
  const other: Holder = { ...self, instanceId: 'life-2', host: 'host-2', addresses: ['192.0.2.2'] }
  const read = (holder: Holder): Extract<Parameters<typeof step>[1], { type: 'leases' }> => ({
    type: 'leases',
    sentAtMs: 0,
    leases: [
      { address: '192.0.2.1', holder: self },
      { address: '192.0.2.2', holder },
    ],
    span,
    requested: false,
  })
  const effectsOf = (changed: Holder): readonly MembershipEffect[] =>
    step(step({ ...began, phase: listed }, read(other), 0, timings).state, read(changed), 0, timings).effects
  for (const change of [
    { ports: { securePort: 6444, nodePort: 0 } },
    { ports: { securePort: 6443, nodePort: 30_001 } },
    { addresses: ['192.0.2.2', '2001:db8::2'] },
  ]) {
    const reconciles = effectsOf({ ...other, ...change }).some(({ type }) => type === 'reconcile')
    assert.ok(reconciles, JSON.stringify(change))
  }
  assert.deepEqual(effectsOf({ ...other }), [])
})
