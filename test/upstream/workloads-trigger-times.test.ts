import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keptOfPod, keptOfService } from '../../src/workloads/kept.ts'
import { TriggerTimes } from '../../src/workloads/trigger-times.ts'
import { triggerTimes } from './workloads-tables.ts'

for (const { name, steps } of triggerTimes.tables.triggerTimes) {
  test(`triggerTimes: ${name}`, () => {
    const times = new TriggerTimes()
    for (const step of steps) {
      if ('delete' in step) times.delete(step.delete)
      else assert.equal(times.compute(keptOfService(step.service), step.pods.map(keptOfPod)), step.expect)
    }
  })
}

test('no case of upstream is missing', () => assert.equal(triggerTimes.tables.triggerTimes.length, 8))
