import assert from 'node:assert/strict'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'

const root = join(import.meta.dirname, '../..')
const consumer = `
import * as library from 'apiserver-bootstrap'
import * as testing from 'apiserver-bootstrap/testing'

const doors = [library, testing].map((door) => Object.keys(door))
console.log(JSON.stringify(doors))
`

test('the package works where it is installed', { timeout: 180_000 }, async (t) => {
  const directory = await tempDir(t)
  /** Runs a command to its good end there; what it wrote to standard output. */
  const run = async (command: string, args: readonly string[], cwd = directory): Promise<string> => {
    const child = await spawnChild(t, command, args, { cwd })
    const { code } = await child.exited
    assert.equal(code, 0, `${command} ${args.join(' ')}\n${child.stdout()}${child.stderr()}`)
    return child.stdout()
  }

  const report = await run('npm', ['pack', '--json', '--pack-destination', directory], root)
  const [tarball] = JSON.parse(report) as {
    filename: string
    integrity: string
    files: { path: string }[]
  }[]
  assert.ok(tarball)
  await writeFile(join(directory, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }')
  await writeFile(join(directory, 'consumer.ts'), consumer)
  await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', `./${tarball.filename}`])

  await t.test('it holds the command line, the library and the notices, and no sources', () => {
    const paths = tarball.files.map(({ path }) => path)
    for (const path of [
      'LICENSE',
      'dist/cli.js',
      'dist/THIRD-PARTY-NOTICES.txt',
      'dist/lib/index.js',
      'dist/lib/testing.d.ts',
    ]) {
      assert.ok(paths.includes(path), `${path} is missing`)
    }
    const unwanted = paths.filter(
      (path) => (path.endsWith('.ts') && !path.endsWith('.d.ts')) || /^(?:src|test|scripts)\//.test(path),
    )
    assert.deepEqual(unwanted, [])
  })

  await t.test('packed elsewhere, later and with other rights of its files, it has the same bytes', async () => {
    const elsewhere = join(directory, 'elsewhere')
    await mkdir(elsewhere)
    for (const { path } of tarball.files) await cp(join(root, path), join(elsewhere, path))
    await run('chmod', ['-R', 'g+w', elsewhere])
    const [again] = JSON.parse(await run('npm', ['pack', '--json', '--dry-run'], elsewhere))
    assert.equal(again.integrity, tarball.integrity)
  })

  await t.test('both doors open', async () => {
    const doors = JSON.parse(await run(process.execPath, ['consumer.ts'])) as string[][]
    assert.equal(doors.length, 2)
    for (const names of doors) assert.ok(names.length > 0)
  })

  await t.test('nothing beside the doors can be imported', async () => {
    const script = "await import('apiserver-bootstrap/dist/lib/index.js')"
    const child = await spawnChild(t, process.execPath, ['--input-type=module', '--eval', script], { cwd: directory })
    assert.equal((await child.exited).code, 1)
    assert.match(child.stderr(), /ERR_PACKAGE_PATH_NOT_EXPORTED/)
  })

  await t.test('its types hold in a strict project that checks libraries too', async () => {
    const options = [
      '--strict',
      '--exactOptionalPropertyTypes',
      '--noEmit',
      '--skipLibCheck',
      'false',
      '--pretty',
      'false',
    ]
    const target = ['--target', 'es2024', '--lib', 'es2024,esnext.disposable', '--module', 'nodenext']
    const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
    const tsc = await spawnChild(
      t,
      join(root, 'node_modules/.bin/tsc'),
      [...options, ...target, ...types, 'consumer.ts'],
      {
        cwd: directory,
      },
    )
    await tsc.exited
    // The Kubernetes client's own declarations lack those of ws.
    const others = /^node_modules\/(?!apiserver-bootstrap\/)/
    const errors = tsc
      .stdout()
      .split('\n')
      .filter((line) => /error TS/.test(line) && !others.test(line))
    assert.deepEqual(errors, [])
  })

  await t.test('its command runs', async () => {
    const said = await run(process.execPath, ['node_modules/.bin/apiserver-bootstrap', '--version'])
    assert.match(said, /^apiserver-bootstrap \d+\.\d+\.\d+ \(Node 22\.19\.0\)$/m)
  })
})
