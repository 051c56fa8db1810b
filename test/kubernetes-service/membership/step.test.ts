import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ReadinessAnswer } from '../../../src/kube/readiness.ts'
import type { Holder, HolderState, MasterLease } from '../../../src/kubernetes-service/leases/master-leases.ts'
import { listedAddresses } from '../../../src/kubernetes-service/members.ts'
import { leasesForList } from '../../../src/kubernetes-service/membership/fleet.ts'
import { failsByEtcd, isServing, nextReadiness } from '../../../src/kubernetes-service/membership/readiness.ts'
import type { MembershipEffect, MembershipInput, OnShutdown } from '../../../src/kubernetes-service/membership/state.ts'
import { startMembership, step, wakeAtMs } from '../../../src/kubernetes-service/membership/step.ts'
import { membershipTimings, type TimingSettings } from '../../../src/kubernetes-service/membership/timings.ts'
import { holder as holderOf } from './one-input.ts'

const defaults: TimingSettings = { leaseTtlMs: 15_000, reconcileIntervalMs: 10_000, readinessProbePeriodMs: 1_000 }
const span = { beganMs: Date.UTC(2026, 0, 1), nowMs: Date.UTC(2026, 0, 1) }

function holder(number: number, state: HolderState = 'ready', more: Partial<Holder> = {}): Holder {
  return holderOf(number, { state, ...more })
}

function leaseOf(one: Holder): MasterLease {
  return { address: one.addresses[0] ?? '', holder: one }
}

/** The answers of a server to a probe. */
const answers = {
  ready: { answered: true, ready: true, checks: [] },
  failing: { answered: true, ready: false, checks: [] },
  'etcd-fails': { answered: true, ready: false, checks: [{ name: 'etcd', ok: false }] },
  refuses: { answered: true, ready: false, checks: [], refused: 'HTTP status 401' },
  silent: { answered: false, reason: 'no answer' },
} as const satisfies Readonly<Record<string, ReadinessAnswer>>

/** Master number 1. The test plays its surroundings, and answers requests at once unless it holds them back. */
class Played {
  readonly timings
  nowMs = 0
  state = startMembership(holder(1))
  /** Every effect so far, with its time: `renew ready`, `probe`, … */
  readonly log: string[] = []
  /** The effects that write the list. */
  readonly lists: Extract<MembershipEffect, { type: 'write-list' }>[] = []
  /** The leases of the others. */
  others: Holder[] = []
  /** The addresses of kube-apiservers. */
  foreign: string[] = []
  own: Holder | undefined
  /** The last renewals that the store shows, by host. */
  renewals: Readonly<Record<string, string>> = {}
  server: keyof typeof answers = 'ready'
  /** `held`: writes are answered by the test. */
  store: 'answers' | 'refuses' | 'hangs' | 'held' = 'answers'
  /** Whether the server is also probed when the step does not ask for it. */
  isProbed = true
  span = span
  #probedAtMs = -1_000
  #limits: { readonly atMs: number; readonly input: MembershipInput }[] = []

  constructor(settings: Partial<TimingSettings> = {}) {
    this.timings = membershipTimings({ ...defaults, ...settings })
  }

  input(input: MembershipInput): void {
    const { state, effects } = step(this.state, input, this.nowMs, this.timings)
    this.state = state
    for (const effect of effects) this.#answer(effect)
  }

  /** Lets time pass, in steps of 50 ms, with a probe each second. */
  advance(ms: number): void {
    for (const endMs = this.nowMs + ms; this.nowMs < endMs; ) {
      this.nowMs += 50
      for (const { input } of this.#limits.filter(({ atMs }) => atMs <= this.nowMs)) this.input(input)
      this.#limits = this.#limits.filter(({ atMs }) => atMs > this.nowMs)
      if (this.isProbed && this.nowMs - this.#probedAtMs >= 1_000) this.#probe(false)
      const wakeMs = wakeAtMs(this.state, this.nowMs - 50, this.timings)
      if (wakeMs !== undefined && wakeMs <= this.nowMs) this.input({ type: 'timer' })
    }
  }

  changed(): void {
    this.input({ type: 'changed' })
  }

  stop(mode: OnShutdown): void {
    this.input({ type: 'stop', mode })
  }

  get listed(): readonly string[] {
    return listedAddresses(this.state.fleet.leases)
  }

  times(effect: string): readonly number[] {
    return this.log.filter((line) => line.endsWith(` ${effect}`)).map((line) => Number(line.split(' ')[0]))
  }

  #probe(requested: boolean): void {
    this.#probedAtMs = this.nowMs
    const answer = answers[this.server]
    const readiness = nextReadiness(this.state.server.readiness, answer, this.nowMs)
    const { answered } = answer
    const [serving, byEtcd] = [isServing(answer), failsByEtcd(answer)]
    const sentAtMs = this.nowMs
    this.input({ type: 'probed', sentAtMs, answered, serving, failsByEtcd: byEtcd, readiness, requested })
  }

  #showLeases(requested: boolean): void {
    const held = [...this.others, ...(this.own === undefined ? [] : [this.own])].map(leaseOf)
    const renewed = held.map((lease) => ({ ...lease, renewal: this.renewals[lease.holder?.host ?? ''] }))
    const leases = [...renewed, ...this.foreign.map((address) => ({ address }))]
    this.input({ type: 'leases', sentAtMs: this.nowMs, leases, span: this.span, requested })
  }

