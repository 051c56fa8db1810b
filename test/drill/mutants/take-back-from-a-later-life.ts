import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Takes the lease back from the life that came after it.',
  invariant: 'not-removed-by-others',
  file: 'kubernetes-service/leases/master-leases.ts',
  text: 'return stored.startedAt > holder.startedAt',
  instead: 'return false',
}
