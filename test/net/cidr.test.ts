import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type Address, AddressError, addressOf, bitsOf, parseAddress } from '../../src/net/address.ts'
import {
  addressAllocationRange,
  addressAt,
  type Cidr,
  cidrContains,
  cidrOf,
  indexOf,
  parseCidr,
  portAllocationRange,
  serviceIpOf,
  usableSize,
} from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/host-port.ts'

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

test('a formatted range parses to the same range', () => {
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

test('addressAt returns the address in the range that has the given index', () => {
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

test('addressAt refuses an index outside the range', () => {
  fc.assert(
    fc.property(cidr, (range) => {
      assert.throws(() => addressAt(range, range.size), RangeError)
      assert.throws(() => addressAt(range, -1n), RangeError)
    }),
    { numRuns: 500 },
  )
})

test('a range contains no address of the other family', () => {
  assert.equal(cidrContains(parseCidr('0.0.0.0/0'), parseAddress('::1')), false)
})

for (const [text, canonical] of [
  ['10.0.0.0/24', '10.0.0.0/24'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['192.0.2.1/32', '192.0.2.1/32'],
  ['FD00:0::/108', 'fd00::/108'],
  ['::/0', '::/0'],
  ['2001:db8::1/128', '2001:db8::1/128'],
] as const) {
  test(`${text} parses to ${canonical}`, () => assert.equal(parseCidr(text).text, canonical))
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
  test(`${JSON.stringify(text)} is refused with a message that explains the mistake`, () => {
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

test('a missing prefix length is reported as missing; a missing address is not', () => {
  assert.throws(() => parseCidr('10.0.0.0'), /a prefix length such as \/24 is missing$/)
  assert.throws(
    () => parseCidr('/24'),
    (error: Error) => error instanceof AddressError && !error.message.includes('is missing'),
  )
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
  test(`${text} has ${usable} usable addresses; the first is ${serviceIp ?? 'none'}`, () => {
    const range = parseCidr(text)
    assert.equal(usableSize(range), usable)
    if (serviceIp === undefined) assert.throws(() => serviceIpOf(range), /too small/)
    else assert.equal(serviceIpOf(range).text, serviceIp)
  })
}

const rangeOf = (text: string) => addressAllocationRange(parseCidr(text))

describe('as many addresses can be allocated as in kube-apiserver', () => {
  // `RangeSize` of k8s.io/utils, less the network address and, with IPv4, the broadcast address.
  const sizes: Readonly<Record<string, number>> = {
    '192.168.1.0/24': 254,
    '10.0.0.0/24': 254,
    '192.168.0.0/30': 2,
    '192.168.0.0/31': 0,
    '192.168.0.1/32': 0,
    '10.96.0.0/12': 1_048_574,
    '2001:db8:1::/120': 255,
    'fd00::/112': 65_535,
    'fd00::/111': 65_535,
    'fd00::/108': 65_535,
    'fd00::/48': 65_535,
    'fd00::/126': 3,
    'fd00::/127': 1,
    'fd00::/128': 0,
  }
  for (const [text, size] of Object.entries(sizes)) {
    test(`${text} has ${size}`, () => {
      const range = rangeOf(text)
      assert.deepEqual([range.text, range.size], [text, size])
    })
  }
})

describe('the first and the last address that can be allocated, and their neighbours that cannot', () => {
  const cases: readonly (readonly [string, string, string, readonly string[]])[] = [
    [
      '192.168.1.0/24',
      '192.168.1.1',
      '192.168.1.254',
      ['192.168.0.255', '192.168.1.0', '192.168.1.255', '192.168.2.1'],
    ],
    ['10.96.0.0/12', '10.96.0.1', '10.111.255.254', ['10.96.0.0', '10.111.255.255', '10.112.0.1', '::a60:1']],
    ['2001:db8:1::/120', '2001:db8:1::1', '2001:db8:1::ff', ['2001:db8:1::', '2001:db8:1::100', '2001:db8::1']],
    ['fd00::/112', 'fd00::1', 'fd00::ffff', ['fd00::', 'fd00::1:0']],
    // No address beyond the first 2^16 can be given out, although it is in the range.
    ['fd00::/108', 'fd00::1', 'fd00::ffff', ['fd00::', 'fd00::1:0', 'fd00::1:1', 'fd00::f:ffff']],
  ]
  for (const [text, first, last, outside] of cases) {
    test(text, () => {
      const range = rangeOf(text)
      assert.equal(range.offsetOf(parseAddress(first)), 0)
      assert.equal(range.offsetOf(parseAddress(last)), range.size - 1)
      assert.deepEqual([range.textAt(0), range.textAt(range.size - 1)], [first, last])
      for (const address of outside) assert.equal(range.offsetOf(parseAddress(address)), undefined, address)
    })
  }
})

test('an address of the other family with the same numeric value is not in the range', () => {
  assert.equal(rangeOf('10.96.0.0/16').offsetOf(addressOf(6, parseAddress('10.96.0.1').value)), undefined)
})

test('a range that is too small has no address to allocate', () => {
  for (const text of ['192.168.0.0/31', '192.168.0.1/32', 'fd00::/128']) {
    const cidr = parseCidr(text)
    for (let index = 0n; index < cidr.size; index++) {
      assert.equal(addressAllocationRange(cidr).offsetOf(addressAt(cidr, index)), undefined, text)
    }
  }
})

test('an IPv4 range that is too large for a bitmap of kube-apiserver is refused', () => {
  assert.throws(() => rangeOf('10.0.0.0/11'), {
    name: 'RangeError',
    message: '10.0.0.0/11 is too large for a bitmap: at most /12 of IPv4',
  })
})

const anyRange = fc
  .constantFrom<4 | 6>(4, 6)
  .chain((family) =>
    fc
      .tuple(fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n }), fc.integer({ min: 0, max: 20 }))
      .map(([value, hostBits]) => cidrOf(addressOf(family, value), bitsOf(family) - hostBits)),
  )

test('the address at an offset is the network address plus the offset plus one', () => {
  fc.assert(
    fc.property(anyRange, fc.nat(), (cidr, any) => {
      const range = addressAllocationRange(cidr)
      fc.pre(range.size > 0)
      const offset = any % range.size
      assert.equal(range.offsetOf(addressOf(cidr.family, cidr.network.value + BigInt(offset) + 1n)), offset)
      assert.equal(range.textAt(offset), addressOf(cidr.family, cidr.network.value + BigInt(offset) + 1n).text)
    }),
    { numRuns: 2000 },
  )
})

test('each port of a port range has an offset, and a number outside it has none', () => {
  const range = portAllocationRange(parsePortRange('30000-32767'))
  assert.deepEqual([range.text, range.size], ['30000-32767', 2768])
  assert.deepEqual([30_000, 30_001, 32_767].map(range.offsetOf), [0, 1, 2767])
  assert.deepEqual([0, 2767].map(range.textAt), ['30000', '32767'])
  for (const port of [0, 29_999, 32_768, 30_000.5, Number.NaN]) assert.equal(range.offsetOf(port), undefined, `${port}`)
})

test('the text of a port range is the form that kube-apiserver stores, whatever form was given', () => {
  for (const text of ['30000+99', '30000-30099']) {
    assert.equal(portAllocationRange(parsePortRange(text)).text, '30000-30099')
  }
  assert.deepEqual(portAllocationRange(parsePortRange('30000')).text, '30000-30000')
})
