import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Lists masters that are not ready while others are.',
  invariant: 'unready-master-leaves',
  file: 'kubernetes-service/members.ts',
  text: '? leases.filter(isListedBesideReady)',
  instead: '? leases.filter(isNotWithdrawn)',
}
