import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemberHistory } from '../../src/verify/member-history.ts'
import type { MemberState } from '../../src/verify/member-state.ts'
import {
  addedAddresses,
  ageOf,
  departureLagMs,
  isUnguarded,
  latenessOf,
  listedNow,
  type Moment,
  mayHaveOmittedRenewal,
  mustHaveRemoved,
  names,
  observers,
  recoveryMs,
  removedAddresses,
  seconds,
  sharesShorterLease,
  suspicionMs,
} from '../../src/verify/moment.ts'
import { defaultBounds, type Listing } from '../../src/verify/observation.ts'
import { healthy } from './fleet-story.ts'

const KUBE = { kind: 'kube-apiserver' } as const
/** The delay of each message. It makes everything that a master does 1.2 s late. */
const SLOW = { delayMs: 100 }
const GONE = { running: false, healthy: false, renewing: false, ended: true, connected: false }

/** The history of a member whose address is its name. It is healthy at 0, and then has these states in turn. */
function member(
  name: string,
  first: Partial<MemberState> = {},
  ...later: readonly (readonly [atMs: number, state: Partial<MemberState>])[]
): MemberHistory {
  const state = { ...healthy, name, address: name, ...first }
  const history = new MemberHistory(state, 0, defaultBounds)
  history.note(0, false)
  for (const [atMs, change] of later) {
    Object.assign(state, change)
    history.note(atMs, false)
  }
  return history
}

function listing(addresses: readonly string[] | undefined, more: Partial<Listing> = {}): Listing {
  return { atMs: 0, object: 'slice', addresses, byDamage: false, by: undefined, ...more }
}

function moment(more: Partial<Moment>): Moment {
  return { nowMs: 0, bounds: defaultBounds, histories: [], leasesSinceMs: 0, ...more } as Moment
}

test("after an outage a lease may count for its TTL, at least kube-apiserver's, plus the last attempt", () => {
  assert.deepEqual([3_000, 15_000, 15_001, 60_000].map(suspicionMs), [17_000, 17_000, 17_001, 62_000])
})

test("the recovery time grows by the part of the longest TTL beyond kube-apiserver's TTL", () => {
  const [short, usual, long] = [5_000, 15_000, 40_000].map((leaseTtlMs, index) => member(`${index}`, { leaseTtlMs }))
  assert.ok(short && usual && long)
  const recovery = (...histories: readonly MemberHistory[]): number => recoveryMs({ bounds: defaultBounds, histories })
  assert.deepEqual([recovery(), recovery(short), recovery(usual)], [20_000, 20_000, 20_000])
  assert.equal(recovery(short, long, usual), 45_000)
})

test('the listed addresses are those of the slice, not of the Endpoints', () => {
  const endpoints = listing(['other'], { object: 'endpoints' })
  assert.deepEqual(listedNow(moment({ latest: { slice: listing(['a', 'b']), endpoints } })), ['a', 'b'])
  assert.deepEqual(listedNow(moment({ latest: { slice: listing(undefined), endpoints } })), [])
  assert.deepEqual(listedNow(moment({ latest: { slice: undefined, endpoints } })), [])
})

test('apiserver-bootstrap masters must correct the list if any exist, otherwise kube-apiservers; excluded members need not', () => {
  const [a, b, k] = [member('a'), member('b'), member('k', KUBE)]
  assert.deepEqual(observers([k, a, b]), [a, b])
  assert.deepEqual(observers([k, a, b], ['a']), [b])
  assert.deepEqual(observers([k, a], ['a']), [], 'no kube-apiserver takes the place of ours')
  assert.deepEqual(observers([k, member('l', KUBE)], ['l']), [k])
})

test('a lease shared by several holders is as short as the shortest or slowest holder makes it', () => {
  const one = member('vip', { leaseTtlMs: 15_000 })
  const shorter = member('vip', { leaseTtlMs: 14_000 })
  const tooSlow = member('vip', { delayMs: 417 })
  const slow = member('vip', { delayMs: 416 })
  const elsewhere = [member('a', { leaseTtlMs: 5_000 }), member('b', { delayMs: 417 })]
  assert.equal(sharesShorterLease(one, [one, member('vip'), slow, ...elsewhere]), false)
  assert.equal(sharesShorterLease(one, [one, shorter]), true)
  assert.equal(sharesShorterLease(shorter, [one, shorter]), false)
  assert.equal(sharesShorterLease(one, [one, tooSlow]), true)
  // The lease may still be that of the last life, while the present life asks for a shorter one.
  const shortened = member('vip', {}, [1_000, { leaseTtlMs: 12_000 }])
  assert.deepEqual([shortened.ttlMs, sharesShorterLease(shortened, [shortened])], [15_000, true])
})

test('after damage to objects a kube-apiserver may miss a tick for a TTL, an interval and its message delay', () => {
  const missed = (of: MemberHistory, sinceMs: number): boolean =>
    mayHaveOmittedRenewal(of, moment({ nowMs: 100_000, objectsDamagedAtMs: 100_000 - sinceMs, damagedAtMs: 100_000 }))
  const times = [0, 25_000, 25_001, 26_200, 26_201]
  assert.deepEqual(
    times.map((sinceMs) => missed(member('k', KUBE), sinceMs)),
    [true, true, false, false, false],
  )
  assert.deepEqual(
    times.map((ms) => missed(member('k', { ...KUBE, ...SLOW }), ms)),
    [true, true, true, true, false],
  )
  assert.equal(missed(member('a'), 0), false)
})

