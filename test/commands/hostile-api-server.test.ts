import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startProgram } from './command-line.ts'
import { assertOneOutage, endureHostility } from './hostile-outages.ts'

test('the program survives sixty hostile answers of an API server, with little memory and few log lines', async (t) => {
  const start = (args: readonly string[]) => startProgram(t, args)
  const outages = await endureHostility(t, { seed: 15, answers: 60, outages: 2, start })
  for (const { lines, peakMib, idleMib } of outages) {
    assertOneOutage(lines)
    assert.ok(peakMib - idleMib <= 100, `${idleMib} MiB before the first outage, ${peakMib} MiB at most`)
  }
})
