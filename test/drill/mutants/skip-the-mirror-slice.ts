import type { Mutant } from '../../mutants/mutant.ts'

export const mutant: Mutant = {
  broken: 'Makes the EndpointSlice, and does not change it any more.',
  file: 'kubernetes-service/endpoints-adapter.ts',
  text: '[planEndpointSlice(endpoints, slice), slice]',
  instead: "[slice === undefined ? planEndpointSlice(endpoints, slice) : { type: 'none' }, slice]",
}
