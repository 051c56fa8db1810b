import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EndpointSlice } from '../../src/kube/resources.ts'
import type { Holder, HolderState, MasterLease } from '../../src/kubernetes-service/leases/master-leases.ts'
import {
  isHeldBy,
  listableLeases,
  listedAddresses,
  masterKey,
  othersPerhapsReady,
  othersReady,
  portsAgreed,
  startedAfter,
} from '../../src/kubernetes-service/members.ts'
import { parseTime } from '../../src/runtime/time-format.ts'

function holder(address: string, state: HolderState = 'ready', more: Partial<Holder> = {}): Holder {
  return {
    instanceId: `${address}-1`,
    host: `host-of-${address}`,
    startedAt: '2026-01-01T00:00:00Z',
    addresses: [address],
    ports: { securePort: 6443, nodePort: 0 },
    state,
    ...more,
  }
}

function lease(address: string, state?: HolderState, more?: Partial<Holder>): MasterLease {
  return { address, holder: holder(address, state, more) }
}

const foreign: MasterLease = { address: '192.0.2.9' }

test('only ready masters are listed, sorted, each address once', () => {
  const leases = [
    lease('192.0.2.3'),
    lease('192.0.2.1'),
    lease('192.0.2.2', 'unready'),
    lease('192.0.2.1', 'ready', { host: 'b' }),
  ]
  assert.deepEqual(listedAddresses(leases), ['192.0.2.1', '192.0.2.3'])
})

test('when no master is ready, all live masters are listed except withdrawn ones', () => {
  const leases = [lease('192.0.2.1', 'unready'), lease('192.0.2.2', 'leaving'), lease('192.0.2.3', 'withdrawn')]
  assert.deepEqual(listedAddresses(leases), ['192.0.2.1', '192.0.2.2'])
})

test('a failing master is listed until it is unready, but does not count as another ready master', () => {
  assert.deepEqual(listedAddresses([lease('192.0.2.1', 'unready'), lease('192.0.2.2')]), ['192.0.2.2'])
  assert.deepEqual(listedAddresses([lease('192.0.2.1', 'failing'), lease('192.0.2.2')]), ['192.0.2.1', '192.0.2.2'])
  const noneReady = [lease('192.0.2.1', 'failing'), lease('192.0.2.2', 'unready')]
  assert.deepEqual(listedAddresses(noneReady), ['192.0.2.1', '192.0.2.2'])
  assert.equal(othersReady([lease('192.0.2.2', 'failing')], holder('192.0.2.1')).length > 0, false)
})

test('a leaving master is listed until it is withdrawn', () => {
  assert.deepEqual(listedAddresses([lease('192.0.2.1', 'leaving'), lease('192.0.2.2')]), ['192.0.2.1', '192.0.2.2'])
  assert.deepEqual(listedAddresses([lease('192.0.2.1', 'withdrawn'), lease('192.0.2.2')]), ['192.0.2.2'])
})

test('a lease that was only found, or has a suspected expiry, preserves a listed address and adds none', () => {
  const current = { metadata: { name: 'kubernetes' }, subsets: [{ addresses: [{ ip: '192.0.2.1' }] }] }
  for (const [state, mark] of [
    ['ready', { expirySuspected: true }],
    // The server may have become ready since the last read.
    ['unready', { expirySuspected: true }],
    ['ready', { found: true }],
  ] as const) {
    const leases = ['192.0.2.1', '192.0.2.2'].map((address) => ({ ...lease(address, state), ...mark }))
    const placed = listableLeases([...leases, lease('192.0.2.3')], { endpoints: current, slice: undefined })
    assert.deepEqual(listedAddresses(placed), ['192.0.2.1', '192.0.2.3'])
  }
})

