import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Stays unready when its server is ready again.',
  file: 'kubernetes-service/membership/step.ts',
  text: `if (self.state === 'unready' && !isHealthy) return unready`,
  instead: `if (self.state === 'unready') return unready`,
}
