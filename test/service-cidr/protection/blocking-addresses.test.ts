import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { IpAddress, ServiceCidr } from '../../../src/kube/resources.ts'
import { BlockingAddresses, blockingTest } from '../../../src/service-cidr/protection/blocking-addresses.ts'
import { address, FINALIZER } from './cluster.ts'

function cidr(name: string, cidrs: readonly string[], deletionTimestamp?: string): ServiceCidr {
  const metadata = { name, deletionTimestamp, finalizers: [FINALIZER] }
  return { metadata, spec: { cidrs } } as unknown as ServiceCidr
}

/** An IPAddress with another manager than the allocator. */
function foreign(name: string): IpAddress {
  return { metadata: { name, labels: { 'ipaddress.kubernetes.io/managed-by': 'somebody' } } } as unknown as IpAddress
}

/** The blocking addresses of these IPAddresses. `reads` counts how often all of them were read. */
function blocking(...stored: readonly IpAddress[]) {
  const world = { stored, reads: 0 }
  const addresses = new BlockingAddresses({
    [Symbol.iterator]() {
      world.reads++
      return world.stored[Symbol.iterator]()
    },
  })
  return Object.assign(world, { addresses })
}

const later = '2026-01-01T00:00:05Z'
const a = cidr('a', ['10.0.0.0/28'], '2026-01-01T00:00:00Z')
const both = cidr('a', ['10.0.0.0/28', 'fd00::/124'], '2026-01-01T00:00:00Z')
const added = (object: IpAddress) => ({ type: 'added', object }) as const
const deleted = (old: IpAddress) => ({ type: 'deleted', old }) as const

test('an address of the allocator within a ServiceCIDR blocks it; foreign, outside and boundary addresses do not', () => {
  for (const [name, blocks] of [
    ['10.0.0.1', true],
    ['10.0.0.14', true],
    ['fd00::f', true],
    ['10.0.0.0', false],
    ['10.0.0.15', false],
    ['10.0.0.16', false],
    ['fd00::', false],
    ['fd00::10', false],
    ['nonsense', false],
  ] as const) {
    assert.equal(blocking(address(name)).addresses.isBlocked(both, [both]), blocks, name)
    assert.equal(blockingTest(both, [both])(address(name)), blocks, name)
    assert.equal(blocking(foreign(name)).addresses.isBlocked(both, [both]), false, name)
    assert.equal(blockingTest(both, [both])(foreign(name)), false, name)
  }
})

test('an address that another ServiceCIDR covers does not block, unless that one was deleted earlier', () => {
  const { addresses } = blocking(address('10.0.0.3'))
  const half = cidr('b', ['10.0.0.0/29'])
  assert.equal(addresses.isBlocked(a, [a, half]), false)
  assert.equal(blocking(address('10.0.0.9')).addresses.isBlocked(a, [a, half]), true)
  assert.deepEqual(['10.0.0.3', '10.0.0.9'].map(address).map(blockingTest(a, [a, half])), [false, true])
  assert.equal(
    addresses.isBlocked(a, [a, cidr('b', ['10.0.0.0/29'], later)]),
    false,
    'a ServiceCIDR that was deleted later covers the address',
  )
  assert.equal(addresses.isBlocked(a, [a, cidr('b', ['10.0.0.0/29'], '2025-01-01T00:00:00Z')]), true)
})

test('all addresses are read once, and again only when the overlapping ServiceCIDRs have changed', () => {
  const world = blocking(address('10.0.0.3'))
  const { addresses } = world
  for (let times = 0; times < 3; times++) assert.equal(addresses.isBlocked(a, [a, cidr('far', ['10.9.0.0/16'])]), true)
  assert.equal(addresses.isBlocked(a, [a]), true)
  assert.equal(world.reads, 1)
  assert.equal(addresses.isBlocked(a, [a, cidr('b', ['10.0.0.0/29'])]), false)
  assert.equal(addresses.isBlocked(a, [a]), true)
  assert.equal(world.reads, 3)
  const wider = cidr('a', ['10.0.0.0/27'], '2026-01-01T00:00:00Z')
  assert.equal(addresses.isBlocked(wider, [wider]), true)
  assert.equal(world.reads, 4)
  assert.equal(addresses.isBlocked(a, [a, cidr('b', ['10.0.0.0/24'])]), false)
  assert.equal(world.reads, 4, 'no read is needed if another ServiceCIDR covers all addresses')
})

test('a change returns exactly the ServiceCIDRs that it blocks or frees', () => {
  const world = blocking()
  const { addresses } = world
  const c = cidr('c', ['fd00::/124'], later)
  for (const one of [a, c]) assert.equal(addresses.isBlocked(one, [a, c]), false)
  assert.deepEqual(addresses.apply(added(address('10.9.0.1'))), [])
  assert.deepEqual(addresses.apply(added(foreign('10.0.0.1'))), [])
  assert.deepEqual(addresses.apply(added(address('10.0.0.1'))), ['a'])
  assert.equal(addresses.isBlocked(a, [a, c]), true)
  assert.deepEqual(
    addresses.apply(added(address('10.0.0.2'))),
    [],
    'a ServiceCIDR that is already blocked is not returned',
  )
  assert.deepEqual(addresses.apply(added(address('10.0.0.2'))), [], 'a repeated change returns nothing')
  assert.deepEqual(addresses.apply(deleted(address('10.0.0.1'))), [])
  assert.deepEqual(
    addresses.apply(deleted(address('10.0.0.9'))),
    [],
    'the deletion of an unknown address changes nothing',
  )
  assert.deepEqual(addresses.apply(deleted(address('10.0.0.2'))), ['a'])
  assert.equal(addresses.isBlocked(a, [a, c]), false)
  assert.deepEqual(addresses.apply(added(address('fd00::1'))), ['c'])
  assert.equal(world.reads, 2)
})

test('an address blocks only while it is managed by the allocator', () => {
  const { addresses } = blocking(address('10.0.0.1'))
  assert.equal(addresses.isBlocked(a, [a]), true)
  const [own, others] = [address('10.0.0.1'), foreign('10.0.0.1')]
  assert.deepEqual(addresses.apply({ type: 'updated', old: own, object: others }), ['a'])
  assert.equal(addresses.isBlocked(a, [a]), false)
  assert.deepEqual(addresses.apply({ type: 'updated', old: others, object: own }), ['a'])
  assert.equal(addresses.isBlocked(a, [a]), true)
})

test('a change is applied to the last read, even if that already included it', () => {
  const world = blocking(address('10.0.0.1'), address('10.0.0.2'))
  const { addresses } = world
  assert.equal(addresses.isBlocked(a, [a]), true)
  assert.deepEqual(addresses.apply(added(address('10.0.0.2'))), [])
  assert.deepEqual(addresses.apply(deleted(address('10.0.0.2'))), [])
  assert.deepEqual(addresses.apply(deleted(address('10.0.0.1'))), ['a'])
})

test('a forgotten ServiceCIDR is no longer reported, and is read again when it is deleted again', () => {
  const world = blocking(address('10.0.0.1'))
  const { addresses } = world
  assert.equal(addresses.isBlocked(a, [a]), true)
  addresses.forget('b')
  assert.deepEqual(addresses.apply(deleted(address('10.0.0.1'))), ['a'])
  addresses.forget('a')
  assert.deepEqual(addresses.apply(added(address('10.0.0.1'))), [])
  assert.equal(addresses.isBlocked(a, [a]), true)
  assert.equal(world.reads, 2)
})
