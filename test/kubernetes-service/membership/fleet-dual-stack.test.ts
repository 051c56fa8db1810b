import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Holder, MasterLease } from '../../../src/kubernetes-service/leases/master-leases.ts'
import {
  isFleetDualStack,
  leasesForList,
  secondAddressesForList,
} from '../../../src/kubernetes-service/membership/fleet.ts'
import type { Trust } from '../../../src/kubernetes-service/membership/state.ts'
import { startMembership } from '../../../src/kubernetes-service/membership/step.ts'

const first = (number: number): string => `192.0.2.${number}`
const second = (number: number): string => `2001:db8::${number}`

function holder(addresses: readonly string[]): Holder {
  return {
    instanceId: `life-${addresses[0]}`,
    host: `host-${addresses[0]}`,
    startedAt: '2026-01-01T00:00:00.000000Z',
    addresses,
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
  }
}

function lease(addresses: readonly string[], more: Partial<MasterLease> = {}): MasterLease {
  return { address: addresses[0] ?? '', holder: holder(addresses), ...more }
}

const dual = (number: number, more?: Partial<MasterLease>): MasterLease => lease([first(number), second(number)], more)
const single = (number: number, more?: Partial<MasterLease>): MasterLease => lease([first(number)], more)

const newcomer: Trust = { type: 'recovering', untilAtMs: 15_000, isNew: true }
const steady: Trust = { type: 'steady' }

/** The plan of master 1, which has two addresses. */
function planned(
  trust: Trust,
  leases: readonly MasterLease[],
  { listed, slice }: { readonly listed: readonly number[]; readonly slice?: readonly string[] },
) {
  const state = startMembership(holder([first(1), second(1)]))
  const known = { ...state, lease: { ...state.lease, trust }, fleet: { ...state.fleet, leases } }
  const secondSlices = slice && [
    { metadata: { name: 'kubernetes-ipv6' }, endpoints: slice.map((address) => ({ addresses: [address] })) },
  ]
  const current = {
    endpoints: { subsets: [{ addresses: listed.map((number) => ({ ip: first(number) })) }] },
    slice: undefined,
    secondSlices: (secondSlices ?? []) as never,
    listedBefore: listed.map(first),
  }
  return {
    first: leasesForList(known, current).map(({ address }) => address),
    isDual: isFleetDualStack(known, current),
    second: secondAddressesForList(known, current),
  }
}

test('a newcomer preserves the first and second addresses that it finds, and adds its own', () => {
  const fleet = { listed: [1, 2, 3], slice: [second(2), second(3)] }
  assert.deepEqual(planned(newcomer, [dual(1)], fleet), {
    first: [1, 2, 3].map(first),
    isDual: undefined,
    second: [1, 2, 3].map(second),
  })
  assert.deepEqual(planned(steady, [dual(1)], fleet), { first: [first(1)], isDual: true, second: [second(1)] })
})

test('a newcomer that knows all listed masters decides about the second addresses', () => {
  const found = { listed: [1, 2], slice: [second(2), second(3)] }
  assert.deepEqual(planned(newcomer, [dual(1), dual(2)], found).second, [second(1), second(2)])
  assert.equal(planned(newcomer, [dual(1), dual(2)], found).isDual, true)
})

test('a newcomer creates no second slice while the list has unknown masters, which may have one address', () => {
  const { isDual, second } = planned(newcomer, [dual(1)], { listed: [1, 2] })
  assert.deepEqual([isDual, second], [undefined, []])
})

test('a newcomer that knows a master with one address removes the second family at once', () => {
  const found = { listed: [1, 2, 3], slice: [second(1), second(3)] }
  const { isDual, second: wanted } = planned(newcomer, [dual(1), single(2)], found)
  assert.deepEqual([isDual, wanted], [false, []])
})

test('a newcomer preserves no second address of a withdrawn master, nor its own after it has left', () => {
  const off = { ...dual(2), holder: { ...holder([first(2), second(2)]), state: 'withdrawn' } } as const
  const fleet = { listed: [1, 2, 3], slice: [1, 2, 3].map(second) }
  assert.deepEqual(planned(newcomer, [dual(1), off], fleet).second, [second(1), second(3)])
  assert.deepEqual(planned(newcomer, [], fleet).second, [second(2), second(3)])
})

test('a suspected expiry whose address another master has removed does not decide about the families', () => {
  const gone = single(2, { expirySuspected: true })
  const of = (listed: readonly number[], slice?: readonly string[]) => {
    const { isDual, second } = planned(steady, [dual(1), gone], { listed, ...(slice && { slice }) })
    return [isDual, second]
  }
  assert.deepEqual(of([1], [second(1)]), [undefined, [second(1)]])
  assert.deepEqual(of([1]), [undefined, []])
  assert.deepEqual(of([1, 2], [second(1)]), [false, []])
})
