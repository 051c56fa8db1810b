import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAlive } from '../support/is-alive.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'
import { eventually } from '../support/with-timeout.ts'

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGKILL'] as const) {
  test(`when ${signal} ends a process, its child ends and only its directory is removed, even if the path has blanks`, async (t) => {
    const root = await tempDir(t)
    // Its first word is a pattern that matches the others.
    const others = ['of-a', 'of-[a-z]']
    const directory = join(root, 'of-[a-z] somebody', 'own')
    for (const path of [...others.map((other) => join(root, other)), directory]) mkdirSync(path, { recursive: true })
    const starter = await spawnChild(t, process.execPath, ['test/support/samples/guards-things.ts'], {
      env: { TMPDIR: directory },
    })
    const [, pid, path = ''] = await starter.output(/process (\d+) directory (.+)\./)
    assert.equal(isAlive(Number(pid)), true)
    assert.ok(path.startsWith(directory) && existsSync(path), path)
    starter.kill(signal)
    assert.deepEqual(await starter.exited, { code: null, signal })
    await eventually('the end of the process', () => !isAlive(Number(pid)))
    await eventually('the end of its directory', () => readdirSync(directory).length === 0)
    assert.deepEqual(readdirSync(root).sort(), [...others, 'of-[a-z] somebody'].sort())
  })
}