  #answer(effect: MembershipEffect): void {
    if (effect.type === 'reconcile') return
    const detail = effect.type === 'report' ? effect.event.type : 'holder' in effect ? effect.holder.state : ''
    this.log.push(`${this.nowMs} ${effect.type}${detail === '' ? '' : ` ${detail}`}`)
    switch (effect.type) {
      case 'report':
        return
      case 'probe':
        this.#probe(true)
        return
      case 'read': {
        if (this.store !== 'answers') {
          this.input({ type: 'read-failed' })
          return
        }
        this.#showLeases(true)
        return
      }
      case 'write-list':
        this.lists.push(effect)
        // The runner reads the leases before it writes the list.
        if (this.store === 'answers') this.#showLeases(false)
        this.input({ type: 'list', outcome: 'written' })
        return
      default:
        if (this.store === 'refuses') {
          this.input({ type: 'failed', failure: 'unknown' })
          return
        }
        if (this.store === 'held') return
        if (this.store === 'hangs') {
          // The store gives up a request after that time.
          this.#limits.push({
            atMs: this.nowMs + this.timings.attemptMs,
            input: { type: 'failed', failure: 'unknown' },
          })
          return
        }
        this.own = effect.type === 'remove' ? undefined : effect.holder
        this.input({ type: 'done' })
    }
  }
}

function listedMaster(settings: Partial<TimingSettings> = {}, others: Holder[] = []): Played {
  const played = new Played(settings)
  played.others = others
  played.advance(50)
  assert.equal(played.state.phase.type, 'listed')
  return played
}

test('a lease is renewed each interval, and at once when it has disappeared', () => {
  const played = listedMaster()
  played.advance(25_000)
  played.own = undefined
  played.changed()
  played.advance(12_000)
  assert.deepEqual(played.times('renew ready'), [50, 10_050, 20_050, 25_050, 35_050])
})

for (const [ttl, interval] of [
  [15, 10],
  [3, 1],
  [3, 2],
  [2, 1],
  [60, 40],
] as const) {
  test(`a lease of ${ttl} s that is renewed each ${interval} s survives two renewals in a row that hang`, () => {
    const played = listedMaster({ leaseTtlMs: ttl * 1_000, reconcileIntervalMs: interval * 1_000 })
    const [joinedMs = 0] = played.times('renew ready')
    played.store = 'hangs'
    while (played.times('renew ready').length < 3) played.advance(50)
    played.store = 'answers'
    while (played.times('renew ready').length < 4) played.advance(50)
    const [, , , thirdMs = 0] = played.times('renew ready')
    assert.ok(thirdMs + played.timings.attemptMs <= joinedMs + ttl * 1_000 + 50, `${thirdMs}`)
  })
}

test('a refused renewal is retried twice after 250 ms, then each second', () => {
  const played = listedMaster()
  played.advance(9_900)
  played.store = 'refuses'
  played.advance(3_000)
  assert.deepEqual(played.times('renew ready'), [50, 10_050, 10_300, 10_550, 11_550, 12_550])
})

test('a refused renewal succeeds at the first retry after the store is back; the next one follows an interval later', () => {
  const played = listedMaster()
  played.advance(9_900)
  played.store = 'refuses'
  played.advance(400)
  assert.equal(played.state.lease.trust.type, 'lost')
  played.store = 'answers'
  played.advance(20_000)
  assert.deepEqual(played.times('renew ready'), [50, 10_050, 10_300, 10_550, 20_550])
})

test('the lease of a server that does not answer is not renewed', () => {
  const played = listedMaster()
  played.server = 'silent'
  played.advance(30_000)
  const renewals = () => played.log.filter((line) => line.includes(' renew ')).length
  assert.equal(renewals(), 1)
  played.server = 'ready'
  played.advance(2_000)
  assert.equal(renewals(), 2)
})

test('the address of an expired lease is removed a margin after a successful renewal of the own lease', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(5_000)
  played.others = []
  played.changed()
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.2'])
  played.advance(100)
  const provedMs = played.times('renew ready').at(-1) ?? 0
  assert.equal(played.times('renew ready').length, 2)
  while (played.listed.length > 1) played.advance(50)
  assert.ok(played.nowMs >= provedMs + played.timings.removalMarginMs)
  assert.ok(played.nowMs <= provedMs + played.timings.removalMarginMs + 50)
})

test('a renewal that was sent before a lease was seen missing does not prove that it has expired', () => {
  const played = listedMaster({}, [holder(2)])
  played.store = 'held'
  played.advance(11_000)
  const read = (): void => {
    const leases = [leaseOf(holder(1))]
    played.input({ type: 'leases', sentAtMs: played.nowMs, leases, span, requested: false })
  }
  const renewals = played.times('renew ready').length
  read()
  // That renewal may be older than an outage in which the other master could not renew.
  played.input({ type: 'done' })
  assert.equal(played.times('renew ready').length, renewals + 1, 'another renewal is sent after the read')
  played.advance(1_000)
  read()
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.2'])
  played.input({ type: 'done' })
  played.advance(1_000)
  read()
  assert.deepEqual(played.listed, ['192.0.2.1'])
})

