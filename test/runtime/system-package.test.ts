import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { tempDir } from '../support/temp-dir.ts'

const source = new URL('../../src/runtime/system-package.ts', import.meta.url)

/** The version that a program in this directory reports, or why it has none. The limit ends an endless search. */
async function versionIn(directory: string): Promise<string> {
  await mkdir(directory, { recursive: true })
  const module = join(directory, 'system-package.ts')
  await cp(source, module)
  const script = `
    import { packageVersion } from ${JSON.stringify(pathToFileURL(module).href)}
    console.log(await packageVersion().catch(({ message }) => message))
  `
  const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script]
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: 60_000 }, (error, stdout) => resolve(error?.message ?? stdout.trim()))
  })
}

test('packageVersion returns the version of the nearest package.json above the program', async (t) => {
  const root = await tempDir(t)
  await writeFile(join(root, 'package.json'), JSON.stringify({ version: '1.2.3' }))
  assert.equal(await versionIn(join(root, 'lib', 'runtime')), '1.2.3')
  await writeFile(join(root, 'lib', 'package.json'), JSON.stringify({ version: '4.5.6' }))
  assert.equal(await versionIn(join(root, 'lib', 'runtime')), '4.5.6')
  assert.equal(await versionIn(root), '1.2.3')
})

test('packageVersion fails with a clear message if no package.json is above the program', async (t) => {
  const directory = join(await tempDir(t), 'program')
  assert.equal(await versionIn(directory), `no package.json above ${directory}`)
})
