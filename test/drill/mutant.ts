import { execFile } from 'node:child_process'
import { cp, glob, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../scripts/command.ts'
import { type Mutant, mutated } from '../mutants/mutant.ts'
import type { FirstViolation } from './first-violation.ts'

/** All of them by the names of their files, in order. */
export async function allMutants(): Promise<ReadonlyMap<string, Mutant>> {
  const files = await Array.fromAsync(glob('test/drill/mutants/*.ts', { cwd: root }))
  const mutants = new Map<string, Mutant>()
  for (const file of files.sort()) {
    const { mutant } = (await import(join(root, file))) as { readonly mutant: Mutant }
    mutants.set(basename(file, '.ts'), mutant)
  }
  return mutants
}

/** What makes no difference to a mistake, but would to the compiler. */
const mayLeaveUnused = ['--noUnusedLocals', 'false', '--noUnusedParameters', 'false', '--allowUnreachableCode', 'true']

/**
 * Runs random schedules on a copy of the sources that has the mistake, from seed 1, until the first one that does not hold. Throws when the
 * copy does not compile: what fails for that is no mistake that a schedule has noticed.
 */
export async function findMutant(mutant: Mutant, limit: number): Promise<FirstViolation> {
  const copy = await mkdtemp(join(tmpdir(), 'mutant-'))
  try {
    await cp(join(root, 'src'), join(copy, 'src'), { recursive: true })
    await writeFile(join(copy, 'src', mutant.file), await mutated(mutant))
    for (const name of ['package.json', 'tsconfig.json', 'tsconfig.build.json'])
      await cp(join(root, name), join(copy, name))
    await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
    await mkdir(join(copy, 'test/drill'), { recursive: true })
    await cp(join(root, 'test/drill/first-violation.ts'), join(copy, 'test/drill/first-violation.ts'))
    const run = promisify(execFile)
    const compiler = join(root, 'node_modules/.bin/tsc')
    await run(compiler, ['--noEmit', '-p', 'tsconfig.build.json', ...mayLeaveUnused], { cwd: copy }).catch((error) => {
      throw new Error(`the mutant does not compile:\n${error.stdout}`)
    })
    const { stdout } = await run(process.execPath, ['test/drill/first-violation.ts', `${limit}`], { cwd: copy })
    return JSON.parse(stdout)
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}
