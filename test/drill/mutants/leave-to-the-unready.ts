import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Leaves for unreadiness without waiting until another master has confirmed that it serves.',
  file: 'kubernetes-service/membership/listed.ts',
  text: `    return isSaid && isConfirmed(state, departure) ? unready : failing
`,
  instead: `    return isSaid ? unready : failing
`,
}
