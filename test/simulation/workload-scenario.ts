import { createHash } from 'node:crypto'
import { sleep } from '../../src/runtime/clock.ts'
import { randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { judge } from '../endpoints-model/judge.ts'
import { defaultLeaderElectionTiming } from '../kube/election-timing.ts'
import { byCopy } from '../support/by-copy.ts'
import { describeWorkloadComposition, type WorkloadComposition, workloadCompositionOf } from './workload-composition.ts'
import { disturbWorkloads } from './workload-faults.ts'
import { WorkloadWorld } from './workload-world.ts'

/** How a random schedule went. */
export interface WorkloadOutcome {
  /** The cluster, and all that was done and written, in order. */
  readonly transcript: readonly string[]
  readonly violations: readonly string[]
  /** How often what happened. */
  readonly coverage: ReadonlyMap<string, number>
  /** How long after a trouble all was right, in milliseconds. */
  readonly settledMs: number
  /** A digest of everything that was written and logged. */
  readonly digest: string
}

/**
 * How long it takes where nothing went wrong: a slice of a Service that is gone stays for ten seconds. The rest is the second before a slice is looked at, a
 * batch and how often is looked here.
 */
const undisturbedWithinMs = 16_000
const quietMs = 60_000
/** Until another process leads for one that was killed: its lease ends, and somebody looks. */
const electionMs = defaultLeaderElectionTiming.leaseDurationMs + defaultLeaderElectionTiming.retryPeriodMs
/** How long a silent watch is trusted, and a little more. */
const silentMs = 100_000
/** A watch may fall silent when all else is healed: after so many events, each of which may be the bookmark of a minute. */
const fallsSilentMs = silentMs + 3 * 60_000
const rounds = 4
/** The longest wait of a Service that could not be synced. */
const longestRetryMs = 1_000_000

/** Users, a vandal and faults against the controllers, for some minutes; the same for the same seed. */
export async function runWorkloadScenario(seed: number, { transport = byCopy } = {}): Promise<WorkloadOutcome> {
  const composition = workloadCompositionOf(seed)
  const world = new WorkloadWorld(seed, composition, { transport })
  const { time, processes, churn, transcript } = world
  transcript.push(describeWorkloadComposition(composition))
  await world.prepare(composition)
  for (const process of processes) process.start()
  const violations: string[] = []
  const { troubles, maxEndpointsPerSlice } = composition
  let settledMs = 0
  for (let round = 1; round <= rounds && violations.length === 0; round++) {
    const begunMs = time.nowMs
    await work(world, composition, seed * rounds + round)
    // A Service that was refused waits twice as long each time, so no longer than it was refused.
    const refusedMs = time.nowMs - begunMs
    for (const process of processes) process.heal()
    world.note('heal all')
    const hasSilence = transcript.some((line) => line.endsWith('watches that fall silent'))
    const troubledMs = troubles === 0 ? 0 : electionMs + Math.max(refusedMs, hasSilence ? fallsSilentMs : 0)
    const withinMs = undisturbedWithinMs + troubledMs
    settledMs = Math.max(settledMs, await settle(world, { maxEndpointsPerSlice, withinMs, violations }))
  }
  // Whatever is still written when the last silent watch has been given up would be written for ever.
  await time.advance(silentMs)
  await churn.collectGarbage()
  const restedMs = time.nowMs
  await time.advance(quietMs)
  if (world.writtenAtMs > restedMs) violations.push('something is still written at the end')
  for (const fault of await faultsOf(world, maxEndpointsPerSlice)) violations.push(`later: ${fault}`)
  for (const { name, failure } of processes) {
    if (failure !== undefined) violations.push(`${name} failed: ${(failure as Error).stack ?? failure}`)
  }
  for (const process of processes) process.terminate()
  await time.advance(1_000)
  const logged = processes.flatMap(({ logger }) => logger.lines)
  for (const { level, message } of logged) {
    // That is so while a server refuses everything, or where Pods are on a Node that is gone.
    if (level === 'error' && message !== 'a Service cannot be synced; retrying') violations.push(`logged: ${message}`)
  }
  count(world, 'leading', logged.filter(({ message }) => message === 'leading').length)
  for (const line of transcript) {
    const [, step] = /^\d+ ([a-z]+):? (?!all)/.exec(line) ?? []
    if (step !== undefined) count(world, `step ${step}`, 1)
  }
  count(world, 'conflicts', transcript.filter((line) => line.endsWith(' 409')).length)
  const lines = [...transcript, ...logged.map(({ level, message }) => `${level} ${message}`)]
  const digest = createHash('sha256').update(lines.join('\n')).digest('hex')
  return { transcript, violations, coverage: world.coverage, settledMs, digest }
}

/** Users at work, and faults, for a while. */
async function work(world: WorkloadWorld, { activeMs, troubles }: WorkloadComposition, seed: number): Promise<void> {
  const { time, clock } = world
  const note = (text: string): void => world.note(text)
  const usedMs = seededRandom(seed, 'use').next() * activeMs
  const startMs = time.nowMs
  let done = false
  const ended = Promise.all([
    use(world, usedMs, seed),
    ...Array.from({ length: troubles }, (_, index) =>
      disturbWorkloads(world, { clock, random: seededRandom(seed, `faults ${index}`), note }, usedMs),
    ),
  ]).finally(() => {
    done = true
  })
  ended.catch(() => {})
  while (!done) {
    await time.advance(1_000)
    if (time.nowMs > startMs + 20 * activeMs + 200_000) throw new Error('the work does not end')
  }
  await ended
}

/** Users at work, now and then many things at once. */
export async function use({ churn, clock }: WorkloadWorld, ms: number, seed: number): Promise<void> {
  const random = seededRandom(seed, 'pace')
  const endMs = clock.monotonicMs() + ms
  while (clock.monotonicMs() < endMs) {
    await sleep(clock, random.next() * (random.next() < 0.1 ? 6_000 : 700))
    const burst = random.next() < 0.1 ? randomInteger(random, 12) : 1
    for (let index = 0; index < burst; index++) await churn.step()
  }
  // While the last faults go on.
  const flaps = randomInteger(random, 4)
  for (let index = 0; index < flaps; index++) await churn.flap(() => sleep(clock, random.next() * 200))
}

/** Lets time pass until all is right, which it must be `withinMs`; how long that took, in milliseconds. */
async function settle(
  world: WorkloadWorld,
  {
    maxEndpointsPerSlice,
    withinMs,
    violations,
  }: { readonly maxEndpointsPerSlice: number; readonly withinMs: number; readonly violations: string[] },
): Promise<number> {
  const { time, churn } = world
  const startMs = time.nowMs
  for (;;) {
    await time.advance(2_000)
    await churn.collectGarbage()
    const faults = await faultsOf(world, maxEndpointsPerSlice)
    if (faults.length === 0) return time.nowMs - startMs
    if (time.nowMs < startMs + withinMs) continue
    await time.advance(longestRetryMs)
    await churn.collectGarbage()
    const still = new Set(await faultsOf(world, maxEndpointsPerSlice))
    violations.push(...faults.map((fault) => `${still.has(fault) ? 'never mended' : 'mended late'}: ${fault}`))
    return time.nowMs - startMs
  }
}

async function faultsOf({ churn }: WorkloadWorld, maxEndpointsPerSlice: number): Promise<readonly string[]> {
  return judge(await churn.state(), { maxEndpointsPerSlice })
}

function count({ coverage }: WorkloadWorld, what: string, by: number): void {
  coverage.set(what, (coverage.get(what) ?? 0) + by)
}

/** Everything that is needed to see it again. */
export function describeWorkloadFailure(seed: number, { violations, transcript }: WorkloadOutcome): string {
  const again = `seed ${seed} (node_modules/.bin/node test/simulation/workload-replay.ts ${seed}):`
  return [again, ...violations, ...transcript.slice(0, 1)].join('\n  ')
}
