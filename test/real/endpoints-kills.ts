import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { testSeed } from '../support/test-seed.ts'
import { EndpointsWorld, startControllers } from './endpoints-world.ts'

const killsBetweenRests = 5
const settledWithinMs = 30_000

/**
 * Kills the program `kills` times at random moments of churn, and starts it again each time. Judges what it has written
 * whenever the churn rests.
 */
export async function killOverAndOver(t: TestContext, kills: number): Promise<void> {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const seed = testSeed()
  t.diagnostic(`seed ${seed}`)
  const world = await EndpointsWorld.start(server.api, seed)
  world.watch(owner)
  const tooks: number[] = []
  let program = await startControllers(owner, server)
  for (let kill = 1; kill <= kills; kill++) {
    world.go()
    // In the middle of its start, or between two writes.
    if (kill % 3 === 0) await sleep(200 + world.any(1_000))
    else await world.written(1 + world.any(15), 3_000)
    program.assertRunning()
    await program.kill()
    await sleep(world.any(100))
    program = await startControllers(owner, server)
    if (kill % killsBetweenRests === 0) tooks.push(await world.settled(settledWithinMs))
  }
  // Also what the last kills left behind.
  tooks.push(await world.settled(settledWithinMs))
  program.assertRunning()
  t.diagnostic(`${world.churn.done} changes; right after ${tooks.map(Math.round).join(', ')} ms, a start included`)
  assert.ok(world.churn.done > kills * 10, `${world.churn.done} changes`)
}
