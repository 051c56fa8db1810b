import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Lists masters that are not ready while others are.',
  file: 'kubernetes-service/members.ts',
  text: '? leases.filter(isListedBesideReady)',
  instead: '? leases.filter(isNotWithdrawn)',
}
