import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Tries a renewal that failed again only when the next one is due.',
  file: 'kubernetes-service/membership/inputs.ts',
  text: 'const pauseMs = isStarting || failures <= PATIENT_ATTEMPTS ? quickMs : slowRetryMs',
  instead: 'const pauseMs = 10 * slowRetryMs',
}
