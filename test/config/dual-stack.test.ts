import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineMaster } from '../../src/config/master-options.ts'

for (const [ranges, primary, secondary] of [
  ['10.96.0.0/12,fd00::/112', '192.0.2.1', '2001:db8::1'],
  ['fd00::/112,10.96.0.0/12', '2001:db8::1', '192.0.2.1'],
] as const) {
  for (const order of [
    [primary, secondary],
    [secondary, primary],
  ]) {
    test(`with addresses ${order.join(' and ')} the one in the family of the first range of ${ranges} is primary`, () => {
      const settings = { advertiseAddress: order.join(','), serviceClusterIpRange: ranges }
      const { advertiseAddresses } = defineMaster(settings, 'host')
      assert.deepEqual(
        advertiseAddresses.map(({ text }) => text),
        [primary, secondary],
      )
    })
  }
}
