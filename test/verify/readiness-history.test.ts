import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MemberState } from '../../src/verify/member-state.ts'
import { type Circumstances, ReadinessHistory } from '../../src/verify/readiness-history.ts'
import { healthy, incidents } from './fleet-story.ts'

const UNREADY: Partial<MemberState> = incidents.unready
const SILENT: Partial<MemberState> = incidents.silent
const { POSITIVE_INFINITY: EVER } = Number

/** A member that has each of these states from a given time. It is listed unless `around` says otherwise. */
class Noted {
  readonly history = new ReadinessHistory()

  at(nowMs: number, state: Partial<MemberState> = {}, around: Partial<Circumstances> = {}): this {
    const usual = { wasJustListed: true, startedUnready: false, isImpaired: false, isAnother: false, lagMs: 0 }
    this.history.note(nowMs, { ...healthy, name: 'a', address: 'a', ...state }, { ...usual, ...around })
    return this
  }

  /** Whether its master may still state at this moment that its server is not ready. */
  mayStillSeemUnready(nowMs: number, state: Partial<MemberState> = {}, around: Partial<Circumstances> = {}): boolean {
    return this.at(nowMs, state, around).history.mayStillSeemUnready
  }
}

test('a member that was always ready has no unready period and may not leave', () => {
  const { history } = new Noted().at(0).at(10_000)
  assert.equal(history.mayStillSeemUnready, false)
  assert.equal(history.mayLeave(10_000), false)
  assert.deepEqual(
    [history.notServing, history.notServingIfListed, history.cleanlyUnready],
    [undefined, undefined, undefined],
  )
})

test('a master may leave when its server has not served for 2.9 s', () => {
  const { history } = new Noted().at(0).at(1_000, UNREADY).at(2_000, UNREADY)
  assert.deepEqual(
    [3_899, 3_900].map((nowMs) => history.mayLeave(nowMs)),
    [false, true],
  )
})

test('a master whose probes already failed may leave as soon as its server stops serving', () => {
  const { history } = new Noted().at(0).at(1_000, UNREADY, { isImpaired: true })
  assert.equal(history.mayLeave(1_000), true)
})

test('1.5 s after an answering server serves again its master must know that', () => {
  const noted = new Noted().at(0, UNREADY).at(2_899)
  assert.equal(noted.mayStillSeemUnready(4_398), true)
  assert.equal(noted.mayStillSeemUnready(4_399), false)
  assert.equal(noted.history.mayLeave(60_000), false)
})

test('a master that may have published that its server is unready needs 3.5 s to withdraw that', () => {
  const noted = new Noted().at(0, UNREADY).at(2_900)
  assert.equal(noted.mayStillSeemUnready(6_399), true)
  assert.equal(noted.mayStillSeemUnready(6_400), false)
})

test('after probes without an answer a master needs 5 s to see the server ready, whatever it answered since', () => {
  for (const untilMs of [1_000, 10_000]) {
    const noted = new Noted().at(0, SILENT).at(500, UNREADY).at(untilMs)
    assert.equal(noted.mayStillSeemUnready(untilMs + 4_999), true)
    assert.equal(noted.mayStillSeemUnready(untilMs + 5_000), false)
  }
})

test('the delay of slow messages is added', () => {
  const noted = new Noted().at(0, UNREADY).at(1_000)
  assert.equal(noted.mayStillSeemUnready(3_699, {}, { lagMs: 1_200 }), true)
  assert.equal(noted.mayStillSeemUnready(3_700, {}, { lagMs: 1_200 }), false)
})

test('the time restarts whenever the server stops serving or its probes fail', () => {
  const relapsed = new Noted().at(0, UNREADY).at(1_000).at(2_000, UNREADY).at(2_500)
  assert.equal(relapsed.history.mayLeave(2_900), true, 'the server was unready from the beginning')
  assert.equal(relapsed.mayStillSeemUnready(3_999), true)
  assert.equal(relapsed.mayStillSeemUnready(4_000), false)
  const impaired = new Noted().at(0, UNREADY).at(1_000, { impaired: 'rest' }).at(60_000, { impaired: 'rest' })
  assert.equal(impaired.history.mayStillSeemUnready, true)
  assert.equal(impaired.at(60_500).mayStillSeemUnready(63_999), true)
  assert.equal(impaired.mayStillSeemUnready(64_000), false)
})

