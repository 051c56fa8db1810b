import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Leaves for unreadiness at once, while the others are perhaps about to do the same.',
  invariant: 'unready-leaves-only-for-ready',
  file: 'kubernetes-service/membership/step.ts',
  text: `    return isStated && isConfirmed(state, departure) ? unready : failing
`,
  instead: `    return othersReady(fleet.leases, self).length > 0 ? unready : failing
`,
}
