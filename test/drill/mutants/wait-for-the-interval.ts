import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Does not look at the leases when the store says that they changed.',
  file: 'kubernetes-service/lease-membership.ts',
  text: '    return leases.watch(look, signal)',
  instead: '    return leases.watch(() => fleet.noticed(), signal)',
}
