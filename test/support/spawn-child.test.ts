import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { isAlive } from './is-alive.ts'
import { spawnChild } from './spawn-child.ts'
import { eventually } from './with-timeout.ts'

function collectCleanups(): { after(undo: () => void | Promise<void>): void; run(): Promise<void> } {
  const undos: (() => void | Promise<void>)[] = []
  return {
    after: (undo) => void undos.push(undo),
    run: async () => {
      for (const undo of undos) await undo()
    },
  }
}

test('a child ends with its test, even one that ignores SIGTERM', async () => {
  const cleanups = collectCleanups()
  const script = "process.on('SIGTERM', () => console.log('no')); setInterval(() => {}, 1000); console.log('ready')"
  const child = await spawnChild(cleanups, process.execPath, ['--eval', script])
  await child.output(/ready/)
  assert.deepEqual(await child.stop(100), { code: null, signal: 'SIGKILL' })
  assert.match(child.stdout(), /no/)
  await cleanups.run()
  assert.equal(isAlive(child.pid), false)
})

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  test(`a child ends and a temporary directory is removed when ${signal} ends their process`, {
    concurrency: true,
  }, async (t) => {
    const starter = await spawnChild(t, process.execPath, ['test/support/samples/starts-a-child.ts'])
    const [, pid, directory = ''] = await starter.output(/child (\d+) in (.+)\./)
    assert.equal(isAlive(Number(pid)), true)
    assert.equal(existsSync(directory), true)
    starter.kill(signal)
    assert.deepEqual(await starter.exited, { code: null, signal })
    await eventually('the end of the child', () => !isAlive(Number(pid)))
    assert.equal(existsSync(directory), false)
  })
}

test('waiting for output of a child that has exited rejects with its output', async (t) => {
  const child = await spawnChild(t, process.execPath, [
    '--eval',
    "console.error('something else'); process.exitCode = 3",
  ])
  await assert.rejects(child.output(/hello/), /ended before .*hello.* was seen[\s\S]*something else/)
  assert.deepEqual(await child.exited, { code: 3, signal: null })
})

test('starting a program that does not exist rejects', async (t) => {
  await assert.rejects(spawnChild(t, 'no-such-program', []), /ENOENT/)
})
