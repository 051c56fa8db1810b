import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mutated } from '../mutants/mutant.ts'
import { inUnitOrFloor } from '../support/tier.ts'
import { allMutants, assertNoticed, errorsOf, findMutant } from './mutant.ts'

const mutants = await allMutants()

test('the text that each mutant replaces occurs once in its file, and the replacement differs', async () => {
  assert.ok(mutants.size >= 24)
  for (const [name, mutant] of mutants) {
    assert.notEqual(mutant.text, mutant.instead, name)
    await mutated(mutant)
  }
})

// The first schedules notice these mutants; test/long/drill-mutants.test.ts runs all of them.
const late = inUnitOrFloor([], ['leave-an-empty-list', 'ignore-a-conflict', 'decide-from-the-cache'])
for (const name of ['count-a-shared-address-twice', ...late]) {
  test(`random schedules notice the mutant ${name}`, async () => {
    const mutant = mutants.get(name)
    assert.ok(mutant !== undefined)
    assertNoticed(mutant, await findMutant(mutant, 10), 10)
  })
}

const text = 'export async function runSchedule('
const noOp = { broken: 'Nothing.', file: 'drill/campaign/run-schedule.ts', text, instead: `/* the same */ ${text}` }

test('random schedules do not notice a change without effect', async () => {
  const { seed } = await findMutant(noOp, inUnitOrFloor(1, 10))
  assert.equal(seed, undefined)
})

// The compiler takes as long as all tests above together.
for (const everyMutant of inUnitOrFloor([], [new Map([...mutants, ['no-op', noOp]])])) {
  test('each mutant compiles', async () => {
    assert.equal(await errorsOf(everyMutant), '')
  })
}