test('a period without service lasts until the server serves again', () => {
  const noted = new Noted().at(0).at(1_000, UNREADY).at(2_000, SILENT)
  assert.deepEqual(noted.history.notServing, { sinceMs: 1_000, untilMs: EVER })
  assert.deepEqual(noted.at(3_000).at(4_000).history.notServing, { sinceMs: 1_000, untilMs: 3_000 })
  assert.deepEqual(noted.at(5_000, UNREADY).history.notServing, { sinceMs: 5_000, untilMs: EVER })
})

test('a period without service is one of a listed master only if that was listed at its beginning and continues to run', () => {
  const period = { sinceMs: 1_000, untilMs: EVER }
  const ifListed = (...later: readonly Parameters<Noted['at']>[]) => {
    const noted = new Noted().at(1_000, UNREADY)
    for (const args of later) noted.at(...args)
    return noted.history.notServingIfListed
  }
  assert.deepEqual(ifListed([2_000, UNREADY, { wasJustListed: false }]), period)
  assert.deepEqual(ifListed([2_000]), { ...period, untilMs: 2_000 })
  assert.equal(ifListed([2_000, { ...UNREADY, running: false }]), undefined)
  assert.equal(ifListed([2_000, UNREADY, { isAnother: true }]), undefined)
  assert.equal(ifListed([2_000, {}, { isAnother: true }]), undefined)
  // A period that is no longer in place never is again.
  assert.equal(ifListed([2_000, UNREADY, { isAnother: true }], [3_000, UNREADY]), undefined)
  assert.equal(
    new Noted().at(1_000, UNREADY, { wasJustListed: false }).at(2_000, UNREADY).history.notServingIfListed,
    undefined,
  )
  assert.equal(new Noted().at(1_000, { ...UNREADY, running: false }).history.notServingIfListed, undefined)
})

test('a listed master whose server answers unready is cleanly unready until the server serves again', () => {
  const noted = new Noted().at(0).at(1_000, UNREADY).at(2_000, UNREADY)
  assert.equal(noted.history.cleanlyUnreadySinceMs, 1_000)
  assert.deepEqual(noted.history.cleanlyUnready, { sinceMs: 1_000, untilMs: EVER })
  noted.at(3_000).at(4_000)
  assert.equal(noted.history.cleanlyUnreadySinceMs, undefined)
  assert.deepEqual(noted.history.cleanlyUnready, { sinceMs: 1_000, untilMs: 3_000 })
  assert.deepEqual(noted.at(5_000, UNREADY).history.cleanlyUnready, { sinceMs: 5_000, untilMs: EVER })
})

test('a cleanly unready period begins only while the master is listed, and continues when it is not', () => {
  const late = new Noted().at(1_000, UNREADY, { wasJustListed: false }).at(2_000, UNREADY)
  assert.equal(late.history.cleanlyUnreadySinceMs, 2_000)
  assert.equal(late.at(3_000, UNREADY, { wasJustListed: false }).history.cleanlyUnreadySinceMs, 2_000)
  assert.equal(new Noted().at(1_000, UNREADY, { wasJustListed: false }).history.cleanlyUnreadySinceMs, undefined)
})

const etcdFails: Partial<MemberState> = { serves: false, ready: true, etcdFails: true }

const unclean: readonly (readonly [what: string, state: Partial<MemberState>, around?: Partial<Circumstances>])[] = [
  ['its server does not answer', { ...SILENT, ready: false }],
  ['its server is ready, and only its datastore is unavailable', { serves: false }],
  ['its probes time out', { ...UNREADY, impaired: 'rest' }],
  ['it does not run', { ...UNREADY, running: false }],
  ['it is cut off', { ...UNREADY, connected: false }],
  ['it is cut off, and its lease store fails too', { ...etcdFails, connected: false, renewing: false }],
  ['it was unready from its start', UNREADY, { startedUnready: true }],
  ['it does not leave when unready', { ...UNREADY, leavesWhenUnready: false }],
]

for (const [what, state, around] of unclean) {
  test(`a master is not, or no longer, cleanly unready if ${what}`, () => {
    assert.equal(new Noted().at(1_000, state, around).history.cleanlyUnreadySinceMs, undefined)
    const { history } = new Noted().at(1_000, UNREADY).at(2_000, state, around)
    assert.equal(history.cleanlyUnreadySinceMs, undefined)
    assert.equal(history.cleanlyUnready, undefined)
  })
}

test("a master with a lease in another store is cleanly unready when its server's own etcd is dead", () => {
  assert.equal(new Noted().at(1_000, etcdFails).history.cleanlyUnreadySinceMs, 1_000)
  assert.equal(new Noted().at(1_000, { ...etcdFails, connected: false }).history.cleanlyUnreadySinceMs, 1_000)
})
