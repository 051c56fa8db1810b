import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KeyValue } from '../../../../src/etcd/kv.ts'
import {
  EtcdLeaseKeys,
  hasLease,
  holderAt,
  leaseValue,
  readSnapshot,
} from '../../../../src/kubernetes-service/leases/etcd/snapshot.ts'
import {
  encodeHolder,
  HOLDER_STATES,
  type Holder,
  type HolderState,
  type MasterLease,
} from '../../../../src/kubernetes-service/leases/master-leases.ts'
import { listedAddresses } from '../../../../src/kubernetes-service/members.ts'
import { decodeMasterLease, encodeMasterLease } from '../../../../src/protobuf/master-lease.ts'
import { withOddField } from '../../../protobuf/odd-lease.ts'
import { holder } from '../holders.ts'

const keys = new EtcdLeaseKeys('/registry')
const A = '192.0.2.1'
const garbage = Buffer.from('garbage')
const json = Buffer.from('{"kind":"Endpoints","apiVersion":"v1"}')

test('the keys of a master are below the prefix, by its address and host', () => {
  const six = holder('2001:db8::1', { host: 'a/b c', addresses: ['2001:db8::1', A] })
  assert.deepEqual(
    [keys.lease(A), keys.recordsOf(A), keys.record(six)],
    [
      '/registry/masterleases/192.0.2.1',
      '/registry/apiserver-bootstrap/holders/192.0.2.1/',
      '/registry/apiserver-bootstrap/holders/2001:db8::1/a%2Fb%20c',
    ],
  )
  for (const address of [A, '2001:db8::1']) assert.equal(keys.addressOfLease(keys.lease(address)), address)
  for (const text of ['', '127.0.0.1', '2001:DB8::1', `${A}/more`, 'host']) {
    assert.equal(keys.addressOfLease(keys.lease(text)), undefined)
  }
})

test('a ready, failing or leaving master has a lease; an unready or withdrawn master has only its record', () => {
  assert.deepEqual(HOLDER_STATES.filter(hasLease), ['ready', 'failing', 'leaving'])
})

test('a record counts only under the key of its own master', () => {
  const self = holder(A)
  assert.deepEqual(holderAt(keys, record(self)), self)
  const { value } = record(self)
  for (const key of [keys.record(holder('192.0.2.2')), keys.record(holder(A, { host: 'other' })), keys.recordsOf(A)]) {
    assert.equal(holderAt(keys, { ...record(self), key, value }), undefined)
  }
  assert.equal(holderAt(keys, { ...record(self), value: garbage }), undefined)
})

test('a lease without an etcd lease never ends, also beside a record', () => {
  const standing = [lease(A, 5n), lease('192.0.2.2', 6n)].map((one) => ({ ...one, lease: 0n }))
  const { live } = read([...standing, lease('192.0.2.3', 7n)], [record(holder('192.0.2.2'))])
  assert.deepEqual(
    live.map(({ address, neverEnds }) => [address, neverEnds]),
    [
      [A, true],
      ['192.0.2.3', undefined],
      ['192.0.2.2', true],
    ],
  )
})

test('a record that never ends counts only beside a lease', () => {
  for (const state of HOLDER_STATES) {
    const mirrored = { ...record(holder(A, { state }), 4n), lease: 0n }
    assert.deepEqual(read([], [mirrored]).live, [], state)
    const ofMaster = read([lease(A, 5n)], [mirrored]).live.filter((one) => one.holder !== undefined)
    assert.equal(ofMaster.length, 1, state)
  }
})

test('a lease without a record belongs to a kube-apiserver at the address in its value, and comes first', () => {
  const { live, unusable } = read(
    [
      lease(A, 5n),
      lease('192.0.2.2', 6n),
      lease('192.0.2.3', 7n, encodeMasterLease('192.0.2.33')),
      lease('192.0.2.4', 8n),
    ],
    [record(holder(A), 4n)],
  )
  assert.deepEqual(live, [
    { address: '192.0.2.2', renewal: '6' },
    { address: '192.0.2.33', renewal: '7' },
    { address: '192.0.2.4', renewal: '8' },
    { address: A, holder: holder(A), renewal: '5' },
  ])
  assert.deepEqual(unusable, [])
})

