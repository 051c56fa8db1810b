import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Leaves for unreadiness without waiting until another master has confirmed that it serves.',
  invariant: 'unready-leaves-only-for-ready',
  file: 'kubernetes-service/membership/step.ts',
  text: `    return isStated && isConfirmed(state, departure) ? unready : failing
`,
  instead: `    return isStated ? unready : failing
`,
}
