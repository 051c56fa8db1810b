import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Leaves for unreadiness without looking whether another master serves.',
  file: 'kubernetes-service/lease-membership.ts',
  text: `    if (!(await othersServe())) return undefined
`,
  instead: '',
}
