import { duration } from '../documents/duration.ts'
import { type OptionGroup, wholeNumber } from '../documents/option.ts'

/** The flags of the EndpointSlice controllers, with the names and defaults of kube-controller-manager. */
export const endpointSliceOptions = {
  title: 'The controllers endpointslice and endpointslice-mirroring',
  options: {
    concurrentServiceEndpointSyncs: {
      schema: wholeNumber(1, 1000),
      metavar: 'N',
      description: 'how many Services are synced at the same time',
      default: 5,
    },
    maxEndpointsPerSlice: {
      schema: wholeNumber(1, 1000),
      metavar: 'N',
      description: 'maximum number of endpoints in one EndpointSlice',
      default: 100,
    },
    endpointsliceUpdatesBatchPeriod: {
      schema: duration({ minMs: 0 }),
      metavar: 'DURATION',
      description:
        'how long to wait after a Pod has changed before its Services are synced, so that changes are batched',
      default: '0s',
    },
    mirroringConcurrentServiceEndpointSyncs: {
      schema: wholeNumber(1, 1000),
      metavar: 'N',
      description: 'mirroring: how many Services are synced at the same time',
      default: 5,
    },
    mirroringMaxEndpointsPerSubset: {
      schema: wholeNumber(1, 1000),
      metavar: 'N',
      description:
        'mirroring: maximum number of addresses of an Endpoints subset that are mirrored, and of endpoints in an EndpointSlice',
      default: 1000,
    },
    mirroringEndpointsliceUpdatesBatchPeriod: {
      schema: duration({ minMs: 0 }),
      metavar: 'DURATION',
      description:
        'mirroring: how long to wait after another client has changed an EndpointSlice before its Service is synced; changes of Endpoints are mirrored at once',
      default: '0s',
    },
  },
} as const satisfies OptionGroup
