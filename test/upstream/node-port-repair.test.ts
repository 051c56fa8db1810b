// Where our code is called differently: see range-repair-runner.ts.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parsePortRange } from '../../src/net/host-port.ts'
import { nodePortClaims } from '../../src/repair/bitmap/claims.ts'
import { nodePortsOf } from '../../src/repair/service-claims.ts'
import { runCase } from './range-repair-runner.ts'
import { nodePortRepair } from './range-repair-tables.ts'

const { file, tables } = nodePortRepair

describe(`${file}, repair`, () => {
  for (const one of tables.repair) {
    test(one.name, () => runCase(nodePortClaims(parsePortRange(one.call.ranges[0] ?? '')), one))
  }
})

describe(`${file}, collectServiceNodePorts`, () => {
  for (const { name, given, expect } of tables.collectServiceNodePorts) {
    test(name, () => assert.deepEqual(nodePortsOf(given.objects[0]).toSorted(), expect.ports))
  }
})
