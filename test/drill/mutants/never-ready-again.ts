import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Stays unready when its server is ready again.',
  file: 'kubernetes-service/membership/listed.ts',
  text: `if (self.state === 'unready' && !isWell) return unready`,
  instead: `if (self.state === 'unready') return unready`,
}
