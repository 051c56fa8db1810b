import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { seededRandom } from '../../src/runtime/random.ts'
import { startHostileEtcd } from '../commands/hostile-etcd.ts'
import {
  assertOneOutage,
  endureHostility,
  type HostileOutage,
  type HostileServer,
} from '../commands/hostile-outages.ts'
import { startEtcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { programPath } from '../peers/program.ts'
import { spawnChild } from '../support/spawn-child.ts'

const answers = Number(process.env.HOSTILE_ANSWERS ?? 10_000)

/**
 * Memory stays flat. After each of forty outages the list is correct again at once. Each outage is one line in the log
 * when it begins and one when it ends.
 */
async function endure(t: TestContext, more: readonly string[], hostile?: HostileServer) {
  const program = programPath()
  // When it runs from its sources, the program holds another 80 MiB until the first garbage collections.
  assert.match(program, /\.js$/, 'run npm run build before')
  const start = (args: readonly string[]) => spawnChild(t, process.execPath, [program, ...args, ...more])
  const options = { seed: 1, answers, outages: 40, start }
  const outages = await endureHostility(t, hostile === undefined ? options : { ...options, hostile })
  const [first] = outages
  // The minimum of ten outages is what remains after garbage is collected.
  const least = (some: readonly HostileOutage[]): number => Math.min(...some.map(({ residentMib }) => residentMib))
  const [warmMib, lastMib] = [least(outages.slice(-20, -10)), least(outages.slice(-10))]
  assert.ok(lastMib - warmMib <= 10, `${warmMib} MiB in the third quarter, ${lastMib} MiB in the last`)
  for (const { rightMs, lines, residentMib } of outages) {
    assert.ok(rightMs <= 2_000, `right again after ${rightMs} ms`)
    assertOneOutage(lines)
    const grownMib = residentMib - (first?.residentMib ?? 0)
    assert.ok(grownMib <= 30, `${grownMib} MiB more than after the first outage`)
  }
  const { peakMib = 0, idleMib = 0 } = outages.at(-1) ?? {}
  assert.ok(peakMib - idleMib <= 120, `${idleMib} MiB before the first outage, ${peakMib} MiB at most`)
  const longer = outages.filter(({ lines }) => lines.length > 2)
  assert.ok(longer.length <= outages.length / 10, `${longer.length} outages have more than two lines`)
  return outages
}

test(`a master survives ${answers} hostile answers of an API server with flat memory and few log lines`, async (t) =>
  void (await endure(t, [])))

test(`a master survives ${answers} hostile answers of an etcd with flat memory and few log lines`, async (t) => {
  const etcd = await startEtcd(openOwner(t))
  const hostile = await startHostileEtcd(t, etcd.port, seededRandom(1, 'etcd'))
  for (const { lines, residentMib, idleMib } of await endure(t, ['--etcd-servers', hostile.url], hostile)) {
    assertOneOutage(lines, 2)
    assert.ok(residentMib - idleMib <= 30, `${idleMib} MiB before the first outage, ${residentMib} MiB after one`)
  }
})
