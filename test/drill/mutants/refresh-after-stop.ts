import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Renews its lease once more after it has removed it to stop.',
  invariant: 'stopped-master-leaves',
  file: 'kubernetes-service/membership/step.ts',
  text: `      const isLeaving = step.type === 'writing'
`,
  instead: `      const isLeaving = step.type === 'writing'
      if (isLeaving && lease.renewedAtMs === undefined) {
        return isBusy ? state : request(state, 'renew', asBefore(self, phase), turn)
      }
`,
}