test('a lease that disappears and is present again within the margin keeps its address listed', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(5_000)
  played.others = []
  played.changed()
  played.advance(100)
  played.others = [holder(2)]
  played.changed()
  played.advance(20_000)
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.2'])
  assert.equal(played.state.fleet.missing.length, 0)
})

test('a master whose own renewals failed removes nobody before its recovery time is over', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(9_000)
  played.store = 'refuses'
  played.advance(3_000)
  played.others = []
  played.own = undefined
  played.store = 'answers'
  played.changed()
  played.advance(1_500)
  const backMs = played.times('renew ready').at(-1) ?? 0
  while (played.listed.length > 1) played.advance(50)
  assert.ok(played.nowMs >= backMs + played.timings.recoveryMs, `${played.nowMs} ${backMs}`)
  assert.ok(played.nowMs <= backMs + played.timings.recoveryMs + 1_000)
})

test('a master that was frozen when its renewal was due removes nobody before its recovery time is over', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(11_000)
  // The lease was renewed after 10.05 s.
  played.nowMs = 21_600
  played.others = []
  played.changed()
  played.advance(100)
  const backMs = played.times('renew ready').at(-1) ?? 0
  assert.equal(backMs, 21_600)
  while (played.listed.length > 1) played.advance(50)
  assert.ok(played.nowMs >= backMs + played.timings.recoveryMs, `${played.nowMs} ${backMs}`)
})

test('a master that was frozen between the read and the renewal with which it joins is in recovery', () => {
  const trustAfter = (frozenMs: number): string => {
    const timings = membershipTimings(defaults)
    const readiness = { phase: 'ready', failures: 0, failingSinceMs: undefined } as const
    const probed = { type: 'probed', answered: true, serving: true, readiness, requested: false } as const
    let { state } = step(startMembership(holder(1)), { ...probed, sentAtMs: 0 }, 0, timings)
    state = step(state, { ...probed, sentAtMs: frozenMs }, frozenMs, timings).state
    const leases = [leaseOf(holder(2))]
    state = step(state, { type: 'leases', sentAtMs: 0, leases, span, requested: true }, frozenMs, timings).state
    return step(state, { type: 'done' }, frozenMs, timings).state.lease.trust.type
  }
  assert.equal(trustAfter(4_900), 'steady')
  assert.equal(trustAfter(5_000), 'recovering')
})

test('after failed renewals a master removes at once only dead masters that have renewed since then', () => {
  const played = listedMaster({}, [holder(2), holder(3), holder(4)])
  played.renewals = { 'host-2': 'a', 'host-3': 'a', 'host-4': 'a' }
  played.changed()
  played.advance(9_000)
  played.store = 'refuses'
  played.advance(3_000)
  // These renewals came before the first read after the failure. They prove nothing about the time after it.
  played.renewals = { 'host-2': 'b', 'host-3': 'a', 'host-4': 'b' }
  played.store = 'answers'
  played.advance(1_000)
  const backMs = played.times('renew ready').at(-1) ?? 0
  played.changed()
  played.renewals = { 'host-2': 'c', 'host-3': 'a', 'host-4': 'b' }
  played.changed()
  played.others = []
  played.changed()
  played.advance(1_000)
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.3', '192.0.2.4'])
  while (played.listed.length > 1) played.advance(50)
  assert.ok(played.nowMs >= backMs + played.timings.recoveryMs, `${played.nowMs} ${backMs}`)
})

test('a master whose server failed at its last renewal after an outage stays listed until the recovery time is over', () => {
  const played = listedMaster({}, [holder(2), holder(3)])
  const renew = (renewals: Readonly<Record<string, string>>, of2: HolderState): void => {
    played.renewals = renewals
    played.others = [{ ...holder(2), state: of2 }, holder(3)]
    played.changed()
  }
  played.advance(9_000)
  played.store = 'refuses'
  played.advance(3_000)
  played.store = 'answers'
  played.advance(1_000)
  const backMs = played.times('renew ready').at(-1) ?? 0
  renew({ 'host-2': 'a', 'host-3': 'a' }, 'ready')
  renew({ 'host-2': 'b', 'host-3': 'b' }, 'ready')
  // Then the server of master 2 hangs once more, and its lease ends with it.
  renew({ 'host-2': 'c', 'host-3': 'c' }, 'failing')
  played.others = []
  played.changed()
  played.advance(1_000)
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.2'])
  while (played.listed.length > 1) played.advance(50)
  assert.ok(played.nowMs >= backMs + played.timings.recoveryMs, `${played.nowMs} ${backMs}`)
})

test('a renewal that was seen before the own renewals failed again does not count', () => {
  const played = listedMaster({}, [holder(2)])
  const fail = (): void => {
    played.store = 'refuses'
    played.advance(12_000)
    played.store = 'answers'
    played.advance(2_000)
  }
  fail()
  for (const renewal of ['a', 'b']) {
    played.renewals = { 'host-2': renewal }
    played.changed()
  }
  fail()
  played.others = []
  played.changed()
  played.advance(2_000)
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.2'])
})

test('an unanswered probe has no effect once a later probe was answered', () => {
  const played = listedMaster()
  const sentAtMs = played.nowMs + 100
  played.advance(3_000)
  const { readiness } = played.state.server
  played.input({ type: 'probed', sentAtMs, answered: false, serving: false, readiness, requested: true })
  assert.equal(played.state.lease.trust.type, 'steady')
  const silentMs = played.nowMs + 50
  played.server = 'silent'
  played.advance(50)
  played.input({ type: 'probed', sentAtMs: silentMs, answered: false, serving: false, readiness, requested: true })
  assert.equal(played.state.lease.trust.type, 'lost')
})

