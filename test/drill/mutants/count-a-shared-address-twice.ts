import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Lists an address once for each of its masters.',
  file: 'kubernetes-service/members.ts',
  text: 'return [...new Set(listedLeases(leases).map((lease) => lease.address))].sort()',
  instead: 'return listedLeases(leases).map((lease) => lease.address).sort()',
}
