import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { output, root, runSteps } from './command.ts'
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

interface LockFile {
  readonly packages: Readonly<
    Record<string, { readonly resolved?: string; readonly optionalDependencies?: Readonly<Record<string, string>> }>
  >
}

/**
 * Registry addresses, which differ from one machine to the next, and packages for other platforms that are left out, as npm does
 * where its registry lacks them: `npm ci` then fails everywhere.
 */
function lockFileFaults({ packages }: LockFile): string[] {
  return Object.entries(packages).flatMap(([path, { resolved, optionalDependencies = {} }]) => [
    ...(resolved?.includes('://') ? [`${path} holds the address of a registry`] : []),
    ...Object.keys(optionalDependencies)
      .filter((name) => !(`node_modules/${name}` in packages) && !(`${path}/node_modules/${name}` in packages))
      .map((name) => `${path} needs ${name} on some platform, which is not locked`),
  ])
}
