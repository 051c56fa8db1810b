import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AddressError } from '../../src/net/address.ts'
import { parsePortRange, portRangeContains } from '../../src/net/port-range.ts'

for (const [text, first, last] of [
  ['30000-32767', 30_000, 32_767],
  ['30000+2767', 30_000, 32_767],
  ['80', 80, 80],
  ['80-80', 80, 80],
  ['80+0', 80, 80],
  ['1-65535', 1, 65_535],
] as const) {
  test(`${text} is the ports from ${first} to ${last}`, () => {
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
  '999999999999-9999999999999',
]) {
  test(`${JSON.stringify(text)} is refused as a port range, in one line that names it`, () => {
    assert.throws(
      () => parsePortRange(text),
      (error: Error) => error instanceof AddressError && error.message.startsWith(JSON.stringify(text)),
    )
  })
}
