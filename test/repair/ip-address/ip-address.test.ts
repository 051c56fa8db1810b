import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { IpAddress, Service, ServiceCidr } from '../../../src/kube/resources.ts'
import { Store } from '../../../src/kube/store.ts'
import { addressOf, tryParseAddress } from '../../../src/net/address.ts'
import { cidrContains, cidrOf } from '../../../src/net/cidr.ts'
import { identityOfIpAddress, ipAddressNameOf, trimIpAddress } from '../../../src/repair/ip-address/ip-address.ts'
import { addressesOf, holdersIn, holdsAddress, ServiceIpRanges } from '../../../src/repair/ip-address/service-ips.ts'
import { trimService } from '../../../src/repair/service-claims.ts'
import { atOnce } from '../../../src/runtime/steps.ts'

/** As `ParseIPSloppy(text).String()` in k8s.io/utils/net; undefined where that is nil. */
const names: readonly (readonly [string, string | undefined])[] = [
  ['10.0.0.1', '10.0.0.1'],
  ['010.0.0.1', '10.0.0.1'],
  ['10.000.0.00001', '10.0.0.1'],
  ['0.0.0.0', '0.0.0.0'],
  ['256.0.0.1', undefined],
  ['10.0.0', undefined],
  ['10.0.0.1.2', undefined],
  ['10.0.0.1 ', undefined],
  ['', undefined],
  ['None', undefined],
  ['fd00::1', 'fd00::1'],
  ['FD00::1', 'fd00::1'],
  ['fd00:0:0:0:0:0:0:1', 'fd00::1'],
  ['fd00:0::1', 'fd00::1'],
  ['fd00::0001', 'fd00::1'],
  ['fd00:1:2:3:4:5:6:7', 'fd00:1:2:3:4:5:6:7'],
  ['fd00::2:3:4:5:6:7', 'fd00:0:2:3:4:5:6:7'],
  ['fd00:1::3:4:5:6:7', 'fd00:1:0:3:4:5:6:7'],
  ['fd00::1:0:0:0:1', 'fd00:0:0:1::1'],
  ['fd00:0:0:1::1', 'fd00:0:0:1::1'],
  ['::', '::'],
  ['::1', '::1'],
  ['1::', '1::'],
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['::ffff:010.0.0.1', '10.0.0.1'],
  ['::ffff:a00:1', '10.0.0.1'],
  ['0:0:0:0:0:FFFF:10.0.0.1', '10.0.0.1'],
  ['::fffe:10.0.0.1', '::fffe:a00:1'],
  ['64:ff9b::10.0.0.1', '64:ff9b::a00:1'],
  ['fe80::1%eth0', undefined],
  ['fd00:::1', undefined],
  ['fd00::1::2', undefined],
  ['1:2:3:4:5:6:7:8:9', undefined],
  ['12345::1', undefined],
]

test('a ClusterIP yields the name that Go writes, however loosely it is written', () => {
  assert.deepEqual(
    names.map(([text]) => [text, ipAddressNameOf(text)]),
    names,
  )
})

const groups = fc.array(fc.oneof(fc.constant(0), fc.constant(0xffff), fc.integer({ min: 0, max: 0xffff })), {
  minLength: 8,
  maxLength: 8,
})

function ipv6(parts: readonly number[]): ReturnType<typeof addressOf> {
  return addressOf(
    6,
    parts.reduce((value, part) => (value << 16n) | BigInt(part), 0n),
  )
}

test('a parentRef or a name in it that is null counts as missing', () => {
  const given = { metadata: { name: '10.0.0.1' }, spec: { parentRef: null } } as unknown as IpAddress
  assert.equal(trimIpAddress(given).spec?.parentRef, undefined)
  const store = new Store(trimIpAddress.packing)
  const nameless = { ...given, spec: { parentRef: { name: null, namespace: 'default' } } } as unknown as IpAddress
  store.apply({ type: 'ADDED', object: trimIpAddress(nameless) })
  assert.equal(store.get({ name: '10.0.0.1' })?.spec?.parentRef?.name, undefined)
})