test('a renewal whose probe was not answered is repeated soon, not an interval later', () => {
  const played = listedMaster()
  played.advance(3_000)
  const { readiness } = played.state.server
  played.input({
    type: 'probed',
    sentAtMs: played.nowMs + 1,
    answered: false,
    serving: true,
    readiness,
    requested: true,
  })
  const before = played.times('renew ready').length
  played.advance(2_000)
  assert.equal(played.times('renew ready').length, before + 1)
  assert.equal(played.state.lease.trust.type, 'recovering')
})

test('a server that answers but refuses to state its readiness confirms no departure', () => {
  const played = listedMaster()
  played.advance(9_000)
  played.others = [holder(2, 'failing', { departure: 'life-2/1' })]
  const confirms = () => played.own?.confirms ?? []
  const { readiness } = played.state.server
  const probe = { type: 'probed', answered: true, serving: true, readiness, requested: false } as const
  played.input({ ...probe, sentAtMs: played.nowMs, refused: true })
  played.input({
    type: 'leases',
    sentAtMs: played.nowMs,
    leases: [...played.others, ...(played.own ? [played.own] : [])].map(leaseOf),
    span,
    requested: false,
  })
  played.input({ ...probe, sentAtMs: played.nowMs + 1, refused: true })
  assert.deepEqual(confirms(), [])
  played.advance(9_000)
  assert.deepEqual(confirms(), ['life-2/1'])
})

test('an unready master leaves the list only after another master has confirmed this departure', () => {
  const played = listedMaster({}, [holder(2), holder(3, 'ready', { confirms: ['life-1/0'] })])
  played.advance(3_000)
  played.server = 'failing'
  played.advance(20_000)
  assert.equal(played.own?.state, 'failing')
  const { departure = '' } = played.own ?? {}
  played.others = [holder(2, 'ready', { confirms: [departure] }), holder(3)]
  played.changed()
  assert.equal(played.own?.state, 'unready')
  played.server = 'ready'
  played.advance(4_000)
  assert.equal(played.own?.state, 'ready')
})

test('a kube-apiserver, which has no record, counts as serving when a master leaves', () => {
  const played = listedMaster({}, [holder(2)])
  played.foreign = ['192.0.2.9']
  played.others = []
  played.advance(500)
  played.stop('withdraw')
  assert.equal(played.state.phase.type === 'out' && played.state.phase.why, 'left')
})

test('a failing master leaves the list beside a kube-apiserver, unless only its etcd check fails', () => {
  for (const [server, expected] of [
    ['failing', 'unready'],
    ['etcd-fails', 'failing'],
  ] as const) {
    const played = listedMaster()
    played.foreign = ['192.0.2.9']
    played.changed()
    played.server = server
    played.advance(10_000)
    assert.equal(played.own?.state, expected, server)
  }
})

test('a departure is confirmed by a successful probe after it was read; a failed probe makes the record failing', () => {
  for (const server of ['ready', 'failing'] as const) {
    const played = listedMaster({}, [holder(2)])
    // This server has served for a while, because one that has just recovered confirms nothing.
    played.advance(9_500)
    played.server = server
    played.others = [holder(2, 'failing', { departure: 'life-2/1' })]
    const probes = played.times('probe').length
    played.changed()
    assert.equal(played.times('probe').length, probes + 1)
    // The record never stated anything that the probe had not shown.
    assert.equal(played.times('mark ready').length, server === 'ready' ? 1 : 0)
    assert.deepEqual(
      [played.own?.state, played.own?.confirms],
      server === 'ready' ? ['ready', ['life-2/1']] : ['failing', []],
    )
  }
})

test('a stopped master leaves when another confirms, waits for one that does not, and stays when nobody serves', () => {
  const outcomes = [
    { others: [], why: 'last-one', afterMs: 0 },
    { others: [holder(2, 'failing')], why: 'last-one', afterMs: 0 },
    { others: [holder(2, 'ready', { confirms: ['life-1/1'] })], why: 'left', afterMs: 0 },
    { others: [holder(2)], why: 'left', afterMs: membershipTimings(defaults).awaitConfirmationMs },
  ]
  for (const { others, why, afterMs } of outcomes) {
    const played = listedMaster({}, [holder(2)])
    played.advance(3_000)
    played.others = others
    played.changed()
    const stoppedMs = played.nowMs
    played.stop('withdraw')
    while (played.state.phase.type !== 'out') played.advance(50)
    assert.equal(played.state.phase.why, why)
    assert.equal(played.nowMs - stoppedMs, afterMs)
    assert.equal(played.own?.state, why === 'left' ? undefined : 'ready')
  }
})

test('a stopping master stays when nobody serves, even if it can read that only after its wait', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(3_000)
  played.store = 'held'
  played.stop('withdraw')
  played.own = holder(1, 'leaving', { departure: 'life-1/1' })
  played.input({ type: 'done' })
  played.others = [holder(2, 'failing')]
  played.advance(played.timings.awaitConfirmationMs + 1_000)
  played.store = 'answers'
  while (played.state.phase.type !== 'out') played.advance(50)
  assert.equal(played.state.phase.why, 'last-one')
  assert.deepEqual(played.times('remove withdrawn'), [])
})

