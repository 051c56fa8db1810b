import type { Holder } from '../../src/kubernetes-service/leases/master-leases.ts'
import { isServing, nextReadiness } from '../../src/kubernetes-service/membership/readiness.ts'
import { startMembership, step, wakeAtMs } from '../../src/kubernetes-service/membership/step.ts'
import type { MembershipTimings } from '../../src/kubernetes-service/membership/timings.ts'

/** What the explorer drives: the shipped membership, or a copy of it with a mistake. */
export interface Machine {
  readonly startMembership: typeof startMembership
  readonly step: typeof step
  readonly wakeAtMs: typeof wakeAtMs
  readonly nextReadiness: typeof nextReadiness
  readonly isServing: typeof isServing
}

export const shipped: Machine = { startMembership, step, wakeAtMs, nextReadiness, isServing }

/** One tick of the model, in milliseconds. The constants of readiness.ts are whole ticks. */
export const TICK_MS = 1_000

/** Small timings with the relations of the shipped ones: two renewals in a row may fail, and the third is in time. */
export const modelTimings: MembershipTimings = {
  ttlMs: 6 * TICK_MS,
  intervalMs: 3 * TICK_MS,
  probePeriodMs: TICK_MS,
  probeTimeoutMs: TICK_MS,
  attemptMs: TICK_MS,
  callMs: TICK_MS,
  retryMs: 0,
  slowRetryMs: TICK_MS,
  answerFreshMs: 2 * TICK_MS,
  // The model leaves out what these three decide: a master that serves confirms at once.
  unseenMs: 1_000 * TICK_MS,
  leastReadyMs: 0,
  confirmShare: 0,
  awaitConfirmationMs: 2 * TICK_MS,
  removalMarginMs: TICK_MS,
  recoveryMs: 6 * TICK_MS,
  leavingMs: 6 * TICK_MS,
  unreachedMs: 5 * TICK_MS,
  contentionMs: 2 * TICK_MS,
}

/** How many lives of a master have different ids. After that the ids are reused. */
export const LIVES = 4

/** The holder record of a life. `address`: the index of its address. */
export function holderOf(master: number, life: number, address: number): Holder {
  const host = 'abc'[master] as string
  return {
    instanceId: `${host}${life}`,
    host,
    startedAt: `2026-01-01T00:00:0${life}.000000Z`,
    addresses: [addressText(address)],
    ports: { securePort: 6443, nodePort: 0 },
    state: 'ready',
  }
}

export function addressText(index: number): string {
  return `192.0.2.${index + 1}`
}
