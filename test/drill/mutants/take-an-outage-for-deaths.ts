import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Counts the time in which it could not read leases as time in which nobody renewed them.',
  invariant: 'no-address-goes-without-cause',
  file: 'kube/lease-observer.ts',
  text: "return { ...observation, sinceMs: nowMs, stage: { type: 'renewed' }, found }",
  instead:
    "return nowMs < 0 ? observation : { ...observation, stage: { type: 'grace', sinceMs: observation.sinceMs }, found }",
}
