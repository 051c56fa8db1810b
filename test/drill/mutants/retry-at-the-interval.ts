import type { Mutant } from '../mutant.ts'

export const mutant: Mutant = {
  broken: 'Tries a renewal that failed again only after seconds.',
  file: 'kubernetes-service/membership/inputs.ts',
  text: 'const pauseMs = isStarting || failures <= PATIENT_ATTEMPTS ? quickMs : slowRetryMs',
  instead: 'const pauseMs = 3 * slowRetryMs',
}
