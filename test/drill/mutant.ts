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
  /** The invariant that the first schedule which notices it violates. */
  readonly invariant: string
}

/** All of them by the names of their files, in order. */
export async function allMutants(): Promise<ReadonlyMap<string, DrillMutant>> {
  const files = await Array.fromAsync(glob('test/drill/mutants/*.ts', { cwd: root }))
  const mutants = new Map<string, DrillMutant>()
  for (const file of files.sort()) {
    const { mutant } = (await import(join(root, file))) as { readonly mutant: DrillMutant }
    mutants.set(basename(file, '.ts'), mutant)
  }
  return mutants
}

/** What makes no difference to a mistake, but would to the compiler. */
const mayLeaveUnused = ['--noUnusedLocals', 'false', '--noUnusedParameters', 'false', '--allowUnreachableCode', 'true']

/** What the compiler says against the mistakes, each in a file beside the one that has it; empty when all compile. */
export async function errorsOf(mutants: ReadonlyMap<string, Mutant>): Promise<string> {
  return inCopy(async (copy) => {
    for (const [name, mutant] of mutants) {
      await writeFile(join(copy, 'src', mutant.file.replace(/\.ts$/, `.${name}.ts`)), await mutated(mutant))
    }
    return compile(copy)
  })
}

/**
 * Runs random schedules on a copy of the sources that has the mistake, from seed 1, until the first one that does not hold. Types are not
 * checked here: {@link errorsOf} checks all mistakes at once. Rejects when the copy does not run.
 */
export async function findMutant(mutant: Mutant, limit: number): Promise<FirstViolation> {
  return inCopy(async (copy) => {
    await writeFile(join(copy, 'src', mutant.file), await mutated(mutant))
    const { stdout } = await run(process.execPath, ['test/drill/first-violation.ts', `${limit}`], { cwd: copy })
    return JSON.parse(stdout)
  })
}

/** Fails unless the schedules have violated what the mutant names, and nothing else first. */
export function assertNoticed({ broken, invariant }: DrillMutant, found: FirstViolation, limit: number): void {
  assert.notEqual(found.seed, undefined, `not noticed within ${limit} schedules: ${broken}`)
  const violated = `seed ${found.seed} violates ${found.invariant}: ${found.detail}`
  assert.equal(found.invariant, invariant, `${violated}; it should be ${invariant}, because this was broken: ${broken}`)
}

const run = promisify(execFile)

/** Carries out `work` in a copy of the repository. */
async function inCopy<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const copy = await SourceCopy.make()
  try {
    return await work(copy.directory)
  } finally {
    await copy.remove()
  }
}

/** What the compiler says against a copy. */
async function compile(copy: string): Promise<string> {
  const compiler = join(root, 'node_modules/.bin/tsc')
  const compiled = run(compiler, ['--noEmit', '-p', 'tsconfig.build.json', ...mayLeaveUnused], { cwd: copy })
  return compiled.then(
    () => '',
    ({ stdout }: { readonly stdout: string }) => stdout,
  )
}