const values: readonly (readonly [what: string, value: Uint8Array, address: string, reason: string | undefined])[] = [
  ['JSON', json, A, undefined],
  ['garbage', garbage, A, 'is neither protobuf nor JSON; using the address of its key until the lease expires'],
  [
    'protobuf with an unknown field',
    withOddField('192.0.2.9'),
    '192.0.2.9',
    'is protobuf, but not a valid Kubernetes object; using its address',
  ],
  [
    'protobuf with an unknown field and an address that cannot be listed',
    withOddField('127.0.0.1'),
    A,
    'is protobuf, but not a valid Kubernetes object; using the address of its key until the lease expires',
  ],
  [
    'an address that cannot be listed',
    encodeMasterLease('127.0.0.1'),
    A,
    'contains "127.0.0.1", which cannot be listed; using the address of its key',
  ],
  ['an empty address', encodeMasterLease(''), A, 'contains "", which cannot be listed; using the address of its key'],
]
for (const [what, value, address, reason] of values) {
  test(`the address of a lease with ${what} is ${address === A ? 'that of its key' : 'its own'}; beside a record, that of the record`, () => {
    const fault = reason === undefined ? [] : [{ key: keys.lease(A), reason }]
    assert.deepEqual(read([lease(A, 5n, value)]), { live: [{ address, renewal: '5' }], unusable: fault })
    assert.deepEqual(read([lease(A, 5n, value)], [record(holder(A), 4n)]), {
      live: [{ address: A, holder: holder(A), renewal: '5' }],
      unusable: fault,
    })
  })
}

test('unusable leases and records are ignored and reported; all others count', () => {
  const misplaced = { ...record(holder('192.0.2.2'), 3n), key: keys.record(holder(A)) }
  const { live, unusable } = read(
    [lease('127.0.0.1', 4n), lease('192.0.2.2', 5n), lease(A, 6n), lease('192.0.2.3', 7n)],
    [misplaced, record(holder('192.0.2.3'), 2n)],
  )
  assert.deepEqual(live, [
    { address: '192.0.2.2', renewal: '5' },
    { address: A, renewal: '6' },
    { address: '192.0.2.3', holder: holder('192.0.2.3'), renewal: '7' },
  ])
  assert.deepEqual(unusable, [
    { key: misplaced.key, reason: 'is not a valid holder record for that address' },
    { key: keys.lease('127.0.0.1'), reason: 'does not contain an address that can be listed' },
  ])
})

test('a ready or failing master counts only beside a lease, a master in any other state also without one', () => {
  for (const state of HOLDER_STATES) {
    const self = holder(A, { state })
    assert.deepEqual(
      read([lease('192.0.2.2', 5n)], [record(self, 4n)]).live,
      [
        { address: '192.0.2.2', renewal: '5' },
        ...(state === 'ready' || state === 'failing' ? [] : [{ address: A, holder: self }]),
      ],
      state,
    )
    // The record is younger than the lease.
    const beside = read([lease(A, 5n)], [record(self, 6n)]).live
    assert.deepEqual(beside, [{ address: A, holder: self, renewal: '5' }], state)
  }
})

test('several masters at one address all count with its lease, in the order of the store', () => {
  const held = [holder(A, { host: 'b' }), holder(A, { host: 'a', state: 'leaving' })] as const
  const elsewhere = holder('192.0.2.2')
  const records = [record(held[0]), record(elsewhere), record(held[1])]
  assert.deepEqual(read([lease(A, 5n), lease('192.0.2.2', 6n)], records).live, [
    { address: A, holder: held[0], renewal: '5' },
    { address: A, holder: held[1], renewal: '5' },
    { address: '192.0.2.2', holder: elsewhere, renewal: '6' },
  ])
  assert.deepEqual(read([], records).live, [{ address: A, holder: held[1] }])
})

test('an unready master counts as failing while the lease beside it is newer than its record', () => {
  assert.deepEqual(besideLease(5n, [['unready', 4n]]), ['failing, of two'])
  assert.deepEqual(besideLease(5n, [['unready', 5n]]), ['unready'])
  assert.deepEqual(besideLease(5n, [['unready', 6n]]), ['unready'])
  assert.deepEqual(besideLease(undefined, [['unready', 4n]]), ['unready'])
  for (const state of HOLDER_STATES) {
    if (hasLease(state)) assert.deepEqual(besideLease(5n, [[state, 4n]]), [state])
  }
})