test('an unready master that stops announces this as unready, not as leaving; the last one takes that back and stays', () => {
  for (const [others, why] of [
    [[holder(2)], 'left'],
    [[holder(2, 'unready')], 'last-one'],
  ] as const) {
    const played = restarted('failing', 'unready')
    played.advance(2_000)
    played.others = [...others]
    played.changed()
    played.log.length = 0
    played.stop('withdraw')
    // The last master withdraws its announcement at once.
    assert.equal(played.times('mark unready').length, why === 'left' ? 1 : 2)
    if (why === 'left') assert.deepEqual([played.own?.state, played.own?.departure], ['unready', 'life-1/1'])
    while (played.state.phase.type !== 'out') played.advance(50)
    assert.equal(played.state.phase.why, why)
    assert.equal(played.times('mark leaving').length, 0)
    assert.deepEqual([played.own?.state, played.own?.departure], [why === 'left' ? undefined : 'unready', undefined])
  }
})

test('a last master that stops while its record is being written stays with the state of that record', () => {
  for (const state of ['unready', 'ready'] as const) {
    const played = restarted('failing', state === 'unready' ? 'ready' : 'unready')
    played.advance(4_500)
    played.store = 'held'
    if (state === 'unready') {
      const confirms = [played.own?.departure ?? '']
      const found = [holder(2, 'ready', { confirms }), played.own as Holder].map(leaseOf)
      played.input({ type: 'leases', sentAtMs: played.nowMs, leases: found, span, requested: false })
    } else {
      played.server = 'ready'
      played.advance(2_500)
    }
    assert.equal(played.times(`mark ${state}`).length, 1)
    played.stop('withdraw')
    played.store = 'answers'
    played.others = [holder(2, 'failing')]
    played.own = holder(1, state)
    played.input({ type: 'done' })
    while (played.state.phase.type !== 'out') played.advance(50)
    assert.deepEqual([played.state.phase.why, played.own?.state, played.own?.departure], ['last-one', state, undefined])
  }
})

test('a master confirms the stop of an unready master, and suspects no expiry when its lease is gone', () => {
  const played = listedMaster({}, [holder(2, 'unready', { departure: 'life-2/1' }), holder(3, 'unready')])
  played.changed()
  played.advance(500)
  assert.deepEqual(played.own?.confirms, ['life-2/1'])
  played.others = []
  played.changed()
  assert.deepEqual(
    played.state.fleet.missing.map(({ lease }) => lease.address),
    ['192.0.2.3'],
  )
})

test('a stopped master whose server is silent removes its lease at once', () => {
  const played = listedMaster()
  played.advance(500)
  played.server = 'silent'
  played.stop('withdraw')
  assert.equal(played.state.phase.type === 'out' && played.state.phase.why, 'left')
  assert.equal(played.own, undefined)
})

test('with keep a stopped master leaves its lease, with always it removes even the last one', () => {
  const [keeps, goes] = [listedMaster(), listedMaster()]
  keeps.stop('keep')
  goes.stop('always')
  assert.deepEqual([keeps.own?.state, goes.own], ['ready', undefined])
})

test('a withdrawn master no longer renews its lease', () => {
  const played = listedMaster()
  played.own = holder(1, 'withdrawn')
  played.changed()
  assert.equal(played.state.phase.type === 'out' && played.state.phase.why, 'withdrawn')
  played.advance(30_000)
  assert.deepEqual(played.times('renew ready'), [50])
})

/** A sidecar that is restarted while the lease of its earlier life is live. */
function restarted(server: Played['server'], says: Holder['state'] = 'ready'): Played {
  const played = new Played()
  played.server = server
  played.own = holder(1, says, { instanceId: 'earlier' })
  played.others = [holder(2)]
  return played
}

test('a restarted sidecar continues its lease, whatever its server answers', () => {
  for (const [server, says, expected] of [
    ['failing', 'ready', 'failing'],
    ['etcd-fails', 'ready', 'failing'],
    ['refuses', 'ready', 'ready'],
    ['failing', 'unready', 'unready'],
    ['refuses', 'unready', 'unready'],
    ['failing', 'leaving', 'failing'],
  ] as const) {
    const played = restarted(server, says)
    played.advance(25_000)
    assert.equal(played.own?.instanceId, holder(1).instanceId, server)
    assert.equal(played.own?.state, expected, `${server}, ${says}`)
    assert.equal(played.times(`renew ${expected}`).length, 3, `${server}, ${says}`)
  }
})

test('a restarted sidecar does not touch its lease if the server is silent, or if it was withdrawn or has expired', () => {
  for (const [server, says] of [
    ['silent', 'ready'],
    ['failing', 'withdrawn'],
  ] as const) {
    const played = restarted(server, says)
    played.advance(25_000)
    assert.deepEqual([played.own?.instanceId, played.own?.state], ['earlier', says])
  }
  const played = restarted('failing')
  played.own = undefined
  played.advance(25_000)
  assert.equal(played.own, undefined)
})

