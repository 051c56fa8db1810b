import assert from 'node:assert/strict'
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { chmod, chown, cp, mkdir, rename, symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { crc32 } from 'node:zlib'
import type { Cleanup } from '../support/cleanup.ts'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'

const repository = resolve(import.meta.dirname, '..', '..')
/** Another user, if this test may give files to others. */
const stranger = process.getuid?.() === 0 ? 65_534 : undefined
/** What the planted code prints. */
const planted = /planted code runs/

suite('the compile cache of Node', () => {
  let program: string
  let cache: string

  const undo: (() => void | Promise<void>)[] = []
  before(async () => {
    ;({ program, cache } = await plant({ after: (one) => void undo.push(one) }))
  })
  after(async () => {
    for (const one of undo) await one()
  })

  test('planted code in a cache runs if NODE_COMPILE_CACHE selects that cache', async (t) => {
    assert.match(await run(t, program, { NODE_COMPILE_CACHE: cache }), planted)
  })

  test('a cache in the shared temporary directory is not used', async (t) => {
    const directory = await tempDir(t)
    await chmod(directory, 0o1777)
    const own = join(directory, 'home')
    await mkdir(own, { mode: 0o700 })
    const copy = join(directory, 'node-compile-cache')
    await cp(cache, copy, { recursive: true })
    if (stranger !== undefined)
      for (const file of ['', ...filesIn(copy)]) await chown(join(copy, file), stranger, stranger)
    assert.doesNotMatch(await run(t, program, { TMPDIR: directory, XDG_CACHE_HOME: own }), planted)
    assert.doesNotMatch(await run(t, program, { TMPDIR: directory, XDG_CACHE_HOME: '/proc/nowhere' }), planted)
  })

  test('the cache is in a directory that only its user can access', async (t) => {
    const home = await tempDir(t)
    for (const [given, below] of [
      [{ XDG_CACHE_HOME: home }, home],
      [{ HOME: home, XDG_CACHE_HOME: undefined }, join(home, '.cache')],
      [{ HOME: home, XDG_CACHE_HOME: 'not/absolute' }, join(home, '.cache')],
    ] as const) {
      await run(t, program, given)
      const directory = join(below, 'apiserver-bootstrap', 'compile-cache')
      assert.equal(statSync(directory).mode & 0o7777, 0o700)
      assert.notEqual(filesIn(directory).length, 0)
    }
  })

  const fits: Readonly<Record<string, (paths: Paths) => Promise<void>>> = {
    'that others may read': ({ directory }) => chmod(directory, 0o750),
    'that others may write': ({ directory }) => chmod(directory, 0o702),
    'in a directory that others may write': ({ above }) => chmod(above, 0o770),
    'in a home that others may write': ({ home }) => chmod(home, 0o777),
    'that is a symbolic link': async ({ directory }) => {
      await rename(directory, `${directory}.real`)
      await symlink(`${directory}.real`, directory)
    },
    ...(stranger !== undefined && {
      'that another user owns': ({ directory }: Paths) => chown(directory, stranger, stranger),
      'in a directory of another user': ({ above }: Paths) => chown(above, stranger, stranger),
      'in a home of another user': ({ home }: Paths) => chown(home, stranger, stranger),
    }),
  }
  for (const [what, make] of Object.entries(fits)) {
    test(`a cache ${what} is not used`, async (t) => {
      const home = await tempDir(t)
      const above = join(home, 'apiserver-bootstrap')
      const directory = join(above, 'compile-cache')
      await mkdir(above, { mode: 0o700 })
      await cp(cache, directory, { recursive: true })
      await chmod(directory, 0o700)
      assert.match(
        await run(t, program, { XDG_CACHE_HOME: home }),
        planted,
        'a cache with the right owner and mode is used',
      )
      await make({ home, above, directory })
      assert.doesNotMatch(await run(t, program, { XDG_CACHE_HOME: home }), planted)
    })
  }

  test('the program runs without a home directory', async (t) => {
    assert.match(await run(t, program, { XDG_CACHE_HOME: '/proc/nowhere' }), /^apiserver-bootstrap /)
  })
})

interface Paths {
  readonly home: string
  readonly above: string
  readonly directory: string
}

/**
 * A copy of the program, and a cache for it in which somebody has replaced the code of one module. Node compares the
 * length and the checksum of the source only with the values in the cache itself.
 */
async function plant(t: Cleanup): Promise<{ readonly program: string; readonly cache: string }> {
  const root = await tempDir(t)
  const cache = join(root, 'cache')
  await cp(join(repository, 'src'), join(root, 'src'), { recursive: true })
  await cp(join(repository, 'package.json'), join(root, 'package.json'))
  await symlink(join(repository, 'node_modules'), join(root, 'node_modules'))
  const program = join(root, 'src', 'cli.ts')
  const module = join(root, 'src', 'runtime', 'system-package.ts')
  const source = readFileSync(module, 'utf8')
  const foreign = `${source}process.stderr.write('planted code runs')\n`
  const own = `${source}${'/'.repeat(foreign.length - source.length - 1)}\n`
  writeFileSync(module, foreign)
  await run(t, program, { NODE_COMPILE_CACHE: cache })
  writeFileSync(module, own)
  for (const name of filesIn(cache)) {
    const file = join(cache, name)
    const entry = readFileSync(file)
    // Magic number, length and size, checksum of the source, checksum of the cached code.
    if (entry.readUInt32LE(12) !== crc32(foreign)) continue
    entry.writeUInt32LE(crc32(own), 12)
    writeFileSync(file, entry)
  }
  return { program, cache }
}

async function run(
  t: Cleanup,
  program: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const env = { NODE_COMPILE_CACHE: undefined, NODE_DISABLE_COMPILE_CACHE: undefined, ...environment }
  const child = await spawnChild(t, process.execPath, [program, '--version'], { env })
  assert.deepEqual(await child.exited, { code: 0, signal: null }, child.stderr())
  return `${child.stdout()}${child.stderr()}`
}

/** The paths of the files, relative to the directory. */
function filesIn(directory: string): readonly string[] {
  return globSync('**/*', { cwd: directory, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length + 1))
}
