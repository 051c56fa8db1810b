import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestedMutant } from './mutant.ts'

/** All mutants of `list/` by their names, in the order of its files. Throws if two have the same name. */
export async function testedMutants(): Promise<ReadonlyMap<string, TestedMutant>> {
  const directory = join(import.meta.dirname, 'list')
  const all = new Map<string, TestedMutant>()
  for (const file of (await readdir(directory)).sort()) {
    const { mutants } = (await import(join(directory, file))) as {
      readonly mutants?: Readonly<Record<string, TestedMutant>>
    }
    if (mutants === undefined) {
      // A shell empties the file before it runs the command that writes into it.
      if ((await stat(join(directory, file))).size === 0) continue
      throw new Error(`test/mutants/list/${file} does not export mutants`)
    }
    for (const [name, mutant] of Object.entries(mutants)) {
      if (all.has(name)) throw new Error(`two mutants are named ${name}`)
      all.set(name, mutant)
    }
  }
  return all
}
