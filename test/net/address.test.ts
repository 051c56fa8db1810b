import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  AddressError,
  addressOf,
  bitsOf,
  isLinkLocal,
  isLoopback,
  isMulticast,
  isUnspecified,
  parseAddress,
  tryParseAddress,
} from '../../src/net/address.ts'

const ipv4Value = fc.bigInt({ min: 0n, max: 2n ** 32n - 1n })
/** Groups that are often zero, so that every shape of compression occurs. */
const ipv6Value = fc
  .array(fc.oneof(fc.constant(0), fc.constant(0), fc.nat(0xffff)), { minLength: 8, maxLength: 8 })
  .map((groups) => groups.reduce((value, group) => (value << 16n) | BigInt(group), 0n))
  .filter((value) => value >> 32n !== 0xffffn)
const anyAddress = fc.oneof(
  ipv4Value.map((value) => addressOf(4, value)),
  ipv6Value.map((value) => addressOf(6, value)),
)

test('a formatted address parses to the same address', () => {
  fc.assert(
    fc.property(anyAddress, (address) => assert.deepEqual(parseAddress(address.text), address)),
    { numRuns: 20_000 },
  )
})

test('an IPv6 address in any long form is formatted as the URL standard requires', () => {
  fc.assert(
    fc.property(ipv6Value, (value) => {
      const groups = Array.from({ length: 8 }, (_, i) => Number((value >> BigInt(112 - 16 * i)) & 0xffffn))
      const long = groups.map((group) => group.toString(16).toUpperCase().padStart(4, '0')).join(':')
      const { text } = parseAddress(long)
      assert.equal(`[${text}]`, new URL(`http://[${long}]`).hostname)
      const unpadded = groups.map((group) => group.toString(16))
      const dotted = groups.slice(6).flatMap((group) => [group >> 8, group & 255])
      for (const form of [unpadded.join(':'), `${unpadded.slice(0, 6).join(':')}:${dotted.join('.')}`])
        assert.equal(parseAddress(form).text, text, form)
    }),
    { numRuns: 5_000 },
  )
})

for (const [text, canonical] of [
  ['0.0.0.0', '0.0.0.0'],
  ['192.0.2.1', '192.0.2.1'],
  ['255.255.255.255', '255.255.255.255'],
  ['::', '::'],
  ['::1', '::1'],
  ['FE80::A', 'fe80::a'],
  ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
  ['2001:0db8::0001', '2001:db8::1'],
  ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
  ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
  ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
  ['::1.2.3.4', '::102:304'],
  ['64:ff9b::192.0.2.1', '64:ff9b::c000:201'],
  ['1:2:3:4:5:6:7.8.9.10', '1:2:3:4:5:6:708:90a'],
  ['::ffff:0:0:1', '::ffff:0:0:1'],
] as const) {
  test(`${text} parses to ${canonical}`, () => assert.equal(parseAddress(text).text, canonical))
}

for (const [text, fault] of [
  ['', 'it is empty'],
  [' 10.0.0.1', 'spaces'],
  ['10.0.0.1\n', 'spaces'],
  ['010.0.0.1', '"010" has a leading zero'],
  ['10.0.0.08', '"08" has a leading zero'],
  ['10.1', 'four parts'],
  ['1', 'four parts'],
  ['1.2.3.4.5', 'four parts'],
  ['256.0.0.1', 'at most 255'],
  ['0x7f.0.0.1', 'is not an IP address'],
  ['10.0.0.-1', 'is not an IP address'],
  ['10.0.0.', 'is not an IP address'],
  ['localhost', 'is not an IP address'],
  ['192.0.2.1/32', 'is not an IP address'],
  ['１.2.3.4', 'is not an IP address'],
  ['fe80::1%eth0', 'has a zone'],
  ['::%', 'has a zone'],
  ['::ffff:1.2.3.4', 'write 1.2.3.4'],
  ['::FFFF:0102:0304', 'write 1.2.3.4'],
  ['::ffff:01.2.3.4', 'is not an IPv6 address'],
  ['::1.2.3', 'is not an IPv6 address'],
  ['1.2.3.4::', 'is not an IPv6 address'],
  ['1:2:3:4:5:6:7:1.2.3.4', 'is not an IPv6 address'],
  [':', 'is not an IPv6 address'],
  [':::', 'is not an IPv6 address'],
  ['1::2::3', 'is not an IPv6 address'],
  ['1:2:3:4:5:6:7', 'is not an IPv6 address'],
  ['1:2:3:4:5:6:7:8:9', 'is not an IPv6 address'],
  ['1:2:3:4::5:6:7:8', 'is not an IPv6 address'],
  ['12345::', 'is not an IPv6 address'],
  ['g::', 'is not an IPv6 address'],
  [':1::2', 'is not an IPv6 address'],
  ['1::2:', 'is not an IPv6 address'],
  ['[::1]', 'is not an IPv6 address'],
] as const) {
  test(`${JSON.stringify(text)} is refused in one line: ${fault}`, () => {
    assert.throws(
      () => parseAddress(text),
      (error: Error) =>
        error instanceof AddressError &&
        error.code === 'InvalidAddress' &&
        error.message.startsWith(JSON.stringify(text)) &&
        error.message.includes(fault) &&
        !error.message.includes('\n'),
    )
    assert.equal(tryParseAddress(text), undefined)
  })
}

test('a value out of range for its family is refused', () => {
  for (const family of [4, 6] as const) {
    assert.throws(() => addressOf(family, 1n << BigInt(bitsOf(family))), RangeError)
    assert.throws(() => addressOf(family, -1n), RangeError)
  }
})

for (const [is, inside, outside] of [
  [isLoopback, ['127.0.0.0', '127.255.255.255', '::1'], ['126.255.255.255', '128.0.0.0', '::', '::2', '0.0.0.1']],
  [
    isLinkLocal,
    ['169.254.0.0', '169.254.255.255', 'fe80::', 'febf:ffff::'],
    ['169.253.255.255', '169.255.0.0', 'fe7f::', 'fec0::', '224.0.0.1'],
  ],
  [isUnspecified, ['0.0.0.0', '::'], ['0.0.0.1', '::1']],
  [isMulticast, ['224.0.0.0', '239.255.255.255', 'ff00::', 'ffff::'], ['223.255.255.255', '240.0.0.0', 'fe00::']],
] as const) {
  test(`${is.name} holds at the bounds of its ranges and not beside them`, () => {
    for (const text of inside) assert.equal(is(parseAddress(text)), true, text)
    for (const text of outside) assert.equal(is(parseAddress(text)), false, text)
  })
}
