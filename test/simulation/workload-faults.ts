import type { FaultRule } from '../../src/apiserver/faults.ts'
import { leases } from '../../src/kube/resources.ts'
import { type Clock, sleep } from '../../src/runtime/clock.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import { oneOf } from '../endpoints-model/churn-objects.ts'
import { lease, type WorkloadProcess } from './workload-process.ts'
import type { WorkloadWorld } from './workload-world.ts'

export interface WorkloadFaultTools {
  readonly clock: Clock
  readonly random: Random
  readonly note: (text: string) => void
  /** Whether faults may interrupt the term of a process: kill, stop or freeze it, or delete its Lease. @default true */
  readonly endsLives?: boolean
}

/** Injects a fault into one process or all of them. Returns a function that ends the fault. */
type WorkloadFault = (process: WorkloadProcess, world: WorkloadWorld, random: Random) => () => void

/** Injects faults into processes and ends them again, for `ms` milliseconds. */
export async function disturbWorkloads(world: WorkloadWorld, tools: WorkloadFaultTools, ms: number): Promise<void> {
  const { clock, random, note, endsLives = true } = tools
  const choice = faults.filter(([name]) => endsLives || !lifeEnding.includes(name))
  const endMs = clock.monotonicMs() + ms
  while (clock.monotonicMs() < endMs) {
    await sleep(clock, random.next() * 8_000)
    const process = oneOf(random, world.processes)
    const [name, fault] = oneOf(random, choice)
    const undo = fault(process, world, random)
    world.coverage.set(name, (world.coverage.get(name) ?? 0) + 1)
    note(`${process.name}: ${name}`)
    await sleep(clock, durationMs(random))
    undo()
    note(`${process.name}: no longer ${name}`)
  }
}

/** The duration of a fault; sometimes longer than the leader's lease. */
function durationMs(random: Random): number {
  const chance = random.next()
  return random.next() * (chance < 0.5 ? 1_500 : chance < 0.9 ? 12_000 : 60_000)
}

/**
 * A rule for the requests of the current life. With `reset` it also breaks open streams, so that it applies to new
 * ones.
 */
function rule(of: (random: Random) => FaultRule, reset = false): WorkloadFault {
  return (process, _world, random) => {
    const { life } = process
    const made = of(random)
    const undo = life?.faults.add(made) ?? (() => {})
    if (reset) life?.faults.resetStreams()
    return undo
  }
}

const writes = ['POST', 'PUT', 'DELETE'] as const
const someOrAll = (random: Random): number => oneOf(random, [0.2, 0.5, 1])
const plurals = ['services', 'pods', 'nodes', 'endpoints', 'endpoints', 'endpointslices', 'endpointslices'] as const

const faults: readonly (readonly [name: string, fault: WorkloadFault])[] = [
  ['500s', rule((random) => ({ fault: { type: 'status', status: 500 }, probability: someOrAll(random) }), true)],
  [
    '500s for writes',
    rule((random) => ({ fault: { type: 'status', status: 500 }, methods: writes, probability: someOrAll(random) })),
  ],
  [
    '429s',
    rule((random) => ({
      fault: { type: 'status', status: 429, retryAfterSeconds: 1 + randomInteger(random, 3) },
      probability: someOrAll(random),
    })),
  ],
  [
    '410s for watches',
    rule((random) => ({ fault: { type: 'status', status: 410 }, stream: true, probability: someOrAll(random) }), true),
  ],
  [
    '410s for lists',
    rule(
      (random) => ({
        fault: { type: 'status', status: 410 },
        methods: ['GET'],
        stream: false,
        probability: someOrAll(random),
      }),
      true,
    ),
  ],
  [
    'a compaction',
    (process, { server }) => {
      server.compact()
      process.life?.faults.resetStreams()
      return () => {}
    },
  ],
  [
    'watches cut',
    rule(
      (random) => ({ fault: { type: 'cut', afterEvents: randomInteger(random, 4) }, stream: true, probability: 0.7 }),
      true,
    ),
  ],
  [
    'watches ended',
    rule(
      (random) => ({ fault: { type: 'end', afterEvents: randomInteger(random, 4) }, stream: true, probability: 0.7 }),
      true,
    ),
  ],
  [
    'silent watches',
    rule(
      (random) => ({ fault: { type: 'stall', afterEvents: randomInteger(random, 4) }, stream: true, times: 2 }),
      true,
    ),
  ],
  [
    'answers lost',
    rule((random) => ({
      fault: { type: 'drop', lost: 'answer' },
      methods: writes,
      probability: someOrAll(random),
      times: 4,
    })),
  ],
  ['answers torn', rule((random) => ({ fault: { type: 'garbage' }, methods: writes, probability: someOrAll(random) }))],
  [
    'requests lost',
    rule((random) => ({ fault: { type: 'drop', lost: 'request' }, probability: someOrAll(random), times: 4 })),
  ],
  ['slow writes', rule((random) => ({ fault: { type: 'delay', ms: random.next() * 4_000 }, methods: writes }))],
  [
    'slow watches',
    (process, world, random) => {
      const { life } = process
      const slow = rule(() => ({ fault: { type: 'delay', ms: random.next() * 1_000 }, stream: true }), true)
      const end = slow(process, world, random)
      return () => {
        end()
        // A stream retains the delay with which it started.
        life?.faults.resetStreams()
      }
    },
  ],
  ['refused', rule(() => ({ fault: { type: 'refuse' } }), true)],
  [
    'late events',
    (process, _world, random) => {
      process.lag.hold(oneOf(random, plurals), random.next() * 8_000)
      return () => {}
    },
  ],
  ['late events of its own writes', own],
  ['late events of its own writes', own],
  [
    'no connection',
    ({ life }) => {
      life?.faults.partition()
      return () => life?.faults.heal()
    },
  ],
  [
    'an outage of 30 s',
    (_process, { processes, clock }) => {
      for (const { server } of processes) server.kill()
      clock.schedule(30_000, () => {
        for (const { server } of processes) server.start()
      })
      return () => {}
    },
  ],
  [
    'hanging',
    ({ server }) => {
      server.hanging = true
      return () => {
        server.hanging = false
      }
    },
  ],
  ['killed', ended((process) => process.kill())],
  ['killed', ended((process) => process.kill())],
  ['terminated', ended((process) => process.terminate())],
  [
    'frozen',
    ({ life }) => {
      life?.clock.freeze()
      return () => life?.clock.thaw()
    },
  ],
  [
    'its Lease deleted',
    (_process, { api }) => {
      api.delete(leases, lease).catch(() => {})
      return () => {}
    },
  ],
]

/** Delays the watches of Endpoints and EndpointSlices, so that the process sees its own writes late. */
function own(process: WorkloadProcess, _world: WorkloadWorld, random: Random): () => void {
  for (const plural of ['endpoints', 'endpointslices']) process.lag.hold(plural, random.next() * 15_000)
  return () => process.lag.end()
}

/** The names of all faults. */
export const workloadFaultNames: readonly string[] = [...new Set(faults.map(([name]) => name))]

const lifeEnding = ['killed', 'terminated', 'frozen', 'its Lease deleted']

/** Ends a life, and starts another one when the fault ends. */
function ended(end: (process: WorkloadProcess) => void): WorkloadFault {
  return (process) => {
    end(process)
    return () => {
      if (process.life === undefined) process.start()
    }
  }
}
