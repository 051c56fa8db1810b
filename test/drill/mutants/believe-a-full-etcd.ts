import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Believes that masters have died whose leases ended while its own could not be renewed.',
  file: 'kubernetes-service/membership/fleet.ts',
  text: '    if (!isCertain) missing.push',
  instead: `    if (!isCertain && lease.trust.type === 'steady') missing.push`,
}