test('a lease that is newer than the record of a withdrawn master is a kube-apiserver’s, and listed', () => {
  assert.deepEqual(besideLease(5n, [['withdrawn', 4n]]), ['withdrawn, of two', 'kube-apiserver'])
  assert.deepEqual(listedAddresses(read([lease(A, 5n)], [record(holder(A, { state: 'withdrawn' }), 4n)]).live), [A])
  assert.deepEqual(besideLease(5n, [['withdrawn', 6n]]), ['withdrawn'])
  assert.deepEqual(besideLease(undefined, [['withdrawn', 4n]]), ['withdrawn'])
})

test('an unready master whose record states a co-holder counts as failing as long as the lease exists', () => {
  assert.deepEqual(besideLease(5n, [['unready', 9n, true]]), ['failing, of two'])
  assert.deepEqual(besideLease(undefined, [['unready', 9n, true]]), ['unready, of two'])
})

test('the lease beside an unready master is attributed to another master there that may have written it', () => {
  for (const state of ['ready', 'failing', 'leaving'] as const) {
    const other = [state, 3n] as const
    assert.deepEqual(besideLease(9n, [['unready', 4n], other]), ['unready', state])
    assert.deepEqual(besideLease(9n, [['withdrawn', 4n], other]), ['withdrawn', state])
    assert.deepEqual(
      besideLease(9n, [['unready', 4n, true], other]),
      ['unready, of two', state],
      'although its record states a co-holder',
    )
  }
  for (const state of ['unready', 'withdrawn'] as const) {
    // The other master has stated its departure since.
    assert.equal(
      besideLease(5n, [
        ['unready', 4n],
        [state, 6n],
      ])[0],
      'unready',
    )
    assert.equal(
      besideLease(5n, [
        ['unready', 3n],
        [state, 4n],
      ])[0],
      'failing, of two',
    )
  }
})

test('a renewal writes the next generation of a lease; a new lease has the first', () => {
  const first = leaseValue(A, undefined)
  assert.deepEqual(first, encodeMasterLease(A))
  const second = decodeMasterLease(leaseValue(A, lease(A, 5n, first)) ?? garbage)
  assert.deepEqual(second.type === 'protobuf' && [second.address, second.generation], [A, 2n])
  const moved = decodeMasterLease(leaseValue(A, lease(A, 5n, encodeMasterLease('192.0.2.2'))) ?? garbage)
  assert.equal(moved.type === 'protobuf' && moved.address, A)
})

test('a lease value that cannot be rewritten without loss is renewed unchanged if it may be of this address, else not', () => {
  assert.equal(leaseValue(A, lease(A, 5n, json)), json)
  const odd = withOddField(A)
  assert.equal(leaseValue(A, lease(A, 5n, odd)), odd)
  assert.equal(leaseValue(A, lease(A, 5n, withOddField('192.0.2.2'))), undefined)
  assert.equal(leaseValue(A, lease(A, 5n, garbage)), undefined)
})

function read(leases: readonly KeyValue[], records: readonly KeyValue[] = []): ReturnType<typeof readSnapshot> {
  return readSnapshot(keys, { leases, records })
}

/**
 * The states as which masters at one address count. `leaseRevision`: the revision of their lease. `records`: with the
 * revision of each.
 */
function besideLease(
  leaseRevision: bigint | undefined,
  records: readonly (readonly [state: HolderState, revision: bigint, coHolder?: boolean])[],
): readonly string[] {
  const stored = records.map(([state, revision, coHolder], index) =>
    record(holder(A, { host: `host-${index}`, state, coHolder }), revision),
  )
  return read(leaseRevision === undefined ? [] : [lease(A, leaseRevision)], stored).live.map(summaryOf)
}

function summaryOf({ holder }: MasterLease): string {
  if (holder === undefined) return 'kube-apiserver'
  return `${holder.state}${holder.coHolder ? ', of two' : ''}`
}

function lease(address: string, modRevision: bigint, value = encodeMasterLease(address)): KeyValue {
  return { key: keys.lease(address), value, modRevision, lease: 1n }
}

function record(of: Holder, modRevision = 1n): KeyValue {
  return { key: keys.record(of), value: Buffer.from(encodeHolder(of)), modRevision, lease: 1n }
}
