import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Tries a renewal that failed again only when the next one is due.',
  invariant: 'no-address-goes-without-cause',
  file: 'kubernetes-service/membership/inputs.ts',
  text: 'const pauseMs = isStarting || failures <= PATIENT_ATTEMPTS ? quickMs : slowRetryMs',
  instead: 'const pauseMs = 10 * slowRetryMs',
}
