import type { DrillMutant } from '../mutant.ts'

export const mutant: DrillMutant = {
  broken: 'Makes the EndpointSlice, and does not change it any more.',
  invariant: 'live-master-listed',
  file: 'kubernetes-service/endpoints-adapter.ts',
  text: '[planEndpointSlice(endpoints, slice), slice]',
  instead: "[slice === undefined ? planEndpointSlice(endpoints, slice) : { type: 'none' }, slice]",
}