test('a restarted sidecar does not create a lease again that expired before its first renewal', () => {
  const played = restarted('failing')
  played.store = 'held'
  played.advance(50)
  const read = (...held: readonly Holder[]): void =>
    played.input({ type: 'leases', sentAtMs: played.nowMs, leases: held.map(leaseOf), span, requested: false })
  read(holder(1, 'ready', { instanceId: 'earlier' }), holder(2))
  assert.equal(played.times('renew failing').length, 1)
  read(holder(2))
  played.input({ type: 'failed', failure: 'unknown' })
  played.advance(2_000)
  read(holder(2))
  played.advance(2_000)
  assert.equal(played.times('renew failing').length, 1)
})

test('a restarted sidecar announces its departure after three seconds of failure, like any other', () => {
  for (const server of ['failing', 'etcd-fails'] as const) {
    const played = restarted(server)
    played.advance(2_500)
    assert.equal(played.own?.departure, undefined)
    played.advance(2_000)
    assert.notEqual(played.own?.departure, undefined)
  }
})

test('a sidecar leaves the lease of an earlier life alone if a later life has begun since it started', () => {
  for (const startedAt of ['2025-12-31T00:00:00.000000Z', '2026-01-01T00:00:05.000000Z']) {
    const played = restarted('failing')
    played.span = { ...span, nowMs: span.beganMs + 10_000 }
    played.others = [holder(1, 'ready', { instanceId: 'other', startedAt })]
    played.advance(9_000)
    assert.equal(played.own?.instanceId, startedAt.startsWith('2026') ? 'earlier' : 'life-1', startedAt)
  }
})

test('a restarted sidecar with a failing server becomes unready once another master confirms', () => {
  const played = restarted('failing')
  played.advance(4_500)
  assert.equal(played.own?.state, 'failing')
  played.others = [holder(2, 'ready', { confirms: [played.own?.departure ?? ''] })]
  played.changed()
  assert.equal(played.own?.state, 'unready')
  played.server = 'ready'
  played.advance(2_000)
  assert.equal(played.own?.state, 'ready')
})

test('a lease that expired because its master could not renew it does not count as deleted by another client', () => {
  const played = listedMaster()
  played.advance(9_000)
  played.store = 'refuses'
  played.advance(8_100)
  played.own = undefined
  played.store = 'answers'
  played.changed()
  assert.deepEqual(played.times('probe'), [], 'its server has just answered')
  played.advance(1_000)
  assert.ok(played.own !== undefined && !played.state.lease.missing, 'the lease exists again')
  assert.deepEqual(played.times('report contention'), [])
  played.own = undefined
  played.changed()
  assert.equal(played.times('report contention').length, 1, 'the deletion of a live lease is reported')
})

test('a lease that the store still shows after its TTL is renewed although its server fails and another serves', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(3_000)
  played.store = 'refuses'
  played.server = 'etcd-fails'
  played.advance(30_000)
  const before = played.times('renew failing').length
  played.store = 'answers'
  played.changed()
  played.advance(1_000)
  assert.ok(played.times('renew failing').length > before)
})

test('the last master creates its expired lease again although its server does not serve', () => {
  for (const [others, isBack] of [
    [[], true],
    [[holder(2)], false],
  ] as const) {
    const played = listedMaster({}, [...others])
    played.advance(3_000)
    played.store = 'refuses'
    played.server = 'etcd-fails'
    played.advance(30_000)
    played.own = undefined
    played.store = 'answers'
    played.changed()
    played.advance(2_000)
    assert.equal(played.own !== undefined, isBack, `${others.length} others`)
  }
})

test('a failing master becomes ready once its server has served for two seconds, not at its first answer', () => {
  const played = listedMaster({}, [holder(2)])
  played.server = 'failing'
  played.advance(5_000)
  assert.equal(played.own?.state, 'failing')
  played.server = 'ready'
  played.advance(1_500)
  assert.equal(played.own?.state, 'failing')
  played.advance(2_000)
  assert.equal(played.own?.state, 'ready')
})

test('a master confirms no departure after a long failure until servers that failed with it must be back', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(3_000)
  played.server = 'etcd-fails'
  played.advance(30_000)
  played.server = 'ready'
  played.others = [holder(2, 'failing', { departure: 'life-2/1' })]
  played.changed()
  played.advance(23_500)
  assert.deepEqual(played.own?.confirms ?? [], [])
  played.advance(2_500)
  assert.deepEqual(played.own?.confirms, ['life-2/1'])
})

test('a master whose server occasionally fails a probe still confirms a departure', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(3_000)
  played.server = 'etcd-fails'
  played.advance(30_000)
  for (const readyMs of [18_000, 35_000, 59_000]) {
    played.server = 'ready'
    played.advance(readyMs)
    played.server = 'etcd-fails'
    played.advance(1_000)
  }
  played.server = 'ready'
  played.others = [holder(2, 'failing', { departure: 'life-2/1' })]
  played.changed()
  played.advance(9_000)
  assert.deepEqual(played.own?.confirms, ['life-2/1'])
})

test('a server that has failed since before the sidecar started confirms as late as one that failed later', () => {
  const played = new Played({})
  played.others = [holder(2)]
  played.server = 'etcd-fails'
  played.advance(30_000)
  played.server = 'ready'
  played.advance(2_000)
  assert.equal(played.state.phase.type, 'listed')
  played.others = [holder(2, 'failing', { departure: 'life-2/1' })]
  played.changed()
  played.advance(21_000)
  assert.deepEqual(played.own?.confirms ?? [], [])
  played.advance(3_000)
  assert.deepEqual(played.own?.confirms, ['life-2/1'])
})