test('a parentRef with a field that is not a string is refused', () => {
  for (const part of ['group', 'resource', 'namespace', 'name']) {
    const given = { metadata: { name: '10.0.0.1' }, spec: { parentRef: { [part]: ['a', 'b'] } } }
    assert.throws(() => trimIpAddress(given as unknown as IpAddress), TypeError)
  }
})

test('an address with 200 leading zeros is read, and one with 300 is refused', () => {
  assert.equal(ipAddressNameOf(`10.0.0.${'0'.repeat(200)}1`), '10.0.0.1')
  assert.equal(ipAddressNameOf(`10.0.0.${'0'.repeat(300)}1`), undefined)
})

test('a packed IPAddress unpacks unchanged, and its shared part has none of its own names and versions', () => {
  const labels = { 'ipaddress.kubernetes.io/ip-family': 'IPv4', 'ipaddress.kubernetes.io/managed-by': 'x' }
  const parentRef = { group: '', resource: 'services', namespace: 'default', name: 'web' }
  const metadata = { name: '10.0.0.1', uid: 'u', resourceVersion: '7' }
  for (const [labelled, referring] of [
    [labels, { parentRef }],
    [undefined, { parentRef }],
    [{}, { parentRef: { name: 'web' } }],
    [labels, {}],
  ]) {
    const whole = { metadata: { ...metadata, labels: labelled }, spec: referring } as unknown as IpAddress
    for (const trim of [trimIpAddress, identityOfIpAddress]) {
      const trimmed = trim(whole)
      const { texts, shared } = trim.packing.split(trimmed)
      const stored = JSON.parse(JSON.stringify(shared))
      assert.deepEqual(trim(trim.packing.join({ name: '10.0.0.1' }, texts, stored)), trimmed)
      assert.ok(['web', '10.0.0.1', 'u', '7'].every((own) => !JSON.stringify(shared).includes(`"${own}"`)))
    }
  }
})

function ranges(...cidrs: readonly string[]): ServiceIpRanges {
  return new ServiceIpRanges(cidrs.map((cidr) => ({ spec: { cidrs: [cidr] } }) as ServiceCidr))
}

test('a range excludes network addresses and IPv4 broadcast addresses, as upstream does', () => {
  const within = ranges('10.0.0.0/16', '192.0.2.9/31', '198.51.100.5/32', '203.0.113.77/24', 'fd00::/64', 'not a range')
  const expected = {
    '10.0.0.0': false,
    '10.0.0.1': true,
    '10.0.255.254': true,
    '10.0.255.255': false,
    '10.1.0.0': false,
    '192.0.2.8': false,
    '192.0.2.9': false,
    '198.51.100.5': false,
    '203.0.113.1': true,
    '203.0.113.0': false,
    '010.0.0.1': false,
    'FD00::1': false,
    'fd00::': false,
    'fd00::1': true,
    'fd00::ffff:ffff:ffff:ffff': true,
    'fd00:0:0:1::': false,
    nonsense: false,
  }
  assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name) => [name, within.contains(name)])), expected)
})

test('an address that one range excludes and another has is contained', () => {
  assert.equal(ranges('10.0.1.0/24', '10.0.0.0/16').contains('10.0.1.0'), true)
})

test('a range contains the addresses of its prefix except network and broadcast, in either family', () => {
  const one = fc.boolean().chain((v6) =>
    fc.record({
      base: v6
        ? groups.map(ipv6)
        : fc.integer({ min: 0, max: 0xffff_ffff }).map((value) => addressOf(4, BigInt(value))),
      prefix: fc.integer({ min: 0, max: v6 ? 128 : 32 }),
      offset: fc.bigInt({ min: -3n, max: 70_000n }),
    }),
  )
  fc.assert(
    fc.property(one, ({ base, prefix, offset }) => {
      const cidr = cidrOf(base, prefix)
      const value = cidr.network.value + offset
      if (value < 0n || value >> (cidr.family === 4 ? 32n : 128n) !== 0n) return
      const address = addressOf(cidr.family, value)
      // An address that is mapped from IPv4 is not a ClusterIP of the family.
      if (ipAddressNameOf(address.text) !== address.text || tryParseAddress(cidr.network.text) === undefined) return
      const last = cidr.network.value + cidr.size - 1n
      const expected = cidrContains(cidr, address) && offset !== 0n && (cidr.family === 6 || value !== last)
      const within = ranges(cidr.text)
      assert.equal(within.contains(address.text), expected, `${address.text} in ${cidr.text}`)
    }),
    { numRuns: 3_000 },
  )
})

