import assert from 'node:assert/strict'
import { test } from 'node:test'
import { drawMutants } from './draw.ts'
import { mutated } from './mutant.ts'
import { NearestTests } from './nearest-tests.ts'

test('a seed draws the same mistakes again, under names that are not taken, and each fits its file', async () => {
  const draw = (taken: readonly string[]) =>
    drawMutants({ count: 5, seed: 'a seed', below: 'net/', taken: new Set(taken) })
  const drawn = await draw([])
  const names = Object.keys(drawn)
  assert.equal(names.length, 5)
  for (const mutant of Object.values(drawn)) await mutated(mutant)
  const again = await draw(names)
  assert.deepEqual(Object.values(again), Object.values(drawn))
  assert.ok(Object.keys(again).every((name) => !names.includes(name)))
})

test('the test file that bears the name of a source is the nearest', async () => {
  const nearest = await NearestTests.read()
  assert.deepEqual(nearest.of('net/host-port.ts', 1), ['net/host-port.test.ts'])
  assert.equal(nearest.of('kube/discovery.ts', 1)[0], 'kube/served-resources.test.ts')
})
