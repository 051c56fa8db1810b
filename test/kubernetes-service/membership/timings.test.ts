import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type MembershipTimings,
  membershipTimings,
  PATIENT_ATTEMPTS,
} from '../../../src/kubernetes-service/membership/timings.ts'
import { ttlFault } from '../../../src/kubernetes-service/options.ts'

/** The violated relations between the times, one line each. */
function timingProblems(timings: MembershipTimings): readonly string[] {
  const { ttlMs, intervalMs, attemptMs, retryMs, callMs, awaitConfirmationMs, leavingMs, removalMarginMs } = timings
  const twoFailuresMs = intervalMs + PATIENT_ATTEMPTS * (attemptMs + retryMs)
  const relations: Readonly<Record<string, boolean>> = {
    'each attempt to renew has at least 100 ms': attemptMs >= 100,
    'two failed attempts leave time for a third': twoFailuresMs + attemptMs <= ttlMs,
    'a call may make several requests': callMs > attemptMs,
    'a leaving master has time to wait for a confirmation': awaitConfirmationMs > 0 && awaitConfirmationMs < leavingMs,
    'a dead master is removed within a second after its lease': removalMarginMs <= 500,
  }
  return Object.keys(relations).filter((relation) => relations[relation] === false)
}

test('for each TTL and interval that the flags accept the times satisfy all relations that the protocol needs', () => {
  let combinations = 0
  for (let ttl = 2; ttl <= 120; ttl++) {
    for (let interval = 1; interval <= 120; interval++) {
      if (ttlFault(ttl * 1_000, interval * 1_000, '--reconcile-interval') !== undefined) continue
      for (const readinessProbePeriodMs of [100, 1_000, 2_000, 10_000]) {
        const settings = { leaseTtlMs: ttl * 1_000, reconcileIntervalMs: interval * 1_000, readinessProbePeriodMs }
        assert.deepEqual(timingProblems(membershipTimings(settings)), [], JSON.stringify(settings))
        combinations += 1
      }
    }
  }
  assert.ok(combinations > 10_000)
})

test('an interval that the flags refuse would leave a lease no time for attempts', () => {
  const settings = { leaseTtlMs: 10_000, reconcileIntervalMs: 9_900, readinessProbePeriodMs: 1_000 }
  assert.deepEqual(timingProblems(membershipTimings(settings)), ['each attempt to renew has at least 100 ms'])
})
