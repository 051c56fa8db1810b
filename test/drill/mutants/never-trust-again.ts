import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Removes nobody any more after one of its renewals failed.',
  invariant: 'dead-master-removed',
  file: 'kubernetes-service/membership/step.ts',
  text: `if (trust.type !== 'recovering' || nowMs < trust.untilAtMs) return state`,
  instead: `if (trust.type !== 'recovering' || nowMs < Number.POSITIVE_INFINITY) return state`,
}
