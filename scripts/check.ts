import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { output, root, runSteps } from './command.ts'
import { outdatedFiles } from './generate.ts'
import { lockFileFaults } from './lock-file.ts'
import { checkNode } from './node-binary.ts'

// usage: node scripts/check.ts: runs all checks that do not run the program itself.

/** The tests that only read the sources and the documents. */
const readersOfSources = ['architecture', 'words', 'documents', 'errors']

const ok = await runSteps(
  {
    Node: () => checkNode(),
    Biome: () => output('biome', ['check', '--error-on-warnings', '--colors=off']),
    TypeScript: () => output('tsc', ['--pretty', 'false']),
    'architecture, words, documents': () =>
      output(process.execPath, ['scripts/test.ts', 'unit', ...readersOfSources.map((name) => `test/${name}.test.ts`)]),
    'lock file': async () => {
      const faults = lockFileFaults(JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')))
      if (faults.length > 0) throw new Error(faults.join('\n'))
    },
    'generated files': async () => {
      const files = await outdatedFiles()
      if (files.length > 0) throw new Error(`not up to date: run npm run generate and commit\n${files.join('\n')}`)
    },
  },
  { keepGoing: true },
)
if (!ok) process.exitCode = 1
