import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Child, patiently, Watchdog } from '../../../src/drill/live/child.ts'
import { VirtualClock } from '../../../src/runtime/virtual-clock.ts'
import { isAlive } from '../../support/is-alive.ts'
import { tempDir } from '../../support/temp-dir.ts'
import { eventually, withTimeout } from '../../support/with-timeout.ts'

/** Starts a shell that runs the script; `output` reads what it printed. */
async function start(t: TestContext, script: string): Promise<{ child: Child; output: () => string }> {
  const watchdog = new Watchdog()
  const file = join(await tempDir(t), 'output')
  const child = await Child.start('sh', ['-c', script], { watchdog, output: file })
  t.after(async () => {
    await child.kill()
    watchdog.close()
  })
  return { child, output: () => readFileSync(file, 'utf8').trim() }
}

for (const [script, failure] of [
  ['echo one; echo two; exit 3', 'sh ended with code 3: two'],
  ['seq 5000; printf "last\\n\\n"; exit 1', 'sh ended with code 1: last'],
  ['exit 0', 'sh ended with code 0: no output'],
  ['kill -9 $$', 'sh ended with SIGKILL: no output'],
] as const) {
  test(`a process that ends by itself has failed: ${failure}`, async (t) => {
    const { child } = await start(t, script)
    await child.exited
    assert.equal(child.failure?.message, failure)
    assert.equal(child.failure, child.failure, 'each read returns the same error')
  })
}

for (const [code, failure] of [
  [0, undefined],
  [5, 'sh ended with code 5: ready'],
] as const) {
  test(`a process that ends with code ${code} after SIGTERM has ${failure === undefined ? 'not ' : ''}failed`, async (t) => {
    const { child, output } = await start(t, `trap 'exit ${code}' TERM; echo ready; while :; do sleep 0.05; done`)
    await eventually('its output', () => output() === 'ready')
    child.signal('SIGTERM')
    await child.exited
    assert.equal(child.failure?.message, failure)
  })
}

test('the output of a process does not replace an existing file', async (t) => {
  const watchdog = new Watchdog()
  t.after(() => watchdog.close())
  const output = join(await tempDir(t), 'output')
  writeFileSync(output, 'before')
  await assert.rejects(Child.start('echo', ['after'], { watchdog, output }), /EEXIST/)
  assert.equal(readFileSync(output, 'utf8'), 'before')
})

test('a process that the drill kills has not failed', async (t) => {
  const { child } = await start(t, 'sleep 600')
  await child.kill()
  assert.equal(child.failure, undefined)
})

test('a process that the drill has not killed leaves no process of its group behind', async (t) => {
  const { child, output } = await start(t, 'sleep 600 & echo $!')
  await child.exited
  const descendant = Number(output())
  await eventually('the end of its descendant', () => !isAlive(descendant)).finally(() => {
    if (isAlive(descendant)) process.kill(descendant, 'SIGKILL')
  })
})

test('a killed process has ended although a descendant outside its process group holds its output open', async (t) => {
  const { child, output } = await start(t, 'setsid sleep 600 & echo $!; wait')
  const descendant = Number(await eventually('its output', output))
  await withTimeout(child.kill(), 10_000, 'the end of the process').finally(() => process.kill(descendant, 'SIGKILL'))
  assert.ok(child.ended)
})

test('patiently retries an attempt each second until it succeeds, and reports only the first failure', async () => {
  const time = new VirtualClock()
  const messages: unknown[] = []
  let tries = 0
  const attempt = async (): Promise<void> => {
    if (++tries < 4) throw new Error(`no ${tries}`)
  }
  const done = patiently(attempt, {
    clock: time.view(),
    limitMs: 60_000,
    report: (failure) => messages.push(`${failure}`),
  })
  await time.advance(3_000)
  await done
  assert.deepEqual([tries, messages], [4, ['Error: no 1']])
})

test('patiently rejects with the last failure when its time limit is over', async () => {
  const time = new VirtualClock()
  let tries = 0
  const attempt = async (): Promise<void> => {
    throw new Error(`no ${++tries}`)
  }
  const done = patiently(attempt, { clock: time.view(), limitMs: 5_000, report: () => {} })
  const failed = assert.rejects(done, /^Error: no 6$/)
  await time.advance(10_000)
  await failed
})