test('a found lease stays listed if only the slice lists it, unless the Endpoints are newer than the slice', () => {
  const endpoints = { subsets: [{ addresses: [{ ip: '192.0.2.1' }] }] }
  const inSlice = ['192.0.2.1', '192.0.2.3'].map((address) => ({ addresses: [address] }))
  const slice = { addressType: 'IPv4', endpoints: inSlice } as EndpointSlice
  const found = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map((address) => ({ ...lease(address), found: true }))
  assert.deepEqual(listedAddresses(listableLeases(found, { endpoints, slice })), ['192.0.2.1', '192.0.2.3'])
  // Endpoints that are newer than the slice were written by another master, which is about to write the slice.
  const at = <T extends object>(resourceVersion: string, object: T) => ({ ...object, metadata: { resourceVersion } })
  const placed = (older: string, newer: string): readonly string[] =>
    listedAddresses(listableLeases(found, { endpoints: at(older, endpoints), slice: at(newer, slice) }))
  assert.deepEqual(placed('9', '10'), ['192.0.2.1', '192.0.2.3'])
  assert.deepEqual(placed('10', '9'), ['192.0.2.1'])
})

test('if Endpoints are damaged, suspected expiries that the slice still lists are listed again', () => {
  const spoiled = { subsets: [{ addresses: [{ ip: '203.0.113.7' }] }] }
  const slice = { addressType: 'IPv4', endpoints: [{ addresses: ['192.0.2.1'] }] } as EndpointSlice
  const suspected = [lease('192.0.2.1'), lease('192.0.2.2')].map((one) => ({ ...one, expirySuspected: true }))
  assert.deepEqual(listedAddresses(listableLeases(suspected, { endpoints: spoiled, slice })), ['192.0.2.1'])
  const right = { subsets: [{ addresses: [{ ip: '192.0.2.2' }] }] }
  assert.deepEqual(listedAddresses(listableLeases(suspected, { endpoints: right, slice })), ['192.0.2.2'])
})

test('if Endpoints are deleted, suspected expiries that the slice lists are listed again, or all if it is gone too', () => {
  const slice = { addressType: 'IPv4', endpoints: [{ addresses: ['192.0.2.1'] }] } as EndpointSlice
  const suspected = [lease('192.0.2.1'), lease('192.0.2.2')].map((one) => ({ ...one, expirySuspected: true }))
  const both = ['192.0.2.1', '192.0.2.2']
  assert.deepEqual(listedAddresses(listableLeases(suspected, { endpoints: undefined, slice })), ['192.0.2.1'])
  assert.deepEqual(listedAddresses(listableLeases(suspected, { endpoints: undefined, slice: undefined })), both)
})

test('a lease without a holder record counts as ready', () => {
  assert.deepEqual(listedAddresses([foreign, lease('192.0.2.1', 'unready')]), ['192.0.2.9'])
})

test('a master may leave if another ready master, or one without a record, stays', () => {
  const self = holder('192.0.2.1', 'leaving')
  assert.equal(othersReady([lease('192.0.2.1', 'leaving'), lease('192.0.2.2')], self).length > 0, true)
  assert.equal(othersReady([lease('192.0.2.1', 'leaving'), foreign], self).length > 0, true)
  assert.equal(othersReady([lease('192.0.2.1', 'leaving'), lease('192.0.2.2', 'unready')], self).length > 0, false)
  assert.equal(othersReady([lease('192.0.2.1', 'leaving'), lease('192.0.2.2', 'leaving')], self).length > 0, false)
  assert.equal(othersReady([], self).length > 0, false)
})

test('a lease that never ends stays listed, but no master may leave because of it', () => {
  const self = holder('192.0.2.1', 'leaving')
  const ghosts = [foreign, lease('192.0.2.2')].map((one) => ({ ...one, neverEnds: true }))
  assert.deepEqual(othersReady([lease('192.0.2.1', 'leaving'), ...ghosts], self), [])
  assert.deepEqual(listedAddresses([lease('192.0.2.3'), ...ghosts]).toSorted(), ['192.0.2.2', '192.0.2.3', '192.0.2.9'])
})

