import { createHash } from 'node:crypto'
import { seededRandom } from '../../src/runtime/random.ts'
import { byCopy } from '../support/by-copy.ts'
import { describeRepairComposition, repairCompositionOf } from './repair-composition.ts'
import { RepairCoverage } from './repair-coverage.ts'
import { disturbMasters } from './repair-faults.ts'
import { Users } from './repair-users.ts'
import { RepairWorld } from './repair-world.ts'

/** The result of a random schedule. */
export interface RepairOutcome {
  /** The cluster and the steps, in order. */
  readonly schedule: readonly string[]
  /** Every write and its writer. */
  readonly transcript: readonly string[]
  readonly violations: readonly string[]
  readonly coverage: RepairCoverage
  /** A digest of everything that was written and logged. */
  readonly digest: string
}

/** Runs users, a vandal and faults against the repairs for some minutes. The same seed gives the same result. */
export async function runRepairScenario(
  seed: number,
  { coverage = new RepairCoverage(), transport = byCopy } = {},
): Promise<RepairOutcome> {
  const composition = repairCompositionOf(seed)
  const { activeMs, intervalMs, faults } = composition
  const world = new RepairWorld(seed, composition, coverage, transport)
  const { ledger, judge, verdicts, masters, clock, time } = world
  const schedule = [describeRepairComposition(composition)]
  const note = (text: string): void => {
    schedule.push(`${Math.round(time.nowMs)} ${text}`)
  }
  await world.prepare(seed % 2 === 0)
  for (const master of masters) master.start()
  await world.advance(1_000)
  const damaged = (): void => {
    judge.damagedAtMs = time.nowMs
  }
  const random = seededRandom(seed, 'users')
  const { servers, vandal } = world
  const users = new Users({ composition, ledger, servers, vandal, clock, random, note, damaged })
  const working: Promise<void>[] = [users.work(activeMs)]
  if (faults) working.push(disturbMasters(world, { clock, random: seededRandom(seed, 'faults'), note }, activeMs))
  let done = false
  const ended = Promise.all(working).finally(() => {
    done = true
  })
  ended.catch(() => {})
  while (!done) {
    await world.advance(5_000)
    if (time.nowMs > 10 * activeMs) throw new Error(`seed ${seed} does not end`)
  }
  await ended
  // Running requests end within a minute, and orphans have their grace period. The third pass after two minutes frees
  // leaks.
  for (const master of masters) master.heal()
  note('heal all')
  await world.advance(60_000 + 120_000 + 4.4 * intervalMs)
  judge.expectExact()
  const before = judge.writes.made + judge.writes.lost
  await world.advance(1.2 * intervalMs)
  if (judge.writes.made + judge.writes.lost > before) verdicts.violated('something is still written at the end')
  judge.expectFewWrites()
  for (const { name, failure } of masters) if (failure !== undefined) verdicts.violated(`${name} failed: ${failure}`)
  for (const master of masters) master.terminate()
  await time.advance(1_000)
  const { transcript } = ledger
  const logged = masters.flatMap(({ lives }) => lives.flatMap(({ logger }) => logger.lines))
  const lines = [...transcript, ...logged.map(({ level, message }) => `${level} ${message}`)]
  const digest = createHash('sha256').update(lines.join('\n')).digest('hex')
  return { schedule, transcript, violations: verdicts.violations, coverage, digest }
}

/** Describes a failure, with the command that replays it. */
export function describeRepairFailure(seed: number, { violations, schedule }: RepairOutcome): string {
  const again = `seed ${seed} (node_modules/.bin/node test/simulation/repair-replay.ts ${seed}):`
  return [again, ...violations, ...schedule.slice(0, 1)].join('\n  ')
}
