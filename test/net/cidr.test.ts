import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Address, AddressError, addressOf, bitsOf, parseAddress } from '../../src/net/address.ts'
import {
  addressAt,
  type Cidr,
  cidrContains,
  cidrOf,
  cidrsOverlap,
  indexOf,
  parseCidr,
  serviceIpOf,
  usableSize,
} from '../../src/net/cidr.ts'

const family = fc.constantFrom(4 as const, 6 as const)
const addressOfFamily = (of: 4 | 6): fc.Arbitrary<Address> =>
  fc
    .bigInt({ min: 0n, max: (1n << BigInt(bitsOf(of))) - 1n })
    // 96 zero bits and 0xffff would be a mapped address, which is not read.
    .filter((value) => of === 4 || value >> 48n !== 0n)
    .map((value) => addressOf(of, value))
const cidr: fc.Arbitrary<Cidr> = family.chain((of) =>
  fc.tuple(addressOfFamily(of), fc.nat(bitsOf(of))).map(([address, prefix]) => cidrOf(address, prefix)),
)

test('reading what was written gives the same range', () => {
  fc.assert(
    fc.property(cidr, (range) => assert.deepEqual(parseCidr(range.text), range)),
    { numRuns: 10_000 },
  )
})

test('a range contains the addresses that share its prefix and no others', () => {
  fc.assert(
    fc.property(
      cidr.chain((range) => fc.tuple(fc.constant(range), addressOfFamily(range.family))),
      ([range, address]) => {
        const hostBits = BigInt(bitsOf(range.family) - range.prefix)
        const expected = address.value >> hostBits === range.network.value >> hostBits
        assert.equal(cidrContains(range, address), expected)
        assert.equal(indexOf(range, address) !== undefined, expected)
      },
    ),
    { numRuns: 10_000 },
  )
})

test('the address at an index is in the range, at that index', () => {
  fc.assert(
    fc.property(
      cidr.chain((range) => fc.tuple(fc.constant(range), fc.bigInt({ min: 0n, max: range.size - 1n }))),
      ([range, index]) => {
        const address = addressAt(range, index)
        assert.equal(cidrContains(range, address), true)
        assert.equal(indexOf(range, address), index)
      },
    ),
    { numRuns: 10_000 },
  )
})

test('no index outside a range has an address', () => {
  fc.assert(
    fc.property(cidr, (range) => {
      assert.throws(() => addressAt(range, range.size), RangeError)
      assert.throws(() => addressAt(range, -1n), RangeError)
    }),
    { numRuns: 500 },
  )
})

test('two ranges overlap when one begins inside the other, in either order', () => {
  fc.assert(
    fc.property(
      family.chain((of) => fc.tuple(addressOfFamily(of), fc.nat(bitsOf(of)), fc.nat(bitsOf(of)), fc.nat(127))),
      ([address, prefix, otherPrefix, flip]) => {
        // Differing from the same address in one bit makes both answers frequent.
        const bit = 1n << BigInt(flip % bitsOf(address.family))
        const a = cidrOf(address, prefix)
        const b = cidrOf(addressOf(address.family, address.value ^ bit), otherPrefix)
        const last = (range: Cidr): bigint => range.network.value + range.size - 1n
        const expected = a.network.value <= last(b) && b.network.value <= last(a)
        assert.equal(cidrsOverlap(a, b), expected)
        assert.equal(cidrsOverlap(b, a), expected)
      },
    ),
    { numRuns: 10_000 },
  )
})

test('ranges and addresses of different families have nothing in common', () => {
  assert.equal(cidrContains(parseCidr('0.0.0.0/0'), parseAddress('::1')), false)
  assert.equal(cidrsOverlap(parseCidr('0.0.0.0/0'), parseCidr('::/0')), false)
})

for (const [text, canonical] of [
  ['10.0.0.0/24', '10.0.0.0/24'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['192.0.2.1/32', '192.0.2.1/32'],
  ['FD00:0::/108', 'fd00::/108'],
  ['::/0', '::/0'],
  ['2001:db8::1/128', '2001:db8::1/128'],
] as const) {
  test(`${text} is the range ${canonical}`, () => assert.equal(parseCidr(text).text, canonical))
}

for (const [text, message] of [
  ['10.96.0.1/12', '"10.96.0.1/12" has host bits set; the network is 10.96.0.0/12'],
  ['10.100.0.0/12', '"10.100.0.0/12" has host bits set; the network is 10.96.0.0/12'],
  ['fd00::1/64', '"fd00::1/64" has host bits set; the network is fd00::/64'],
  ['10.0.0.0', '"10.0.0.0" is not a CIDR: a prefix length such as /24 is missing'],
  ['', '"" is not a CIDR: a prefix length such as /24 is missing'],
  ['10.0.0.0/33', '"10.0.0.0/33" is not a CIDR: the prefix length of an IPv4 range is 0 to 32'],
  ['::/129', '"::/129" is not a CIDR: the prefix length of an IPv6 range is 0 to 128'],
] as const) {
  test(`${JSON.stringify(text)} is refused with its fault and its mend`, () => {
    assert.throws(
      () => parseCidr(text),
      (error: Error) => error instanceof AddressError && error.message === message,
    )
  })
}

for (const text of [
  '10.0.0.0/',
  '10.0.0.0/-1',
  '10.0.0.0/08',
  '10.0.0.0/ 8',
  '10.0.0.0/8 ',
  '10.0.0.0/8/8',
  '10.0.0.0/255.0.0.0',
  '10/8',
  '010.0.0.0/8',
  '::ffff:10.0.0.0/104',
  'fe80::%eth0/64',
  'x/8',
  '/8',
]) {
  test(`${JSON.stringify(text)} is refused as a range`, () => {
    assert.throws(
      () => parseCidr(text),
      (error: Error) => error instanceof AddressError && error.message.startsWith(JSON.stringify(text)),
    )
  })
}

test('a prefix length that the family does not have is refused', () => {
  for (const prefix of [-1, 33, 1.5, Number.NaN]) {
    assert.throws(() => cidrOf(parseAddress('10.0.0.0'), prefix), RangeError)
  }
})

for (const [text, usable, serviceIp] of [
  ['10.0.0.0/24', 254n, '10.0.0.1'],
  ['10.96.0.0/12', 1_048_574n, '10.96.0.1'],
  ['10.0.0.0/30', 2n, '10.0.0.1'],
  ['10.0.0.0/31', 0n, undefined],
  ['10.0.0.0/32', 0n, undefined],
  ['fd00::/108', 1_048_575n, 'fd00::1'],
  ['fd00::/127', 1n, 'fd00::1'],
  ['fd00::/128', 0n, undefined],
  ['::/0', 2n ** 128n - 1n, '::1'],
] as const) {
  test(`${text} has ${usable} addresses for Services, ${serviceIp ?? 'none'} the first`, () => {
    const range = parseCidr(text)
    assert.equal(usableSize(range), usable)
    if (serviceIp === undefined) assert.throws(() => serviceIpOf(range), /too small/)
    else assert.equal(serviceIpOf(range).text, serviceIp)
  })
}
