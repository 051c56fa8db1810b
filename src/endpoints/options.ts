import { duration } from '../documents/duration.ts'
import { type OptionGroup, wholeNumber } from '../documents/option.ts'

/** The flags of the controller of Endpoints, with the names and defaults of kube-controller-manager. */
export const endpointsOptions = {
  title: 'The controller endpoints',
  options: {
    concurrentEndpointSyncs: {
      schema: wholeNumber(1, 1000),
      metavar: 'N',
      description: 'how many Services are synced at the same time',
      default: 5,
    },
    endpointUpdatesBatchPeriod: {
      schema: duration({ minMs: 0 }),
      metavar: 'DURATION',
      description:
        'how long to wait after a Pod has changed before its Services are synced, so that changes are batched',
      default: '0s',
    },
  },
} as const satisfies OptionGroup
