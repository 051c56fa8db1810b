import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addressOf, tryParseAddress } from '../../src/net/address.ts'
import { canonicalAddress, readAddress, textFrom } from '../../src/net/stored-address.ts'

/** The canonical text; undefined if the text is not an address. */
function read(text: string): string | undefined {
  // What remains from the address before must not matter.
  const groups = new Uint16Array(8).fill(0xabcd)
  const family = readAddress(text, groups)
  if (family === undefined) {
    assert.equal(canonicalAddress(text), undefined)
    return undefined
  }
  const canonical = textFrom(family, groups, text)
  assert.equal(canonicalAddress(text), canonical)
  return canonical
}

const ipv4 = fc.bigInt({ min: 0n, max: (1n << 32n) - 1n }).map((value) => addressOf(4, value))
const group = fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 0xffffn }))
const ipv6 = fc
  .array(group, { minLength: 8, maxLength: 8 })
  .map((groups) =>
    addressOf(
      6,
      groups.reduce((value, part) => (value << 16n) | part, 0n),
    ),
  )
  .filter(({ value }) => value >> 32n !== 0xffffn)

test('an address in canonical form is read and formats to the same text', () => {
  fc.assert(fc.property(fc.oneof(ipv4, ipv6), ({ text }) => assert.equal(read(text), text)))
})

test('texts that the strict parser accepts are read alike; beyond them only leading zeros and mapped IPv4 are accepted', () => {
  const piece = fc.constantFrom(
    '::',
    ':',
    '.',
    '0',
    '1',
    '10',
    '255',
    '256',
    'ff',
    'ffff',
    '1ffff',
    '1.2.3.4',
    'g',
    '%',
    '/',
  )
  const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))
  fc.assert(
    fc.property(text, (text) => {
      const strict = tryParseAddress(text)
      if (strict !== undefined) assert.equal(read(text), strict.text)
      else if (read(text) !== undefined) assert.match(text, /(^|[.:])0[\da-f]|ffff:/)
    }),
    { numRuns: 20_000 },
  )
})

// What Go's netutils.ParseIPSloppy of k8s.io/utils returns.
const sloppy: Readonly<Record<string, string | undefined>> = {
  '010.001.0.09': '10.1.0.9',
  '0000000010.0.0.1': '10.0.0.1',
  '::ffff:10.0.0.1': '10.0.0.1',
  '::ffff:a00:1': '10.0.0.1',
  '::FFFF:010.0.0.1': '10.0.0.1',
  '::10.0.0.1': '::a00:1',
  'FD00::00001': 'fd00::1',
  'FD00::1': 'fd00::1',
  '1::0:2': '1::2',
  '1:0:0:2:3::4': '1::2:3:0:0:4',
  '1:0:0:2:3:0:0:0': '1:0:0:2:3::',
  '1:2:3:4:5:6:7::': '1:2:3:4:5:6:7:0',
  '1:2:3:4:5:6:7:8::': undefined,
  '::1:2:3:4:5:6:7:8': undefined,
  '1:2:3:4:5:6:7:1.2.3.4': undefined,
  '1:2:3:4:5:1.2.3.4': undefined,
  '1:2:3:4:5:6:1.2.3.4': '1:2:3:4:5:6:102:304',
  '10.0.0': undefined,
  '10.0.0.1.2': undefined,
  '10.0.0.256': undefined,
  '10.0.0.': undefined,
  ' 10.0.0.1': undefined,
  'fe80::1%eth0': undefined,
  'fd00:::1': undefined,
  'fd00::1:': undefined,
  ':1': undefined,
  '': undefined,
  None: undefined,
}
for (const [text, expected] of Object.entries(sloppy)) {
  test(`${JSON.stringify(text)} is ${expected ?? 'no address'}`, () => assert.equal(read(text), expected))
}

test('an IPv4 address fills the last two groups, after ::ffff, also if it is written as a mapped address', () => {
  for (const text of ['10.1.2.3', '::ffff:10.1.2.3']) {
    const groups = new Uint16Array(8).fill(0xabcd)
    assert.equal(readAddress(text, groups), 4)
    assert.deepEqual([...groups], [0, 0, 0, 0, 0, 0xffff, 0x0a01, 0x0203])
  }
})
