import { allMutants, assertNoticed, findMutant } from './mutant.ts'

// usage: node test/drill/find-mutant.ts NAME [SCHEDULES=20]: runs random schedules on a copy of the sources with this
// mutant of test/drill/mutants/ until one violates an invariant, and prints which. Exits with 1 if no schedule notices
// the mutant, or if another invariant notices it.

const [name = '', schedules = '20'] = process.argv.slice(2)
const mutants = await allMutants()
const mutant = mutants.get(name)
if (mutant === undefined) {
  console.error(`✖ no mutant is named '${name}'; there are ${[...mutants.keys()].join(', ')}`)
  process.exit(2)
}
const found = await findMutant(mutant, Number(schedules))
try {
  assertNoticed(mutant, found, Number(schedules))
  console.log(`✔ ${name}: seed ${found.seed} violates ${found.invariant}: ${found.detail}`)
} catch (error) {
  console.error(`✖ ${name}: ${(error as Error).message}`)
  process.exitCode = 1
}