test('a sidecar that was frozen for long confirms as late as if its server had failed meanwhile', () => {
  for (const [frozenMs, waitsMs] of [
    [10_000, 0],
    [40_000, 31_000],
  ] as const) {
    const played = listedMaster({}, [holder(2)])
    played.advance(20_000)
    played.nowMs += frozenMs
    played.others = [holder(2, 'failing', { departure: 'life-2/1' })]
    played.changed()
    played.advance(waitsMs)
    if (waitsMs > 0) assert.deepEqual(played.own?.confirms ?? [], [])
    played.advance(2_500)
    assert.deepEqual(played.own?.confirms, ['life-2/1'], `frozen for ${frozenMs} ms`)
  }
})

test('a sidecar that was frozen while a probe hung confirms as late as if its server had failed all that time', () => {
  for (const { frozenMs, failsOnMs, waitsMs } of [
    { frozenMs: 40_000, failsOnMs: 0, waitsMs: 31_000 },
    { frozenMs: 11_000, failsOnMs: 9_000, waitsMs: 15_500 },
  ]) {
    const played = listedMaster({}, [holder(2)])
    played.advance(20_000)
    const sentAtMs = played.nowMs
    const { readiness } = played.state.server
    played.nowMs += frozenMs
    played.input({ type: 'probed', sentAtMs, answered: false, serving: false, readiness, requested: false })
    played.server = 'etcd-fails'
    played.advance(failsOnMs)
    played.server = 'ready'
    played.others = [holder(2, 'failing', { departure: 'life-2/1' })]
    played.changed()
    played.advance(waitsMs)
    assert.deepEqual(played.own?.confirms ?? [], [], `frozen for ${frozenMs} ms`)
    played.advance(3_500)
    assert.deepEqual(played.own?.confirms, ['life-2/1'], `frozen for ${frozenMs} ms`)
  }
})

test('an answer that was in flight while the sidecar was frozen confirms no departure', () => {
  for (const { frozenMs, confirms } of [
    { frozenMs: 2_000, confirms: ['life-2/1'] },
    { frozenMs: 40_000, confirms: [] },
  ]) {
    const played = listedMaster({}, [holder(2)])
    played.advance(20_000)
    const { state, timings } = played
    const sentAtMs = played.nowMs + 50
    const leases = [leaseOf(holder(1)), leaseOf(holder(2, 'failing', { departure: 'life-2/1' }))]
    const asked = step(state, { type: 'leases', sentAtMs, leases, span, requested: false }, sentAtMs, timings)
    assert.ok(asked.effects.some(({ type }) => type === 'probe'))
    const { readiness } = state.server
    const probed = { type: 'probed', sentAtMs, answered: true, serving: true, readiness, requested: true } as const
    const { effects } = step(asked.state, probed, sentAtMs + frozenMs, timings)
    const [written] = effects.flatMap((effect) => ('holder' in effect ? [effect.holder] : []))
    assert.deepEqual(written?.confirms, confirms, `frozen for ${frozenMs} ms`)
  }
})

test('a lease that another client deletes is created again only after a new probe of its server', () => {
  for (const [server, comesBack] of [
    ['ready', true],
    ['failing', false],
    ['silent', false],
  ] as const) {
    const played = listedMaster({}, [holder(2)])
    played.advance(3_100)
    played.isProbed = false
    played.server = server
    played.own = undefined
    played.changed()
    assert.equal(played.times('probe').length, 1, `${server}: asked`)
    assert.equal(played.times('renew ready').length, comesBack ? 2 : 1, server)
    played.advance(5_000)
    assert.equal(played.own !== undefined, comesBack, server)
  }
})

test('a lease that is deleted again and again is created ten times at once, then at growing intervals', () => {
  const played = listedMaster()
  for (let taken = 0; taken < 400; taken++) {
    played.own = undefined
    played.changed()
    played.advance(100)
  }
  const times = played.times('renew ready')
  const gaps = times.map((atMs, index) => atMs - (times[index - 1] ?? 0)).slice(1)
  assert.ok(
    gaps.slice(0, 8).every((gapMs) => gapMs <= 100),
    `${gaps}`,
  )
  assert.ok(
    gaps.slice(-3).every((gapMs) => gapMs >= 2_000 && gapMs <= 5_100),
    `${gaps}`,
  )
})

test('a joining master probes its server each second until it serves, however rare the regular probes are', () => {
  const played = new Played()
  played.store = 'refuses'
  played.advance(100)
  assert.equal(played.state.phase.type, 'joining')
  played.server = 'failing'
  played.advance(1_000)
  played.store = 'answers'
  played.isProbed = false
  played.advance(5_000)
  assert.deepEqual(
    played.times('renew ready').filter((atMs) => atMs > 1_000),
    [],
  )
  played.server = 'ready'
  played.advance(1_100)
  assert.equal(played.state.phase.type, 'listed')
})

test('an answer that arrives after a later probe was given up counts, unless a newer answer exists', () => {
  const played = listedMaster()
  const { readiness } = played.state.server
  played.nowMs += 10
  const { nowMs } = played
  played.input({ type: 'probed', sentAtMs: nowMs - 1, answered: false, serving: false, readiness, requested: true })
  assert.equal(played.state.server.serving, false)
  played.input({ type: 'probed', sentAtMs: nowMs - 2, answered: true, serving: true, readiness, requested: false })
  assert.equal(played.state.server.serving, true)
  played.input({ type: 'probed', sentAtMs: nowMs - 1, answered: true, serving: false, readiness, requested: false })
  played.input({ type: 'probed', sentAtMs: nowMs - 2, answered: true, serving: true, readiness, requested: false })
  assert.equal(played.state.server.serving, false, 'an older answer changes nothing')
})

