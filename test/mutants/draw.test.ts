import assert from 'node:assert/strict'
import { test } from 'node:test'
import { drawMutants } from './draw.ts'
import { mutated } from './mutant.ts'
import { NearestTests } from './nearest-tests.ts'

test('the same seed draws the same mutants, under unused names, and each can be applied to its file', async () => {
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

test('the nearest test of a source file has its name, or else is the closest one', async () => {
  const nearest = await NearestTests.read()
  assert.deepEqual(nearest.of('net/host-port.ts', 1), ['net/host-port.test.ts'])
  assert.equal(nearest.of('kube/discovery.ts', 1)[0], 'kube/served-resources.test.ts')
})
