import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Leaves for unreadiness without waiting until another master has confirmed that it serves.',
  file: 'kubernetes-service/membership/step.ts',
  text: `    return isStated && isConfirmed(state, departure) ? unready : failing
`,
  instead: `    return isStated ? unready : failing
`,
}
