import { type Clock, sleep } from '../../src/runtime/clock.ts'
import type { Random } from '../../src/runtime/random.ts'

/** kube-apiserver's `--request-timeout`: a Service is stored within this time or not at all. */
export const requestTimeoutMs = 60_000

/** The server has ended, and its running requests with it. */
export class Ended extends Error {}

/** How fast a server handles one request. */
export type Patience = 'quick' | 'slow' | 'very slow'

/** Lets some time pass between two steps of a request. Rejects with {@link Ended} if the server has ended meanwhile. */
export type Step = () => Promise<void>

/** The pauses of one request. Together they fit into its time limit. */
export function stepsOf(options: {
  readonly clock: Clock
  readonly random: Random
  readonly patience: Patience | undefined
  readonly hasEnded: () => boolean
}): Step {
  const { clock, random, hasEnded } = options
  const startMs = clock.monotonicMs()
  const patience = options.patience ?? patienceOf(random)
  return async () => {
    const restMs = Math.max(startMs + requestTimeoutMs - 1 - clock.monotonicMs(), 0)
    await sleep(clock, Math.min(pauseMs(random, patience), restMs))
    if (hasEnded()) throw new Ended('the server has ended')
  }
}

function patienceOf(random: Random): Patience {
  const chance = random.next()
  return chance < 0.7 ? 'quick' : chance < 0.88 ? 'slow' : 'very slow'
}

/** Mostly milliseconds. An overloaded server takes seconds, up to the end of the request's time. */
function pauseMs(random: Random, patience: Patience): number {
  if (patience === 'quick' || random.next() < 0.3) return 1 + random.next() * 8
  return patience === 'slow' ? random.next() * 800 : random.next() * 40_000
}
