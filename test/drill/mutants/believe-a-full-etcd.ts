import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Believes that masters have died whose leases ended while its own could not be renewed.',
  invariant: 'no-address-goes-without-cause',
  file: 'kubernetes-service/membership/fleet.ts',
  text: '    if (!isCertain) missing.push',
  instead: `    if (!isCertain && lease.trust.type === 'steady') missing.push`,
}
