import { test } from 'node:test'
import { allMutants, assertNoticed, findMutant } from '../drill/mutant.ts'

const SCHEDULES = 500

for (const [name, mutant] of await allMutants()) {
  test(`at most ${SCHEDULES} random schedules detect the mutant ${name}`, async (t) => {
    const found = await findMutant(mutant, SCHEDULES)
    assertNoticed(mutant, found, SCHEDULES)
    t.diagnostic(`by seed ${found.seed}: ${found.invariant}: ${found.detail}`)
  })
}
