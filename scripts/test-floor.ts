import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { verifyReproducible } from './build.ts'
import { collect, output, root, runSteps } from './command.ts'

// usage: node scripts/test-floor.ts: the simulations, the built command line and the package, on the oldest Node that is promised.

const floor = join(root, 'test/floor')
const floorNode = join(floor, 'node_modules/.bin/node')
const oldest = '22.19.0'

const ready = await runSteps({
  [`Node ${oldest}`]: async () => {
    const installed = await collect(floorNode, ['--version'])
    if (installed.output.trim() !== `v${oldest}`) await output('npm', ['ci', '--prefix', floor])
    await access(floorNode)
  },
  build: () => output(process.execPath, ['scripts/build.ts']),
  'a second build is the same': verifyReproducible,
})
if (!ready) process.exit(1)

const tests = spawn(floorNode, ['scripts/test.ts', 'floor', ...process.argv.slice(2)], { cwd: root, stdio: 'inherit' })
const [code] = (await once(tests, 'close')) as [number | null]
process.exitCode = code ?? 1
