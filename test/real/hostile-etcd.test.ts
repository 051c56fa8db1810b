import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seededRandom } from '../../src/runtime/random.ts'
import { startHostileEtcd } from '../commands/hostile-etcd.ts'
import { assertOneOutage, endureHostility } from '../commands/hostile-outages.ts'
import { startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { programPath } from '../peers/program.ts'
import { spawnChild } from '../support/spawn-child.ts'

test('a master survives a hundred hostile answers of an etcd with little memory and at most two lines an outage', async (t) => {
  const etcd = await startEtcd(openOwner(t))
  const hostile = await startHostileEtcd(t, etcd.port, seededRandom(15, 'etcd'))
  const start = (args: readonly string[]) =>
    spawnChild(t, process.execPath, [programPath(), ...args, '--etcd-servers', hostile.url])
  const outages = await endureHostility(t, { seed: 15, answers: 100, outages: 3, start, hostile })
  for (const { lines, peakMib, idleMib } of outages) {
    assertOneOutage(lines, 2)
    assert.ok(peakMib - idleMib <= 30, `${idleMib} MiB before the first outage, ${peakMib} MiB at most`)
  }
})
