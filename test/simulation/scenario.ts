import { createHash } from 'node:crypto'
import { randomInteger } from '../../src/runtime/random.ts'
import { compositionOf, describeComposition, membersOf, type World, worldOf } from './composition.ts'
import { disturb, repairAll } from './faults.ts'
import { InvariantWatch } from './invariant-watch.ts'

/** How a random schedule went. */
export interface Outcome {
  /** The fleet, and what was done to it, in order. */
  readonly schedule: readonly string[]
  /** What must never happen, and did. */
  readonly violations: readonly string[]
  /** A digest of everything that was listed, logged and asked. */
  readonly digest: string
}

/** A fleet under random faults for a minute and a half; the same for the same seed. */
export async function runScenario(seed: number): Promise<Outcome> {
  const composition = compositionOf(seed)
  const world = worldOf(seed, composition)
  const { fleet } = world
  const { random, time } = fleet
  const watch = new InvariantWatch(world)
  const schedule = [describeComposition(composition)]
  for (const member of membersOf(world)) member.start()
  await watch.advance(8_000)
  while (time.nowMs < 60_000) {
    const startedMs = time.nowMs
    const done = await disturb(world, { random, advance: (ms) => watch.advance(ms) })
    schedule.push(`${Math.round(startedMs)} ${done}`)
    await watch.advance(500 * (1 + randomInteger(random, 16)))
  }
  repairAll(world)
  schedule.push(`${Math.round(time.nowMs)} repair everybody`)
  await watch.advance(2 * composition.leaseTtlMs + 10_000)
  watch.expectAllListed(composition.leaseTtlMs)
  for (const one of world.kubeApiservers) one.terminate()
  await fleet.close()
  return { schedule, violations: watch.violations, digest: digestOf(world) }
}

/** Everything that is needed to see it again. */
export function describeFailure(seed: number, { violations, schedule }: Outcome): string {
  return [`seed ${seed} (node test/simulation/replay.ts ${seed}):`, ...violations, ...schedule].join('\n  ')
}

function digestOf({ fleet }: World): string {
  const hash = createHash('sha256')
  hash.update(JSON.stringify(fleet.listings))
  for (const { atMs, by, request } of fleet.requests) hash.update(`${atMs} ${by} ${request.method} ${request.path}\n`)
  for (const { name, lives } of fleet.masters) {
    for (const life of lives) {
      for (const line of life.logger.lines) hash.update(`${name} ${line.level} ${line.message}\n`)
    }
  }
  if (fleet.etcd !== undefined) hash.update(`etcd ${fleet.etcd.store.revision}`)
  return hash.digest('hex')
}