test('the usage of each range is counted', () => {
  const counted = ranges('10.0.0.0/24', 'fd00::/120')
  const named = (...names: readonly string[]) => names.map((name) => ({ metadata: { name } }) as IpAddress)
  const usage = () => counted.usage().map(({ range, allocated, size }) => `${range} ${allocated}/${size}`)
  atOnce(counted.countAll(named('10.0.0.1', '10.0.0.2', 'fd00::7', '192.0.2.1')))
  assert.deepEqual(usage(), ['10.0.0.0/24 2/254', 'fd00::/120 1/255'])
  counted.count('10.0.0.3', 1)
  counted.count('fd00::7', -1)
  counted.count('192.0.2.2', 1)
  assert.deepEqual(usage(), ['10.0.0.0/24 3/254', 'fd00::/120 0/255'])
})

test('changes during a recount are counted once', () => {
  const counted = ranges('10.0.0.0/24')
  const all = ['10.0.0.1', '10.0.0.2', '10.0.0.3'].map((name) => ({ metadata: { name } }) as IpAddress)
  const early = counted.countAll(all)
  early.next()
  const late = counted.countAll(all)
  late.next()
  counted.count('10.0.0.4', 1)
  counted.count('10.0.0.1', -1)
  atOnce(early)
  assert.equal(counted.usage()[0]?.allocated, 0, 'the count is unchanged until the recount ends')
  atOnce(late)
  assert.equal(counted.usage()[0]?.allocated, 3)
})

test('the index finds the holders of an address after any changes', () => {
  const made = (uid: number, ips: readonly string[]): Service => {
    const metadata = {
      namespace: 'default',
      name: `s${uid}`,
      uid: String(uid),
      creationTimestamp: `2026-01-01T00:00:0${uid}Z`,
    }
    return { metadata, spec: { clusterIP: ips[0] ?? '', clusterIPs: ips } } as unknown as Service
  }
  const texts = ['10.0.0.1', '010.0.0.1', '10.0.0.2', 'fd00::1', 'FD00::1', 'nonsense']
  const step = fc.record({ uid: fc.integer({ min: 0, max: 4 }), ips: fc.subarray(texts, { maxLength: 2 }) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30, size: 'max' }), (steps) => {
      const store = new Store(trimService.packing)
      const held = new Map<number, Service>()
      for (const { uid, ips } of steps) {
        const old = held.get(uid)
        const object = made(uid, ips)
        if (ips.length === 0) {
          if (old !== undefined) store.apply({ type: 'DELETED', object: old })
          held.delete(uid)
          continue
        }
        store.apply({ type: 'MODIFIED', object })
        held.set(uid, object)
      }
      for (const name of ['10.0.0.1', '10.0.0.2', 'fd00::1', 'nonsense']) {
        const expected = [...held.keys()].sort().filter((uid) => holdsAddress(held.get(uid) as Service, name))
        assert.deepEqual(
          holdersIn(store, name).map(({ metadata }) => Number(metadata?.uid)),
          expected,
        )
      }
    }),
  )
})

test('only a change that concerns addresses returns addresses to check', () => {
  const metadata = { namespace: 'default', name: 'web', uid: '1', resourceVersion: '1' }
  const service = { metadata, spec: { clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'] } } as Service
  assert.deepEqual(addressesOf({ type: 'added', object: service }), ['10.0.0.1'])
  const touched = { ...service, metadata: { ...metadata, resourceVersion: '2' } }
  assert.deepEqual(addressesOf({ type: 'updated', old: service, object: touched }), [])
  assert.deepEqual(addressesOf({ type: 'deleted', old: touched }), ['10.0.0.1'])
})
