import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Makes the EndpointSlice, and does not change it any more.',
  file: 'kubernetes-service/endpoints-adapter.ts',
  text: '      endpoints && execute(planEndpointSlice(endpoints, stored.slice), stored.slice),',
  instead:
    '      endpoints && (stored.slice === undefined ? execute(planEndpointSlice(endpoints, undefined), undefined) : undefined),',
}
