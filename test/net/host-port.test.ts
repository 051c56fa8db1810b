import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AddressError } from '../../src/net/address.ts'
import { formatHostPort, parseHostPort, parsePortRange, portRangeContains } from '../../src/net/host-port.ts'

test('an IPv4 address, a bracketed IPv6 address and a host name with a port parse, and format to the same text', () => {
  const accepted: Readonly<Record<string, { host: string; port: number }>> = {
    '127.0.0.1:10269': { host: '127.0.0.1', port: 10_269 },
    '0.0.0.0:0': { host: '0.0.0.0', port: 0 },
    '[::1]:65535': { host: '::1', port: 65_535 },
    '[::]:1': { host: '::', port: 1 },
    'localhost:8080': { host: 'localhost', port: 8080 },
    'node-1.example:80': { host: 'node-1.example', port: 80 },
  }
  for (const [text, value] of Object.entries(accepted)) {
    assert.deepEqual(parseHostPort(text), value)
    assert.equal(formatHostPort(value), text)
  }
})

test('an invalid host or port is refused with the reason', () => {
  const refused: Readonly<Record<string, RegExp>> = {
    '': /is not HOST:PORT, such as/,
    '10269': /is not HOST:PORT, such as/,
    '::1:10269': /is not HOST:PORT, such as/,
    '[::1]': /is not HOST:PORT, such as/,
    ':10269': /the host is missing; use 0\.0\.0\.0 or \[::\]/,
    'localhost:': /the port is a number/,
    'localhost:-1': /the port is a number/,
    'localhost:080': /the port is a number/,
    'localhost:65536': /the port is a number/,
    'localhost:http': /the port is a number/,
    '010.0.0.1:80': /leading zero/,
    '10.1:80': /four parts/,
    '256.0.0.1:80': /at most 255/,
    '[127.0.0.1]:80': /only an IPv6 address may be in brackets/,
    '[]:80': /only an IPv6 address may be in brackets/,
    '[::x]:80': /is not an IPv6 address/,
    'under_score:80': /neither a name nor an address/,
    '-x:80': /neither a name nor an address/,
    'a b:80': /neither a name nor an address/,
  }
  for (const [text, reason] of Object.entries(refused)) {
    assert.throws(
      () => parseHostPort(text),
      (error) => error instanceof AddressError && reason.test(error.message),
      text,
    )
  }
})

for (const [text, first, last] of [
  ['30000-32767', 30_000, 32_767],
  ['30000+2767', 30_000, 32_767],
  ['80', 80, 80],
  ['80-80', 80, 80],
  ['80+0', 80, 80],
  ['1-65535', 1, 65_535],
] as const) {
  test(`${text} parses to the ports from ${first} to ${last}`, () => {
    const range = parsePortRange(text)
    assert.deepEqual(range, { first, last, size: last - first + 1, text: `${first}-${last}` })
    for (const [port, inside] of [
      [first - 1, false],
      [first, true],
      [last, true],
      [last + 1, false],
    ] as const) {
      assert.equal(portRangeContains(range, port), inside, `${port}`)
    }
  })
}

for (const text of [
  '',
  '0-10',
  '0',
  '1-65536',
  '65535+1',
  '20-10',
  '-10',
  '10-',
  '10--20',
  '10-+20',
  '10 - 20',
  ' 10-20',
  '0x10-0x20',
  '010-020',
  '1e3-2e3',
  '10-20-30',
  'a-b',
  '10:20',
  '10-20\n',
  '999999999999-9999999999999',
]) {
  test(`${JSON.stringify(text)} is refused as a port range, in one line that begins with it`, () => {
    assert.throws(
      () => parsePortRange(text),
      (error: Error) =>
        error instanceof AddressError &&
        error.message.startsWith(JSON.stringify(text)) &&
        !error.message.includes('\n'),
    )
  })
}
