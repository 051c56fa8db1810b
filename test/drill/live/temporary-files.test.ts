import assert from 'node:assert/strict'
import { existsSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Watchdog } from '../../../src/drill/live/child.ts'
import { writeRecoveryFile } from '../../../src/drill/live/found-state.ts'
import { tempDir } from '../../support/temp-dir.ts'

// If a shell ran the commands in these names, a file named `made` would appear.
const names = [
  'plain',
  'a b',
  ' ',
  "it's",
  '"',
  '$(touch made)',
  '`touch made`',
  'a;touch made',
  '*',
  '-rf',
  'a\nb',
  '\\',
]

for (const name of names) {
  test(`a watchdog removes the directory ${JSON.stringify(name)} and nothing else`, async (t) => {
    const parent = await tempDir(t)
    const outside = join(await tempDir(t), 'outside')
    await writeFile(outside, '')
    // Directories that a removal would hit if a shell split or expanded the name.
    const siblings = ['a', 'b', 'made-by-nobody', 'plain.txt'].filter((one) => one !== name)
    for (const sibling of siblings) await mkdir(join(parent, sibling))
    const directory = join(parent, name)
    await mkdir(directory)
    await writeFile(join(directory, 'secret'), '')
    await symlink(dirname(outside), join(directory, 'link'))
    new Watchdog(directory).close()
    while (existsSync(directory)) await sleep(20)
    assert.deepEqual(readdirSync(parent).sort(), siblings.sort())
    assert.ok(existsSync(outside), 'a symbolic link is removed without its target')
    assert.ok(!existsSync('made'))
  })
}

suite('the recovery file', () => {
  test('is readable only by its owner, and is created in a new directory with an unpredictable name', async (t) => {
    for (const name of names) {
      const directory = join(await tempDir(t), name)
      await mkdir(directory)
      inTemporaryDirectory(t, directory)
      const theirs = join(directory, 'theirs')
      await writeFile(theirs, 'untouched')
      await symlink(theirs, join(directory, `default-kubernetes-found-${process.pid}.json`))
      const found = { apiVersion: 'v1', kind: 'List', items: [] }
      const [file, other] = [await writeRecoveryFile(found), await writeRecoveryFile(found)]
      assert.notEqual(file, other)
      assert.deepEqual(JSON.parse(readFileSync(file, 'utf8')), found)
      assert.equal(statSync(file).mode & 0o777, 0o600)
      assert.equal(lstatSync(dirname(file)).mode & 0o777, 0o700)
      assert.equal(dirname(dirname(file)), directory)
      assert.equal(readFileSync(theirs, 'utf8'), 'untouched')
    }
  })
})

function inTemporaryDirectory(t: TestContext, directory: string): void {
  const { TMPDIR: before } = process.env
  process.env.TMPDIR = directory
  t.after(() => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
  })
}
