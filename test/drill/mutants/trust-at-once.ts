import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Believes what it reads as soon as a renewal works again, before others had the time to renew.',
  file: 'kubernetes-service/membership/inputs.ts',
  text: `? { type: 'recovering', untilAtMs: nowMs + timings.recoveryMs }`,
  instead: `? { type: 'steady' }`,
}
