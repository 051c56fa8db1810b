import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { addressOf, bitsOf, parseAddress } from '../../src/net/address.ts'
import { addressAllocationRange, portAllocationRange } from '../../src/net/allocation-range.ts'
import { addressAt, cidrOf, parseCidr } from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/port-range.ts'

const rangeOf = (text: string) => addressAllocationRange(parseCidr(text))

describe('so many addresses can be given out as by kube-apiserver', () => {
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
    test(`${size} of ${text}`, () => {
      const range = rangeOf(text)
      assert.deepEqual([range.text, range.size], [text, size])
    })
  }
})

describe('the first and the last address that can be given out, and their neighbours that cannot', () => {
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
    // Of those beyond the first 2^16 none, though they are in the range.
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

test('an address of the other family with the same number is none of the range', () => {
  assert.equal(rangeOf('10.96.0.0/16').offsetOf(addressOf(6, parseAddress('10.96.0.1').value)), undefined)
})

test('a range has no address when it is too small for one', () => {
  for (const text of ['192.168.0.0/31', '192.168.0.1/32', 'fd00::/128']) {
    const cidr = parseCidr(text)
    for (let index = 0n; index < cidr.size; index++) {
      assert.equal(addressAllocationRange(cidr).offsetOf(addressAt(cidr, index)), undefined, text)
    }
  }
})

test('an IPv4 range of which kube-apiserver keeps no bitmap is refused', () => {
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

test('the address with a number has that number', () => {
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

test('every port of a range has a number, and no other', () => {
  const range = portAllocationRange(parsePortRange('30000-32767'))
  assert.deepEqual([range.text, range.size], ['30000-32767', 2768])
  assert.deepEqual([30_000, 30_001, 32_767].map(range.offsetOf), [0, 1, 2767])
  assert.deepEqual([0, 2767].map(range.textAt), ['30000', '32767'])
  for (const port of [0, 29_999, 32_768, 30_000.5, Number.NaN]) assert.equal(range.offsetOf(port), undefined, `${port}`)
})

test('the text of a range of ports is what kube-apiserver stores, however it was written', () => {
  for (const text of ['30000+99', '30000-30099']) {
    assert.equal(portAllocationRange(parsePortRange(text)).text, '30000-30099')
  }
  assert.deepEqual(portAllocationRange(parsePortRange('30000')).text, '30000-30000')
})
