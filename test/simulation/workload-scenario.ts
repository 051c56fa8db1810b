import { createHash } from 'node:crypto'
import { sleep } from '../../src/runtime/clock.ts'
import { randomInteger, seededRandom } from '../../src/runtime/random.ts'
import { judge } from '../endpoints-model/judge.ts'
import { defaultLeaderElectionTiming } from '../kube/election-timing.ts'
import { byCopy } from '../support/by-copy.ts'
import { describeWorkloadComposition, type WorkloadComposition, workloadCompositionOf } from './workload-composition.ts'
import { disturbWorkloads } from './workload-faults.ts'
import { WorkloadWorld } from './workload-world.ts'

/** The result of a random schedule. */
export interface WorkloadOutcome {
  /** The cluster, the steps and the writes, in order. */
  readonly transcript: readonly string[]
  readonly violations: readonly string[]
  /** How often each kind of step and fault occurred. */
  readonly coverage: ReadonlyMap<string, number>
  /** The longest time until everything was right again, in milliseconds. */
  readonly settledMs: number
  /** A digest of everything that was written and logged. */
  readonly digest: string
}

/**
 * The time limit without faults. A slice of a deleted Service stays for ten seconds. The rest is the second before a
 * controller reads a slice, a batch period, and the interval of the checks here.
 */
const undisturbedWithinMs = 16_000
const quietMs = 60_000
/** The time until another process leads after a kill: the Lease expires, and a candidate tries. */
const electionMs = defaultLeaderElectionTiming.leaseDurationMs + defaultLeaderElectionTiming.retryPeriodMs
/** How long a silent watch is trusted, with a margin. */
const silentMs = 100_000
/**
 * A watch may fall silent after the other faults have ended: after up to three events, each of which may be the
 * bookmark of a minute.
 */
const fallsSilentMs = silentMs + 3 * 60_000
const rounds = 4
/** The longest back-off of a Service whose sync failed. */
const longestRetryMs = 1_000_000

/** Runs users, a vandal and faults against the controllers for some minutes. The same seed gives the same result. */
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
    // The back-off of a refused Service doubles each time, so it is no longer than the refusals lasted.
    const refusedMs = time.nowMs - begunMs
    for (const process of processes) process.heal()
    world.note('heal all')
    const hasSilence = transcript.some((line) => line.endsWith('silent watches'))
    const troubledMs = troubles === 0 ? 0 : electionMs + Math.max(refusedMs, hasSilence ? fallsSilentMs : 0)
    const withinMs = undisturbedWithinMs + troubledMs
    settledMs = Math.max(settledMs, await settle(world, { maxEndpointsPerSlice, withinMs, violations }))
  }
  // A controller that still writes when the last silent watch has been replaced would write forever.
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
    // This error is normal while a server refuses everything, or if Pods are on a deleted Node.
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

/** Runs users and faults for a while. */
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

/** Runs users; now and then they make many changes at once. */
export async function use({ churn, clock }: WorkloadWorld, ms: number, seed: number): Promise<void> {
  const random = seededRandom(seed, 'pace')
  const endMs = clock.monotonicMs() + ms
  while (clock.monotonicMs() < endMs) {
    await sleep(clock, random.next() * (random.next() < 0.1 ? 6_000 : 700))
    const burst = random.next() < 0.1 ? randomInteger(random, 12) : 1
    for (let index = 0; index < burst; index++) await churn.step()
  }
  // The last faults may still be active meanwhile.
  const flaps = randomInteger(random, 4)
  for (let index = 0; index < flaps; index++) await churn.flap(() => sleep(clock, random.next() * 200))
}

/**
 * Lets time pass until everything is right, and returns how long that took, in milliseconds. Longer than `withinMs` is
 * a violation.
 */
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
    violations.push(...faults.map((fault) => `${still.has(fault) ? 'never corrected' : 'corrected late'}: ${fault}`))
    return time.nowMs - startMs
  }
}

async function faultsOf({ churn }: WorkloadWorld, maxEndpointsPerSlice: number): Promise<readonly string[]> {
  return judge(await churn.state(), { maxEndpointsPerSlice })
}

function count({ coverage }: WorkloadWorld, what: string, by: number): void {
  coverage.set(what, (coverage.get(what) ?? 0) + by)
}

/** Describes a failure, with the command that replays it. */
export function describeWorkloadFailure(seed: number, { violations, transcript }: WorkloadOutcome): string {
  const again = `seed ${seed} (node_modules/.bin/node test/simulation/workload-replay.ts ${seed}):`
  return [again, ...violations, ...transcript.slice(0, 1)].join('\n  ')
}
