import assert from 'node:assert/strict'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../support/temp-dir.ts'
import { runProgram, startProgram } from './command-line.ts'

test('a campaign of three seeds in two processes holds, and says what it cost', async (t) => {
  const directory = join(await tempDir(t), 'report')
  const args = ['drill', 'random', '--seed=1', '--runs=3', '--jobs=2', '--output=json', `--report=${directory}`]
  const { code, stdout } = await runProgram(t, args)
  assert.equal(code, 0, stdout)
  const { summary, failures } = JSON.parse(stdout)
  assert.deepEqual([summary.schedules, summary.failed, summary.interrupted, failures], [3, 0, false, []])
  assert.ok(summary.cpuMs.mean > 0 && summary.simulatorEvents.max > 1_000)
  assert.equal(await readFile(join(directory, 'campaign.json'), 'utf8'), stdout)
})

test('SIGINT ends a campaign and its processes at once, and what there is is told, even where its file cannot be written', async (t) => {
  const directory = await tempDir(t)
  const file = join(directory, 'campaign.json')
  await mkdir(file)
  const child = await startProgram(t, ['drill', 'random', '--runs=100000', '--jobs=2', `--report=${directory}`])
  await child.output(/^0 of 100000 schedules, all held so far$/m)
  child.kill('SIGINT')
  const { code } = await child.exited
  assert.equal(code, 1)
  assert.match(child.stdout(), /^interrupted: \d+ random schedules of ten minutes: all held$/m)
  const told = `cannot write ${file}: it is a directory; put that right, or give --report another directory`
  assert.equal(child.stderr(), `apiserver-bootstrap: ${told}\n`)
})
