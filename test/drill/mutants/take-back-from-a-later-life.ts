import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Takes the lease back from the life that came after it.',
  file: 'kubernetes-service/leases/master-leases.ts',
  text: 'return stored.startedAt > holder.startedAt',
  instead: 'return false',
}
