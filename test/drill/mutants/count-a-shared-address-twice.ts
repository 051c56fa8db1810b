import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Lists an address once for each of its masters.',
  invariant: 'drill-ends',
  file: 'kubernetes-service/members.ts',
  text: 'return [...new Set(listedLeases(leases).map((lease) => lease.address))].sort()',
  instead: 'return listedLeases(leases).map((lease) => lease.address).sort()',
}
