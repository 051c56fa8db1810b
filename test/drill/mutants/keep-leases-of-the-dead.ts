import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes a lease for over only when it has been for ten times its TTL.',
  file: 'kube/lease-observer.ts',
  text: 'return Math.max(sinceMs + ttlMs, stage.sinceMs + graceMs)',
  instead: 'return sinceMs + 10 * ttlMs',
}
