import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { seededRandom } from '../../src/runtime/random.ts'
import { explain } from '../peers/listing-judge.ts'
import { openOwner } from '../peers/owner.ts'
import { haveOutage, type LeaseTimings, type Outage, type OutageResult, startOutageWorld } from './outage-world.ts'

/**
 * Causes outages one after the other in one world, and prints a line about each. Fails if any of them cost a living
 * master its address.
 */
export async function judgeOutages(
  t: TestContext,
  outages: readonly Outage[],
  { size, timings, seed }: { readonly size: 1 | 3; readonly timings: LeaseTimings; readonly seed: number },
): Promise<void> {
  const world = await startOutageWorld(openOwner(t), { size, timings, seed })
  const failed: string[] = []
  for (const [index, outage] of outages.entries()) {
    const result = await haveOutage(world, outage)
    const line = `${index + 1}. ${describe(result)}`
    t.diagnostic(line)
    if (!holds(result)) failed.push(line)
  }
  assert.deepEqual(failed, [], `seed ${seed}: ${failed.length} of ${outages.length} outages`)
}

/** An outage of each kind; between 5 and 60 seconds each unless a length is given. */
export function drawOutages(
  seed: number,
  kinds: readonly Outage['kind'][],
  lengthMs?: number | undefined,
): readonly Outage[] {
  const random = seededRandom(seed, 'lengths')
  return kinds.map((kind) => ({ kind, lengthMs: lengthMs ?? Math.round(5_000 + 55_000 * random.next()) }))
}

function holds({ gaps, empty, right }: OutageResult): boolean {
  return gaps.length === 0 && empty.length === 0 && right
}

function describe(result: OutageResult): string {
  const { outage, right } = result
  const end = right ? '' : '; not right in the end'
  return `${outage.kind} for ${(outage.lengthMs / 1000).toFixed(1)} s: ${explain(result) || 'whole'}${end}`
}
