import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TriggerTimes } from '../../src/workloads/pod-rules.ts'
import { trimPod, trimService } from '../../src/workloads/trimmed.ts'
import { triggerTimes } from './workloads-tables.ts'

for (const { name, steps } of triggerTimes.tables.triggerTimes) {
  test(`triggerTimes: ${name}`, () => {
    const times = new TriggerTimes()
    for (const step of steps) {
      if ('delete' in step) times.delete(step.delete)
      else assert.equal(times.compute(trimService(step.service), step.pods.map(trimPod)), step.expect)
    }
  })
}

test('no case of upstream is missing', () => assert.equal(triggerTimes.tables.triggerTimes.length, 8))