test('no master may leave because of a lease that has lapsed, but its master may be ready', () => {
  const self = holder('192.0.2.1', 'leaving')
  const lapsed = { ...lease('192.0.2.2'), found: true, lapsed: true }
  assert.deepEqual(othersReady([lapsed], self), [])
  assert.deepEqual(othersPerhapsReady([lapsed], self), [lapsed])
  assert.deepEqual(othersReady([{ ...lapsed, lapsed: false }], self).length, 1)
})

test('a restarted process is the same master; another host at the same address is not', () => {
  const self = holder('192.0.2.1')
  assert.equal(isHeldBy(lease('192.0.2.1', 'ready', { instanceId: 'later' }), self), true)
  assert.equal(isHeldBy(lease('192.0.2.1', 'ready', { host: 'other' }), self), false)
  assert.equal(isHeldBy({ address: '192.0.2.1' }, self), false)
  assert.equal(
    masterKey(self),
    masterKey(holder('192.0.2.1', 'ready', { ports: { securePort: 6444, nodePort: 0 } })),
    'a restart with another port is the same master',
  )
})

test('a life starts after all earlier lives, even if the clock was set back, but not after a later life', () => {
  const at = (seconds: number): string => `2026-01-01T00:00:${seconds.toFixed(6).padStart(9, '0')}Z`
  const self = holder('192.0.2.1', 'ready', { startedAt: at(10) })
  const of = (seconds: number): MasterLease =>
    lease('192.0.2.1', 'ready', { instanceId: 'other', startedAt: at(seconds) })
  const cases = [
    { name: 'an earlier life', other: 5, began: 10, startedAt: at(10) },
    { name: 'a later life', other: 15, began: 10, startedAt: at(10) },
    {
      name: 'an earlier life with the same start time',
      other: 10,
      began: 10,
      startedAt: at(10.001),
    },
    {
      name: 'an earlier life with a later start time, after the clock was set back',
      other: 40,
      began: 10,
      startedAt: at(40.001),
    },
    {
      name: 'an earlier life, after the clock was set forward',
      other: 15,
      began: 18,
      startedAt: at(15.001),
    },
  ]
  for (const { name, other, began, startedAt } of cases) {
    const span = { beganMs: parseTime(at(began)), nowMs: parseTime(at(20)) }
    assert.equal(startedAfter([of(other)], self, span).startedAt, startedAt, name)
  }
  const span = { beganMs: parseTime(at(10)), nowMs: parseTime(at(20)) }
  const others = [
    lease('192.0.2.1', 'ready', { startedAt: at(50) }),
    lease('192.0.2.2', 'ready', { instanceId: 'other', startedAt: at(50) }),
  ]
  assert.equal(startedAfter(others, self, span), self, 'its own lease and that of another master do not count')
  const lives = [40, 30, 45].map((startS) => of(startS))
  assert.equal(startedAfter(lives, self, span).startedAt, at(45.001), 'the start is after the latest of several lives')
  const last = lease('192.0.2.1', 'ready', { instanceId: 'other', startedAt: '9998-12-31T23:59:59.999000Z' })
  assert.equal(startedAfter([last], self, span), self, 'no later start can be written')
})

test('ports are agreed only if every live master has a record with these ports', () => {
  const ports = { securePort: 6443, nodePort: 0 }
  assert.equal(portsAgreed([lease('192.0.2.1'), lease('192.0.2.2')], ports), true)
  assert.equal(portsAgreed([lease('192.0.2.1', 'ready', { ports: { securePort: 6444, nodePort: 0 } })], ports), false)
  assert.equal(
    portsAgreed([lease('192.0.2.1', 'ready', { ports: { securePort: 6443, nodePort: 30001 } })], ports),
    false,
  )
  assert.equal(portsAgreed([lease('192.0.2.1'), foreign], ports), false)
  const suspected = { ...lease('192.0.2.2'), expirySuspected: true }
  assert.equal(
    portsAgreed([lease('192.0.2.1'), suspected], ports),
    false,
    'a suspected master may return with other ports',
  )
})
