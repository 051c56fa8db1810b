import assert from 'node:assert/strict'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { installPackage, pack, packClone, run } from '../support/package.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'

const root = join(import.meta.dirname, '../..')
/** The oldest supported Node, the one used for development, and the newest. */
const nodes = {
  '22.19': join(root, 'test/floor/node_modules/.bin/node'),
  '24': join(root, 'node_modules/.bin/node'),
  '26': join(root, 'test/floor/newest/node_modules/.bin/node'),
}
const program = `
import * as library from 'apiserver-bootstrap'
import * as testing from 'apiserver-bootstrap/testing'

const doors = [library, testing].map((door) => Object.keys(door))
console.log(JSON.stringify(doors))
`
test('the packed package works after its installation', { timeout: 180_000 }, async (t) => {
  const directory = await tempDir(t)
  const tarball = await packClone(t, directory)
  const consumer = join(directory, 'consumer')
  await installPackage(t, tarball, consumer)
  await writeFile(join(consumer, 'program.ts'), program)
  const packed = join(consumer, 'node_modules/apiserver-bootstrap')

  await t.test(
    'the package contains the command line, the library, the documents, the examples and the notices, and no sources',
    () => {
      for (const path of [
        'LICENSE',
        'README.md',
        'dist/cli.js',
        'dist/THIRD-PARTY-NOTICES.txt',
        'dist/lib/index.js',
        'dist/lib/testing.d.ts',
        'test/examples/redis-leases.ts',
      ]) {
        assert.ok(tarball.paths.includes(path), `${path} is missing`)
      }
      const unwanted = tarball.paths
        .filter((path) => !path.startsWith('test/examples/'))
        .filter((path) => (path.endsWith('.ts') && !path.endsWith('.d.ts')) || /^(?:src|test|scripts)\//.test(path))
      assert.deepEqual(unwanted, [])
    },
  )

  await t.test('the package contains each file that its documents link to', async () => {
    const missing: string[] = []
    for (const page of tarball.paths.filter((path) => path.endsWith('.md'))) {
      const text = await readFile(join(packed, page), 'utf8')
      for (const [, link = ''] of text.matchAll(/\]\((?![a-z]+:|#)([^)\s#]+)/g)) {
        const target = join(page, '..', link)
        const isThere = tarball.paths.some((path) => path === target || path.startsWith(`${target}/`))
        if (!isThere) missing.push(`${page}: ${link}`)
      }
    }
    assert.deepEqual(missing, [])
  })

  await t.test('a later pack in another folder with other file modes has the same bytes', async () => {
    const elsewhere = join(directory, 'elsewhere')
    await mkdir(elsewhere)
    for (const path of tarball.paths) await cp(join(packed, path), join(elsewhere, path))
    await run(t, 'chmod', ['-R', 'g+w', elsewhere], { cwd: directory })
    const again = await pack(t, ['--dry-run', '--ignore-scripts'], elsewhere)
    assert.equal(again.integrity, tarball.integrity)
  })

  await t.test('no script runs at installation', async () => {
    const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { scripts: object }
    const hooks = Object.keys(scripts).filter((name) => /install|^prepare$/.test(name))
    assert.deepEqual(hooks, [])
  })

  await t.test('publint has no findings', async () => {
    const output = await run(t, join(root, 'node_modules/.bin/publint'), ['run', packed, '--pack=false', '--strict'], {
      cwd: consumer,
    })
    assert.match(output, /All good!/)
  })

  await t.test('the types match the modules in every module resolution that supports exports', async () => {
    const analysis = await checkPackage(createPackageFromTarballData(await readFile(tarball.file)))
    assert.ok(analysis.types)
    // Node can `require` ES modules since 22.12. A resolution that does not support `exports` finds neither entry
    // point.
    const problems = analysis.problems.filter(
      (problem) =>
        problem.kind !== 'CJSResolvesToESM' && !('resolutionKind' in problem && problem.resolutionKind === 'node10'),
    )
    assert.deepEqual(problems, [])
  })

  for (const [name, node] of Object.entries(nodes)) {
    await t.test(`on Node ${name} both entry points can be imported, and the command runs`, async () => {
      assert.match(await run(t, node, ['--version'], { cwd: consumer }), new RegExp(`^v${name}\\.`))
      const entryPoints = JSON.parse(
        await run(t, node, ['--no-warnings', 'program.ts'], { cwd: consumer }),
      ) as string[][]
      assert.equal(entryPoints.length, 2)
      for (const names of entryPoints) assert.ok(names.length > 0)
      const command = 'node_modules/.bin/apiserver-bootstrap'
      const output = await run(t, node, [command, '--version'], { cwd: consumer })
      assert.match(output, new RegExp(`^apiserver-bootstrap \\d+\\.\\d+\\.\\d+ \\(Node ${name}\\.\\S+\\)$`, 'm'))
      const master = await spawnChild(t, node, [command, 'run', '--embedded', '--health-bind-address', '127.0.0.1:0'], {
        cwd: consumer,
      })
      await master.output(/192\.0\.2\.1/)
      assert.deepEqual(await master.stop(), { code: 0, signal: null }, master.stderr())
    })
  }

  await t.test('the import in an old Node fails and names the required version', async () => {
    const old = `data:text/javascript,Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`
    for (const entryPoint of ['apiserver-bootstrap', 'apiserver-bootstrap/testing']) {
      const script = `await import('${entryPoint}').catch((error) => console.log(error.message))`
      const output = await run(t, process.execPath, ['--import', old, '--input-type=module', '--eval', script], {
        cwd: consumer,
      })
      assert.equal(output, 'apiserver-bootstrap needs Node 22.19 or later; this is 20.20.2\n')
    }
  })

  await t.test('only the entry points can be imported', async () => {
    const script = "await import('apiserver-bootstrap/dist/lib/index.js')"
    const child = await spawnChild(t, process.execPath, ['--input-type=module', '--eval', script], { cwd: consumer })
    assert.equal((await child.exited).code, 1)
    assert.match(child.stderr(), /ERR_PACKAGE_PATH_NOT_EXPORTED/)
  })
})
