import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { glob, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../../scripts/command.ts'
import { type Mutant, mutated } from '../mutants/mutant.ts'
import { SourceCopy } from '../mutants/source-copy.ts'
import type { FirstViolation } from './first-violation.ts'

/** A mistake that random schedules must notice. */
export interface DrillMutant extends Mutant {
  /** The invariant that the first failing schedule violates. */
  readonly invariant: string
}

/** All mutants in the order of their files' names, which are the keys. */
export async function allMutants(): Promise<ReadonlyMap<string, DrillMutant>> {
  const files = await Array.fromAsync(glob('test/drill/mutants/*.ts', { cwd: root }))
  const mutants = new Map<string, DrillMutant>()
  for (const file of files.sort()) {
    const { mutant } = (await import(join(root, file))) as { readonly mutant: DrillMutant }
    mutants.set(basename(file, '.ts'), mutant)
  }
  return mutants
}

/** A mutant may leave code unused, which the compiler would refuse. */
const mayLeaveUnused = ['--noUnusedLocals', 'false', '--noUnusedParameters', 'false', '--allowUnreachableCode', 'true']

/** The compiler's errors for the mutants, each in a file beside the original; empty when all compile. */
export async function errorsOf(mutants: ReadonlyMap<string, Mutant>): Promise<string> {
  return inCopy(async (copy) => {
    for (const [name, mutant] of mutants) {
      await writeFile(join(copy, 'src', mutant.file.replace(/\.ts$/, `.${name}.ts`)), await mutated(mutant))
    }
    return compile(copy)
  })
}

/**
 * Runs random schedules from seed 1 on a copy of the sources with the mutant, until one violates an invariant. Does not
 * check types: {@link errorsOf} checks all mutants at once. Rejects when the copy does not run.
 */
export async function findMutant(mutant: Mutant, limit: number): Promise<FirstViolation> {
  return inCopy(async (copy) => {
    await writeFile(join(copy, 'src', mutant.file), await mutated(mutant))
    const { stdout } = await run(process.execPath, ['test/drill/first-violation.ts', `${limit}`], { cwd: copy })
    return JSON.parse(stdout)
  })
}

/** Fails unless the first violation is of the invariant that the mutant names. */
export function assertNoticed({ broken, invariant }: DrillMutant, found: FirstViolation, limit: number): void {
  assert.notEqual(found.seed, undefined, `not noticed within ${limit} schedules: ${broken}`)
  const violated = `seed ${found.seed} violates ${found.invariant}: ${found.detail}`
  assert.equal(found.invariant, invariant, `${violated}; it should be ${invariant}, because this was broken: ${broken}`)
}

const run = promisify(execFile)

/** Runs `work` in a copy of the repository. */
async function inCopy<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const copy = await SourceCopy.make()
  try {
    return await work(copy.directory)
  } finally {
    await copy.remove()
  }
}

/** The compiler's errors for a copy. */
async function compile(copy: string): Promise<string> {
  const compiler = join(root, 'node_modules/.bin/tsc')
  const compiled = run(compiler, ['--noEmit', '-p', 'tsconfig.build.json', ...mayLeaveUnused], { cwd: copy })
  return compiled.then(
    () => '',
    ({ stdout }: { readonly stdout: string }) => stdout,
  )
}
