import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Stays unready when its server is ready again.',
  invariant: 'live-master-listed',
  file: 'kubernetes-service/membership/step.ts',
  text: `if (self.state === 'unready' && !isHealthy) return unready`,
  instead: `if (self.state === 'unready') return unready`,
}
