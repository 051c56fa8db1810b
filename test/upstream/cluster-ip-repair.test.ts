// Where our code is called differently: see range-repair-runner.ts.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseCidr } from '../../src/net/cidr.ts'
import { clusterIpClaims } from '../../src/repair/bitmap/claims.ts'
import { runCase } from './range-repair-runner.ts'
import { clusterIpRepair } from './range-repair-tables.ts'

const { file, tables } = clusterIpRepair

for (const table of ['repair', 'dualStack'] as const) {
  describe(`${file}, ${table}`, () => {
    for (const one of tables[table]) test(one.name, () => runCase(clusterIpClaims(one.call.ranges.map(parseCidr)), one))
  })
}

describe(`${file}, shouldWorkOnSecondary`, () => {
  for (const { name, call, expect } of tables.shouldWorkOnSecondary) {
    test(name, () => {
      const { ranges } = clusterIpClaims(call.ranges.map(parseCidr))
      const families = ranges.map(({ text }) => `IPv${parseCidr(text).family}`)
      assert.deepEqual(families, expect.families)
      const names = ['serviceips', 'secondaryserviceips'].slice(0, families.length)
      assert.deepEqual(
        ranges.map((range) => range.name),
        names,
      )
    })
  }
})
