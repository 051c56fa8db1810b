import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { HolderState, MasterLease } from '../../src/kubernetes-service/leases/master-leases.ts'
import { isDualStack, listedAddresses, secondAddresses } from '../../src/kubernetes-service/members.ts'

function lease(
  addresses: readonly string[],
  state: HolderState = 'ready',
  host = `host-of-${addresses[0]}`,
): MasterLease {
  const holder = {
    instanceId: `${addresses[0]}-1`,
    host,
    startedAt: '2026-01-01T00:00:00Z',
    addresses,
    ports: { securePort: 6443, nodePort: 0 },
    state,
  }
  return { address: addresses[0] ?? '', holder }
}

const dual = (number: number, state?: HolderState): MasterLease =>
  lease([`192.0.2.${number}`, `2001:db8::${number}`], state)
const single = (number: number, state?: HolderState): MasterLease => lease([`192.0.2.${number}`], state)
const foreign: MasterLease = { address: '192.0.2.9' }

test('a fleet is dual-stack when every live master has an address of each family', () => {
  assert.equal(isDualStack([dual(1), dual(2)]), true)
  assert.equal(isDualStack([dual(1), single(2)]), false)
  assert.equal(isDualStack([single(1)]), false)
  assert.equal(isDualStack([]), undefined)
})

test('a lease without a holder record belongs to a kube-apiserver, which has one address', () => {
  assert.equal(isDualStack([dual(1), foreign]), false)
  assert.equal(isDualStack([foreign]), false)
})

test('masters with different primary families are not dual-stack, nor is a master with two addresses of one family', () => {
  assert.equal(isDualStack([dual(1), lease(['2001:db8::2', '192.0.2.2'])]), false)
  assert.equal(isDualStack([lease(['2001:db8::1', '192.0.2.1']), lease(['2001:db8::2', '192.0.2.2'])]), true)
  assert.equal(isDualStack([lease(['192.0.2.1', '192.0.2.2'])]), false)
})

test('a master counts for the families of the fleet in every state except withdrawn', () => {
  for (const state of ['ready', 'failing', 'unready', 'leaving'] as const) {
    assert.equal(isDualStack([dual(1), single(2, state)]), false, state)
    assert.equal(isDualStack([dual(1), dual(2, state)]), true, state)
  }
  assert.equal(isDualStack([dual(1), single(2, 'withdrawn')]), true)
  assert.equal(isDualStack([single(1), dual(2, 'withdrawn')]), false)
  assert.equal(isDualStack([dual(1, 'withdrawn')]), undefined)
})

test('a lease with suspected expiry still counts for the families of the fleet', () => {
  const suspected = (lease: MasterLease): MasterLease => ({ ...lease, expirySuspected: true })
  assert.equal(isDualStack([dual(1), suspected(single(2))]), false)
  assert.equal(isDualStack([suspected(dual(1)), suspected(dual(2))]), true)
  assert.deepEqual(secondAddresses([dual(1)], [dual(1), suspected(single(2))]), [])
  assert.deepEqual(secondAddresses([dual(1)], [dual(1), suspected(dual(2))]), ['2001:db8::1'])
})

test('the second addresses are those of exactly the listed masters, sorted', () => {
  const leases = [dual(3), dual(2, 'unready'), dual(1, 'failing'), dual(4, 'leaving'), dual(5, 'withdrawn')]
  assert.deepEqual(listedAddresses(leases), ['192.0.2.1', '192.0.2.3', '192.0.2.4'])
  assert.deepEqual(secondAddresses(leases), ['2001:db8::1', '2001:db8::3', '2001:db8::4'])
  assert.deepEqual(secondAddresses([dual(2, 'unready'), dual(1, 'leaving')]), ['2001:db8::1', '2001:db8::2'])
  assert.deepEqual(secondAddresses([dual(1), single(2)]), [])
  assert.deepEqual(secondAddresses([]), [])
})

test('of masters behind one virtual address, one that is not ready contributes no second address', () => {
  const shared = ['192.0.2.10', '2001:db8::a'] as const
  assert.deepEqual(secondAddresses([lease([...shared], 'ready', 'a'), lease([...shared], 'unready', 'b')]), [
    '2001:db8::a',
  ])
  const own = [lease(['192.0.2.10', '2001:db8::b'], 'unready', 'b'), lease([...shared], 'ready', 'a')]
  assert.deepEqual(secondAddresses(own), ['2001:db8::a'])
})

test('a dual-stack fleet has as many second addresses as listed addresses; any other fleet has none', () => {
  const state = fc.constantFrom('ready', 'failing', 'unready', 'leaving', 'withdrawn')
  const anyLease = fc.oneof(
    fc.tuple(fc.integer({ min: 1, max: 4 }), state).map(([number, of]) => dual(number, of as HolderState)),
    fc.tuple(fc.integer({ min: 5, max: 6 }), state).map(([number, of]) => single(number, of as HolderState)),
  )
  fc.assert(
    fc.property(fc.uniqueArray(anyLease, { selector: ({ address }) => address, maxLength: 5 }), (leases) => {
      const expected = isDualStack(leases) === true ? listedAddresses(leases).length : 0
      assert.equal(secondAddresses(leases).length, expected)
    }),
  )
})
