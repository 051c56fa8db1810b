import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import type { Program } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { testSeed } from '../support/test-seed.ts'
import { killOverAndOver } from './endpoints-kills.ts'
import { EndpointsWorld, lease, startControllers } from './endpoints-world.ts'

// Fifty kills: test/long/endpoints-kills.test.ts.
test('kills at random moments of churn leave no endpoint missing, duplicated or left over', (t) =>
  killOverAndOver(t, 6))

const settledWithinMs = 30_000
const short = [
  '--leader-elect-lease-duration=3s',
  '--leader-elect-renew-deadline=2s',
  '--leader-elect-retry-period=300ms',
]

test('each kind of leadership loss leaves no endpoint missing, duplicated or left over', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const seed = testSeed()
  t.diagnostic(`seed ${seed}`)
  const world = await EndpointsWorld.start(server.api, seed)
  const programs = [await startControllers(owner, server, short), await startControllers(owner, server, short)]
  const leading = (): Promise<Program> =>
    untilPasses(
      'a leader',
      async () => {
        const holder = await world.leader()
        const leader = programs.find((program) => program.logged(/"leading"/).length > 0 && holdsAs(program, holder))
        assert.ok(leader, `${holder} is none of them`)
        return leader
      },
      { withinMs: 30_000 },
    )
  const losses: Readonly<Record<string, () => Promise<void>>> = {
    'the leader is frozen, and resumes when another leads': async () => {
      const leader = await leading()
      leader.process.signal('SIGSTOP')
      await sleep(4_500)
      leader.process.signal('SIGCONT')
    },
    'the leader is killed': async () => {
      const leader = await leading()
      await leader.kill()
      programs[programs.indexOf(leader)] = await startControllers(owner, server, short)
    },
    'the Lease is deleted': async () => {
      await leading()
      await server.api.delete(lease)
    },
    'the leader receives SIGTERM': async () => {
      const leader = await leading()
      await leader.stop()
      programs[programs.indexOf(leader)] = await startControllers(owner, server, short)
    },
  }
  for (const round of [1, 2]) {
    for (const [loss, lose] of Object.entries(losses)) {
      world.go()
      await sleep(300 + world.any(1_000))
      await lose()
      await sleep(world.any(500))
      const tookMs = await world.settled(settledWithinMs).catch((error: Error) => {
        throw new Error(`${loss} (round ${round}): ${error.message}`)
      })
      t.diagnostic(`${loss}: right after ${Math.round(tookMs)} ms`)
    }
  }
  for (const program of programs) program.assertRunning()
})

/** Whether the log of a process states that it leads as `holder`. */
function holdsAs(program: Program, holder: string): boolean {
  return holder !== '' && program.log.some(({ identity }) => identity === holder)
}
