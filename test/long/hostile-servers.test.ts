import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { seededRandom } from '../../src/runtime/random.ts'
import { startHostileEtcd } from '../commands/hostile-etcd.ts'
import { endureHostility, type HostileOutage, type HostileServer } from '../commands/hostile-outages.ts'
import { startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { programPath } from '../peers/program.ts'
import { spawnChild } from '../support/spawn-child.ts'

const answers = Number(process.env.HOSTILE_ANSWERS ?? 10_000)

/** Memory does not grow, the list is right again at once after each of forty outages, and the log has a few lines for each. */
async function endure(t: TestContext, more: readonly string[], hostile?: HostileServer): Promise<void> {
  const start = (args: readonly string[]) => spawnChild(t, process.execPath, [programPath(), ...args, ...more])
  const options = { seed: 1, answers, outages: 40, start }
  const outages = await endureHostility(t, hostile === undefined ? options : { ...options, hostile })
  // The heap grows until half of the answers are over. The least of ten outages is what stays after garbage is collected.
  const least = (some: readonly HostileOutage[]): number => Math.min(...some.map(({ residentMib }) => residentMib))
  const [warm, last] = [least(outages.slice(-20, -10)), least(outages.slice(-10))]
  assert.ok(last - warm <= 10, `${warm} MiB in the third quarter, ${last} MiB in the last`)
  const peakMib = outages.at(-1)?.peakMib ?? 0
  assert.ok(peakMib <= 300, `${peakMib} MiB at most`)
  for (const { rightMs, lines } of outages) {
    assert.ok(rightMs <= 2_000, `right again after ${rightMs} ms`)
    assert.ok(lines <= 20, `${lines} lines in the log`)
  }
  const lines = outages.reduce((sum, outage) => sum + outage.lines, 0)
  assert.ok(lines <= 8 * outages.length, `${lines / outages.length} lines an outage`)
}

test(`${answers} hostile answers of an API server`, (t) => endure(t, []))

test(`${answers} hostile answers of an etcd`, async (t) => {
  const etcd = await startEtcd(openOwner(t))
  const hostile = await startHostileEtcd(t, etcd.port, seededRandom(1, 'etcd'))
  await endure(t, ['--etcd-servers', hostile.url], hostile)
})
