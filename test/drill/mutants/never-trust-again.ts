import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Removes nobody any more after one of its renewals failed.',
  file: 'kubernetes-service/membership/step.ts',
  text: `if (trust.type !== 'recovering' || nowMs < trust.untilAtMs) return state`,
  instead: `if (trust.type !== 'recovering' || nowMs < Number.POSITIVE_INFINITY) return state`,
}
