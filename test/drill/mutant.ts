import { execFile } from 'node:child_process'
import { cp, glob, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import type { FirstViolation } from './first-violation.ts'

/** One deliberate mistake in the product, which drills must notice. */
export interface Mutant {
  /** What it does wrong, in words. */
  readonly broken: string
  /** Below src/. */
  readonly file: string
  /** What stands there, exactly once. */
  readonly text: string
  /** What stands there instead. */
  readonly instead: string
}

const root = join(import.meta.dirname, '../..')

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

/** The source with the mistake in it. Throws when what is replaced is not there exactly once. */
export async function mutated({ file, text, instead }: Mutant): Promise<string> {
  const source = await readFile(join(root, 'src', file), 'utf8')
  const parts = source.split(text)
  if (parts.length !== 2) throw new Error(`src/${file} holds ${parts.length - 1} times, not once:\n${text}`)
  return parts.join(instead)
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
