import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes a lease for over only when it has been for ten times its TTL.',
  invariant: 'dead-master-removed',
  file: 'kube/lease-observer.ts',
  text: 'return Math.max(sinceMs + ttlMs, stage.sinceMs + graceMs)',
  instead: 'return sinceMs + 10 * ttlMs',
}