test("a later life's lease that disappears while the store refuses renewals is a suspected expiry", () => {
  const played = listedMaster()
  played.own = holder(1, 'ready', { instanceId: 'later' })
  played.changed()
  played.store = 'refuses'
  played.advance(12_000)
  played.store = 'answers'
  const later = played.own
  played.own = undefined
  played.input({ type: 'leases', sentAtMs: played.nowMs, leases: [leaseOf(holder(2))], span, requested: false })
  assert.equal(later?.instanceId, 'later', 'this life has not renewed the lease')
  assert.ok(played.state.fleet.missing.some(({ lease }) => lease.holder?.instanceId === 'later'))
})

for (const mode of ['withdraw', 'always'] as const) {
  test(`a master that is stopped (${mode}) while its later life's lease has a suspected expiry stays listed`, () => {
    const afterStop = (instanceId: string): unknown => {
      const played = listedMaster({}, [holder(2)])
      played.own = holder(1, 'ready', { instanceId })
      played.changed()
      played.store = 'refuses'
      played.advance(12_000)
      played.own = undefined
      const leases = [leaseOf(holder(2))]
      played.input({ type: 'leases', sentAtMs: played.nowMs, leases, span, requested: false })
      // A master whose server is silent waits for no confirmation.
      played.server = 'silent'
      played.advance(50)
      played.store = 'answers'
      played.stop(mode)
      played.advance(1_000)
      return played.state.phase.type === 'out' && [played.state.phase.why, played.listed]
    }
    assert.deepEqual(afterStop('later'), ['left-listed', ['192.0.2.1', '192.0.2.2']])
    assert.deepEqual(afterStop('life-1'), ['left', ['192.0.2.2']], 'without a later life')
  })
}

test('the own lease is listed even if a read marks it as only found', () => {
  const played = listedMaster()
  const { state } = played
  const found = [state.self, holder(2)].map((one) => ({ ...leaseOf(one), found: true }))
  const others = { subsets: [{ addresses: [{ ip: '192.0.2.2' }] }] }
  const placed = leasesForList(
    { ...state, fleet: { ...state.fleet, leases: found } },
    { endpoints: others, slice: undefined, secondSlices: [], listedBefore: [] },
  )
  assert.deepEqual(placed.map(({ address }) => address).sort(), ['192.0.2.1', '192.0.2.2'])
})

test('a master follows at most 64 departures, those that it saw first, and none of a ready master', () => {
  const forged = (count: number): Holder[] =>
    Array.from({ length: count }, (_, index) => holder(100 + index, 'failing', { departure: `forged/${index}` }))
  const played = listedMaster()
  played.others = [holder(2, 'leaving', { departure: 'life-2/1' }), holder(3, 'ready', { departure: 'life-3/1' })]
  played.changed()
  played.nowMs += 10
  played.others = [...forged(100), ...played.others]
  played.changed()
  const { departures } = played.state.fleet
  assert.equal(departures.length, 64)
  assert.equal(departures[0]?.id, 'life-2/1')
  assert.ok(!departures.some(({ id }) => id === 'life-3/1'))
})

for (const mode of ['withdraw', 'always'] as const) {
  test(`a master that is stopped (${mode}) may ${mode === 'always' ? '' : 'not '}leave the list empty`, () => {
    const played = listedMaster({}, [holder(2)])
    played.server = 'silent'
    played.stop(mode)
    played.advance(10_000)
    assert.deepEqual(
      played.lists.map(({ mayEmpty }) => mayEmpty),
      [mode === 'always'],
    )
  })
}

test('a state that could not be written does not count as recorded', () => {
  const played = listedMaster({}, [holder(2)])
  played.advance(2_000)
  played.store = 'refuses'
  played.server = 'failing'
  played.advance(5_000)
  assert.ok(played.log.some((line) => line.endsWith(' mark failing')))
  assert.equal(played.state.self.state, 'ready')
})

test('a master stays listed although its record shows that an earlier life was withdrawn', () => {
  const played = listedMaster()
  played.advance(2_000)
  played.own = holder(1, 'withdrawn', { instanceId: 'life-0' })
  played.changed()
  played.advance(20_000)
  assert.equal(played.state.phase.type, 'listed')
})

test('a lease lasts from the time when its renewal was sent, however late the answer is', () => {
  const played = listedMaster()
  played.store = 'held'
  while (played.times('renew ready').length < 2) played.advance(50)
  const sentMs = played.times('renew ready').at(-1)
  played.advance(400)
  played.own = holder(1)
  played.input({ type: 'done' })
  assert.equal(played.state.lease.renewedAtMs, sentMs)
})

test('a master that announced its departure is off the list as soon as its lease is gone', () => {
  const played = listedMaster({}, [holder(2, 'leaving'), holder(3)])
  played.advance(2_000)
  played.changed()
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.2', '192.0.2.3'])
  played.others = [holder(3)]
  played.changed()
  assert.deepEqual(played.listed, ['192.0.2.1', '192.0.2.3'])
})
