import assert from 'node:assert/strict'
import { test } from 'node:test'
import { membershipTimings, timingProblems } from '../../../src/kubernetes-service/membership/timings.ts'

test('with every TTL and interval that may be given together, two failed renewals leave time for a third', () => {
  for (let ttl = 2; ttl <= 120; ttl++) {
    for (let interval = 1; 1.5 * interval <= ttl && interval < ttl; interval++) {
      const settings = { leaseTtlMs: ttl * 1_000, reconcileIntervalMs: interval * 1_000, readinessProbePeriodMs: 1_000 }
      assert.deepEqual(timingProblems(membershipTimings(settings)), [], `${ttl} ${interval}`)
    }
  }
})

test('an interval that leaves no time for attempts is a problem, said in words', () => {
  const settings = { leaseTtlMs: 10_000, reconcileIntervalMs: 9_900, readinessProbePeriodMs: 1_000 }
  assert.match(timingProblems(membershipTimings(settings)).join(), /less than 100 ms for each of three attempts/)
})
