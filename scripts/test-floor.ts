import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { verifyReproducible } from './build.ts'
import { collect, output, root, runSteps } from './command.ts'

// usage: node scripts/test-floor.ts
// Tests the simulations and the built command line on the oldest supported Node, and the package on other versions too.

const floor = join(root, 'test/floor')
const floorNode = join(floor, 'node_modules/.bin/node')

const ready = await runSteps({
  'the oldest Node and compiler': () => install(floor),
  'the newest Node': () => install(join(floor, 'newest')),
  build: () => output(process.execPath, ['scripts/build.ts']),
  'a second build is the same': verifyReproducible,
})
if (!ready) process.exit(1)

const tests = spawn(floorNode, ['scripts/test.ts', 'floor', ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' })
const [code] = (await once(tests, 'close')) as [number | null]
process.exitCode = code ?? 1

/** Installs what a folder's package.json pins, unless it is installed already. */
async function install(folder: string): Promise<void> {
  const { dependencies } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  const installed = await collect(join(folder, 'node_modules/.bin/node'), ['--version'])
  const isThere =
    installed.output.trim() === `v${dependencies.node}` &&
    Object.keys(dependencies).every((name) => existsSync(join(folder, 'node_modules', name)))
  if (!isThere) await output('npm', ['ci', '--prefix', folder])
  await access(join(folder, 'node_modules/.bin/node'))
}
