import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endureHostility } from '../commands/hostile-outages.ts'
import { programPath } from '../peers/program.ts'
import { spawnChild } from '../support/spawn-child.ts'

test('ten thousand hostile answers of an API server: memory is at its most early on, and it is right again at once each time', async (t) => {
  const start = (args: readonly string[]) => spawnChild(t, process.execPath, [programPath(), ...args])
  const outages = await endureHostility(t, { seed: 1, answers: 10_000, outages: 40, start })
  const [early, last] = [outages[9]?.peakMib ?? 0, outages.at(-1)?.peakMib ?? 0]
  assert.ok(last - early <= 30, `${early} MiB after a quarter, ${last} MiB in the end`)
  for (const { rightMs } of outages) assert.ok(rightMs <= 2_000, `right again after ${rightMs} ms`)
})
