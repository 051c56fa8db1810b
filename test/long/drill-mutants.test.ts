import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allMutants, findMutant } from '../drill/mutant.ts'

const SCHEDULES = 500

for (const [name, mutant] of await allMutants()) {
  test(`${name} is noticed within ${SCHEDULES} random schedules`, async (t) => {
    const { seed, invariant, detail } = await findMutant(mutant, SCHEDULES)
    assert.equal(invariant, mutant.invariant, mutant.broken)
    t.diagnostic(`by seed ${seed}: ${invariant}: ${detail}`)
  })
}
