import { randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { oneOf } from '../endpoints-model/churn-objects.ts'

/** What a seed decided about a cluster and the processes that keep its Endpoints and EndpointSlices. */
export interface WorkloadComposition {
  /** Of which one leads. */
  readonly processes: number
  readonly services: number
  readonly pods: number
  readonly nodes: number
  readonly isDualStack: boolean
  readonly maxEndpointsPerSlice: number
  readonly workers: number
  readonly batchPeriodMs: number
  readonly activeMs: number
  /** How many faults there may be at a time. */
  readonly troubles: number
  readonly hasVandal: boolean
  readonly changesNodes: boolean
  readonly spikes: boolean
}

/** Few Services and Pods, and small slices, so that everything happens to each of them. */
export function workloadCompositionOf(seed: number): WorkloadComposition {
  const random = seededRandom(seed, 'composition')
  const chance = (probability: number): boolean => random.next() < probability
  return {
    processes: 1 + randomInteger(random, 2),
    services: 2 + randomInteger(random, 5),
    pods: 4 + randomInteger(random, 16),
    nodes: 2 + randomInteger(random, 4),
    isDualStack: chance(0.3),
    maxEndpointsPerSlice: oneOf(random, [1, 2, 3, 5, 100]),
    workers: 1 + randomInteger(random, 4),
    batchPeriodMs: oneOf(random, [0, 0, 0, 500, 3_000]),
    activeMs: oneOf(random, [20_000, 40_000, 90_000]),
    troubles: oneOf(random, [0, 1, 1, 2, 2, 3]),
    hasVandal: chance(0.4),
    changesNodes: chance(0.25),
    spikes: chance(0.4),
  }
}

/** In one line. */
export function describeWorkloadComposition(composition: WorkloadComposition): string {
  const { processes, services, pods, nodes, maxEndpointsPerSlice, workers, batchPeriodMs, troubles } = composition
  const size = `${services} Services, ${pods} Pods, ${nodes} Nodes${composition.isDualStack ? ', dual-stack' : ''}`
  const options = `${maxEndpointsPerSlice} a slice, ${workers} workers, batches of ${batchPeriodMs} ms`
  const extras = [
    composition.hasVandal && 'a vandal',
    composition.changesNodes && 'changing Nodes',
    composition.spikes && 'spikes',
  ].filter((one) => one !== false)
  return [`processes: ${processes}; ${size}; ${options}; ${troubles} faults at a time`, ...extras].join('; ')
}
