import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Lists nobody while no master is ready.',
  file: 'kubernetes-service/members.ts',
  text: '    : leases.filter(isNotWithdrawn)',
  instead: '    : []',
}
