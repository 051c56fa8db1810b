import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, globSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { basename, delimiter, dirname, join } from 'node:path'
import { test } from 'node:test'
import { spawnChild } from '../support/spawn-child.ts'
import { tempDir } from '../support/temp-dir.ts'

const root = join(import.meta.dirname, '../..')
const text = (file: string): string => readFileSync(join(root, file), 'utf8')
const node = join(root, 'node_modules/node/bin')

/** The instructions of each stage, without comments. */
function stages(): readonly (readonly string[])[] {
  const lines = text('Dockerfile')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  return lines
    .join('\n')
    .split(/^FROM .*$/m)
    .slice(1)
    .map((stage) => stage.trim().split('\n'))
}

/** Copies the context of a build: what `.dockerignore` leaves of the repository. */
function copyContext(to: string): void {
  const [first, ...included] = text('.dockerignore').trim().split('\n')
  assert.equal(first, '*')
  for (const line of included) {
    const path = line.slice(1)
    assert.equal(line[0], '!')
    mkdirSync(dirname(join(to, path)), { recursive: true })
    cpSync(join(root, path), join(to, path), { recursive: true })
  }
}

/** Executes the instructions of the first stage in a folder, with the installed packages in place of `npm ci`. */
function build(folder: string): void {
  copyContext(folder)
  const env = { ...process.env, PATH: [node, process.env.PATH].join(delimiter), NODE_TEST_CONTEXT: undefined }
  for (const instruction of stages()[0] ?? []) {
    if (instruction === 'RUN npm ci') symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    else if (instruction.startsWith('RUN ')) {
      execFileSync('sh', ['-ec', instruction.slice('RUN '.length)], { cwd: folder, env, stdio: 'pipe' })
    } else assert.match(instruction, /^(?:WORKDIR \/src|COPY \. \.)$/)
  }
}

/** Executes the instructions of the second stage; returns its user. */
function assemble(folder: string, image: string): number {
  let user = 0
  for (const instruction of stages()[1] ?? []) {
    const [name, ...words] = instruction.split(' ')
    if (name === 'COPY') {
      const [from, ...paths] = words
      assert.equal(from, '--from=build')
      const to = join(image, paths.at(-1) ?? '')
      for (const path of paths.slice(0, -1)) {
        const target = to.endsWith('/') ? join(to, basename(path)) : to
        cpSync(join(folder, path.replace('/src/', '')), target, { recursive: true })
      }
    } else if (name === 'RUN') {
      const [command, flag, target, link] = JSON.parse(words.join(' ')) as string[]
      assert.deepEqual([command, flag], ['ln', '-s'])
      mkdirSync(dirname(join(image, link as string)), { recursive: true })
      symlinkSync(join(image, target as string), join(image, link as string))
    } else if (name === 'USER') user = Number(words[0]?.split(':')[0])
    else assert.match(instruction, /^(?:ENTRYPOINT|CMD) \[/)
  }
  return user
}

test('both stages of the Dockerfile use the Node version of devDependencies', () => {
  const { devDependencies } = JSON.parse(text('package.json'))
  assert.match(text('Dockerfile'), new RegExp(`^ARG NODE_IMAGE=node:${devDependencies.node}-slim$`, 'm'))
  assert.equal(text('Dockerfile').match(/^FROM \$\{NODE_IMAGE\}(?: AS build)?$/gm)?.length, 2)
})

test('the steps of the Dockerfile give a program that runs as a non-root user in a read-only tree', {
  timeout: 180_000,
}, async (t) => {
  let writable = (): void => undefined
  // Before the directory is removed.
  t.after(() => writable())
  const directory = await tempDir(t)
  chmodSync(directory, 0o755)
  const [folder, image] = [join(directory, 'src'), join(directory, 'image')]
  mkdirSync(folder)
  build(folder)
  const user = assemble(folder, image)
  assert.ok(user >= 10_000, 'no user of the system')
  const tree = (): readonly string[] => globSync('**', { cwd: image }).sort()
  const before = tree()
  execFileSync('chmod', ['-R', 'a-w', image])
  writable = () => void execFileSync('chmod', ['-R', 'u+w', image])
  assert.ok(!before.some((path) => path.includes('node_modules') || path.endsWith('.ts')))
  assert.equal(
    JSON.parse(readFileSync(join(image, 'opt/apiserver-bootstrap/dist/sbom.cdx.json'), 'utf8')).bomFormat,
    'CycloneDX',
  )

  // Only root can become another user; the tree is read-only in either case.
  const other = process.getuid?.() === 0 ? ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'] : []
  const run = (...args: readonly string[]) => {
    const path = [join(image, 'usr/local/bin'), node, '/usr/bin', '/bin'].join(delimiter)
    const [command = '', ...rest] = [...other, 'env', '-i', `PATH=${path}`, 'apiserver-bootstrap', ...args]
    return spawnChild(t, command, rest, { cwd: '/' })
  }
  const version = await run('--version')
  assert.deepEqual(await version.exited, { code: 0, signal: null }, version.stderr())
  const drills = await run('drill', 'list')
  assert.deepEqual(await drills.exited, { code: 0, signal: null }, drills.stderr())
  assert.match(drills.stdout(), /rolling-restart/)

  const master = await run('run', '--embedded', '--health-bind-address=127.0.0.1:0')
  const [, health] = await master.output(/"health":"([\d.:]+)"/, 30_000)
  assert.equal((await fetch(`http://${health}/livez`, { headers: { connection: 'close' } })).status, 200)
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
  assert.deepEqual(tree(), before, 'nothing is written')
})
