import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { root } from '../../scripts/command.ts'

/** One deliberate mistake in the product. */
export interface Mutant {
  /** What the program does wrong, in words. */
  readonly broken: string
  /** The source file, below src/. */
  readonly file: string
  /** The text to replace, which occurs exactly once. */
  readonly text: string
  /** The replacement. */
  readonly instead: string
}

/** A mistake that certain test files must notice. */
export interface TestedMutant extends Mutant {
  /** The test files, below test/: any one of them must fail. */
  readonly tests: readonly string[]
}

/** The source with the mistake in it. Throws if the text to replace does not occur exactly once. */
export async function mutated({ file, text, instead }: Mutant): Promise<string> {
  const source = await readFile(join(root, 'src', file), 'utf8')
  const parts = source.split(text)
  if (parts.length !== 2) throw new Error(`src/${file} has this text ${parts.length - 1} times, not once:\n${text}`)
  return parts.join(instead)
}
