import { randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { oneOf } from '../endpoints-model/churn-objects.ts'

/**
 * The properties of a cluster, and of the processes that manage its Endpoints and EndpointSlices, drawn from a seed.
 */
export interface WorkloadComposition {
  /** How many processes there are. One of them leads. */
  readonly processes: number
  /** Whether a process works only while it leads. A single process may work without an election. */
  readonly elects: boolean
  readonly services: number
  readonly pods: number
  readonly nodes: number
  readonly isDualStack: boolean
  readonly maxEndpointsPerSlice: number
  readonly workers: number
  readonly batchPeriodMs: number
  /** How long users work at most without a rest. */
  readonly activeMs: number
  /** How many faults there may be at a time. */
  readonly troubles: number
  readonly hasVandal: boolean
  readonly changesNodes: boolean
  readonly spikes: boolean
  /** Whether there is a garbage collector, which deletes objects without an owner sooner than the controllers do. */
  readonly collectsGarbage: boolean
}

/** Few Services and Pods, and small slices, so that everything happens to each of them. */
export function workloadCompositionOf(seed: number): WorkloadComposition {
  const random = seededRandom(seed, 'composition')
  const chance = (probability: number): boolean => random.next() < probability
  // Enough Pods for the code that handles large Services differently.
  const isCrowded = chance(0.06)
  const processes = 1 + randomInteger(random, 2)
  return {
    processes,
    elects: processes > 1 || chance(0.6),
    services: 2 + randomInteger(random, 5),
    pods: isCrowded ? 540 : 4 + randomInteger(random, 16),
    nodes: 2 + randomInteger(random, 4),
    isDualStack: chance(0.3),
    maxEndpointsPerSlice: isCrowded ? oneOf(random, [20, 100]) : oneOf(random, [1, 2, 3, 5, 100]),
    workers: 1 + randomInteger(random, 4),
    batchPeriodMs: oneOf(random, [0, 0, 0, 500, 3_000]),
    activeMs: oneOf(random, [3_000, 10_000, 30_000]),
    troubles: oneOf(random, [0, 1, 1, 2, 2, 3]),
    hasVandal: chance(0.4),
    changesNodes: chance(0.25),
    spikes: chance(0.4),
    collectsGarbage: chance(0.5),
  }
}

/** Describes a composition in one line. */
export function describeWorkloadComposition(composition: WorkloadComposition): string {
  const { processes, services, pods, nodes, maxEndpointsPerSlice, workers, batchPeriodMs, troubles } = composition
  const size = `${services} Services, ${pods} Pods, ${nodes} Nodes${composition.isDualStack ? ', dual-stack' : ''}`
  const options = `${maxEndpointsPerSlice} a slice, ${workers} workers, batches of ${batchPeriodMs} ms`
  const extras = [
    !composition.elects && 'no election',
    composition.hasVandal && 'a vandal',
    composition.changesNodes && 'changing Nodes',
    composition.spikes && 'spikes',
    composition.collectsGarbage && 'a garbage collector',
  ].filter((one) => one !== false)
  return [`processes: ${processes}; ${size}; ${options}; ${troubles} faults at a time`, ...extras].join('; ')
}