test('only a kube-apiserver, or an unknown writer beside one, writes a slice without a guard', () => {
  const all = [member('a'), member('k', KUBE)]
  const by = (name: string | undefined, object: Listing['object'] = 'slice') =>
    isUnguarded(listing([], { by: name, object }), all)
  assert.deepEqual([by('k'), by('a'), by(undefined), by('k', 'endpoints')], [true, false, true, false])
  assert.equal(isUnguarded(listing([]), [member('a')]), false)
})

test('the age of a version is the lateness of its writer, or the greatest lateness if the writer is unknown', () => {
  const all = [member('a', SLOW), member('b', { delayMs: 10 })]
  const age = (by: string | undefined): number => ageOf(listing([], { by }), all)
  assert.deepEqual([age('a'), age('b'), age('c'), age(undefined)], [1_200, 120, 0, 1_200])
})

/** The last moment, in milliseconds, at which all of `dead` may still be listed; undefined if they always may. */
function lastOf(observer: MemberHistory, dead: readonly MemberHistory[], leasesSinceMs = 0): number | undefined {
  const isOver = (nowMs: number): boolean => mustHaveRemoved(observer, dead, moment({ nowMs, leasesSinceMs }))
  let [from, to] = [0, 10_000_000]
  if (!isOver(to)) return undefined
  while (to - from > 1) {
    const middle = Math.floor((from + to) / 2)
    if (isOver(middle)) to = middle
    else from = middle
  }
  return from
}

test('a dead member must be removed after the end of its lease plus the margin', () => {
  const dead = member('b', {}, [50_000, GONE])
  assert.equal(lastOf(member('a'), [dead]), 67_000)
  assert.equal(lastOf(member('a'), [member('b', { leaseTtlMs: 20_000 }, [50_000, GONE])]), 72_000)
  // A kube-apiserver sees it at its next tick, and a slow master later.
  assert.equal(lastOf(member('k', KUBE), [dead]), 77_000)
  assert.equal(lastOf(member('a', {}, [1_000, SLOW]), [dead]), 69_400)
})

test('of several dead members the last one decides; a member that may be alive need never be removed', () => {
  const [early, late] = [member('b', {}, [50_000, GONE]), member('c', {}, [60_000, GONE])]
  assert.equal(lastOf(member('a'), [early, late]), 77_000)
  assert.equal(lastOf(member('a'), [early, member('c')]), undefined)
  assert.equal(lastOf(member('a'), []), 0)
})

test('an unhealthy observer need not remove members; after its start or an outage it first waits for renewals', () => {
  const dead = member('b', {}, [50_000, GONE])
  assert.equal(lastOf(member('a', { healthy: false }), [dead]), undefined)
  const started = member('a', { healthy: false }, [60_000, { healthy: true }])
  assert.equal(lastOf(started, [dead]), 60_000 + 17_000 + 2_000)
  assert.equal(lastOf(member('a'), [dead], 70_000), 70_000 + 17_000 + 2_000)
  assert.equal(lastOf(started, [dead], 70_000), 70_000 + 17_000 + 2_000)
  // It waits for the longer of two TTLs: its own, or that of the dead member.
  const longOwn = member('a', { healthy: false, leaseTtlMs: 30_000 }, [60_000, { healthy: true }])
  assert.equal(lastOf(longOwn, [dead]), 60_000 + 32_000 + 2_000)
  assert.equal(lastOf(started, [member('b', { leaseTtlMs: 30_000 }, [50_000, GONE])]), 60_000 + 32_000 + 2_000)
})

test('a master is late by its message delay, and a kube-apiserver by a tick more', () => {
  assert.deepEqual([member('a'), member('a', SLOW)].map(latenessOf), [0, 1_200])
  assert.deepEqual([member('k', KUBE), member('k', { ...KUBE, ...SLOW })].map(latenessOf), [10_000, 11_200])
})

test('a departure is late by two rounds of its own messages and one of the fastest living master that can confirm it', () => {
  const leaving = member('a', SLOW)
  const others = [member('b', { delayMs: 50 }), member('c', { delayMs: 20 }), member('d', {}, [0, GONE])]
  const lag = (...histories: readonly MemberHistory[]): number => departureLagMs(leaving, moment({ histories }))
  assert.equal(lag(leaving, ...others), 2_400 + 240)
  assert.equal(lag(leaving), 2_400)
  const kube = member('k', KUBE)
  assert.equal(departureLagMs(kube, moment({ histories: [kube] })), 10_000)
})

test('addresses that a version drops are removed and new ones are added, except in damage', () => {
  const since = new Map<string, number>()
  const change = (before: Listing | undefined, after: Listing) => {
    const successor = { listing: after, before, since }
    return [removedAddresses(successor), addedAddresses(successor)]
  }
  assert.deepEqual(change(listing(['a', 'b']), listing(['b', 'c'])), [['a'], ['c']])
  assert.deepEqual(change(listing(['a']), listing(undefined)), [['a'], []])
  assert.deepEqual(change(listing(undefined), listing(['a'])), [[], ['a']])
  assert.deepEqual(change(undefined, listing(['a'])), [[], ['a']])
  assert.deepEqual(change(listing(['a', 'b']), listing(['b', 'c'], { byDamage: true })), [[], []])
})

test('seconds and names format durations and lists as text', () => {
  assert.deepEqual([0, 1_240, 1_260, 61_000].map(seconds), ['0.0 s', '1.2 s', '1.3 s', '61.0 s'])
  assert.deepEqual([names(['a', 'b']), names([]), names(undefined)], ['a, b', 'nobody', 'nobody'])
})
