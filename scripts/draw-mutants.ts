import { drawMutants } from '../test/mutants/draw.ts'
import { testedMutants } from '../test/mutants/list.ts'
import { parseArguments, wholeNumber } from './command.ts'

// usage: node scripts/draw-mutants.ts [--count 20] [--seed TEXT] [--below FOLDER]
// Draws mutants by seed, and prints them, each with the nearest test files, as a file for test/mutants/list/. Biome
// must format that file.

const { values: options } = parseArguments({
  options: {
    count: { type: 'string', default: '20' },
    seed: { type: 'string', default: '1' },
    below: { type: 'string', default: '' },
  },
})
const count = wholeNumber('count', options.count)
const taken = new Set((await testedMutants()).keys())
const drawn = await drawMutants({ ...options, count, taken })
if (Object.keys(drawn).length === 0) {
  console.error(`✖ no mistakes for files below src/${options.below}`)
  process.exit(1)
}
console.log(`// biome-ignore-all lint/suspicious/noTemplateCurlyInString: sources have templates
import type { TestedMutant } from '../mutant.ts'

export const mutants: Readonly<Record<string, TestedMutant>> = ${JSON.stringify(drawn, undefined, 2)}`)
