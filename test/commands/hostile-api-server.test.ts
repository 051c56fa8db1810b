import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startProgram } from './command-line.ts'
import { endureHostility } from './hostile-outages.ts'

test('sixty hostile answers of an API server end nothing, and cost neither much memory nor many lines', async (t) => {
  const start = (args: readonly string[]) => startProgram(t, args)
  const outages = await endureHostility(t, { seed: 15, answers: 60, outages: 2, start })
  for (const { lines, peakMib } of outages) {
    assert.ok(lines < 40, `${lines} lines`)
    assert.ok(peakMib < 450, `${peakMib} MiB`)
  }
})
