import { output, runSteps } from './command.ts'
import { outdatedFiles } from './generate.ts'

// usage: node scripts/check.ts: everything that can be said about the sources without running them.

const nodeMajor = '24'

const ok = await runSteps(
  {
    [`Node ${nodeMajor}`]: async () => {
      const [major] = process.versions.node.split('.')
      if (major === nodeMajor) return
      throw new Error(`this is Node ${process.versions.node} (${process.execPath}): run it through npm, after npm ci`)
    },
    Biome: () => output('biome', ['check', '--error-on-warnings', '--colors=off']),
    TypeScript: () => output('tsc', ['--pretty', 'false']),
    architecture: () => output(process.execPath, ['scripts/test.ts', 'unit', 'test/architecture.test.ts']),
    'generated files': async () => {
      const files = await outdatedFiles()
      if (files.length > 0) throw new Error(`not up to date: run npm run generate and commit\n${files.join('\n')}`)
    },
  },
  { keepGoing: true },
)
if (!ok) process.exitCode = 1
