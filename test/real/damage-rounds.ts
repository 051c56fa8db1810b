import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { startControllerManager } from '../peers/controller-manager.ts'
import { damages, wrongFor } from '../peers/damage.ts'
import { problemsOf, readState, type Transition, watchState, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'

const spacingMs = 1200
/** Ten times the limit of the bench. */
const boundMs = 10_000

/** Defines a suite that does each damage `rounds` times, and expects the program to repair each before the next. */
export function describeDamage(
  title: string,
  options: { readonly rounds: number; readonly controllerManager: boolean },
): void {
  describe(title, () => {
    const owner = openOwner({ after })
    let server: Apiserver
    let master: Program
    let history: readonly Transition[]
    const expected = () => ({ addresses: ['192.0.2.1'], port: server.port })

    before(async () => {
      ;({ server } = await startCluster(owner, { kind: 'bare' }))
      master = await startMaster(owner, server, { address: '192.0.2.1' })
      await whenRight(server.api, expected(), 30_000)
      if (options.controllerManager) await startControllerManager(owner, server)
      ;({ history } = await watchState(owner, server.api))
    })

    for (const damage of damages) {
      test(`${damage.name}: repaired each time`, async () => {
        for (let round = 0; round < options.rounds; round++) {
          const nextAt = performance.now() + spacingMs
          const since = history.length
          await damage.apply(server.api)
          await wrongFor(history, since, expected(), { withinMs: boundMs })
          await sleep(Math.max(0, nextAt - performance.now()))
        }
        assert.deepEqual(problemsOf(await readState(server.api), expected()), [])
      })
    }

    test('afterwards all objects are in sync, no slice is left over, and nothing more is written', async () => {
      await sleep(3000)
      assert.deepEqual(problemsOf(await readState(server.api), expected()), [])
      const { length } = history
      await sleep(3000)
      assert.equal(history.length, length)
      master.assertRunning()
      assert.deepEqual(master.logged(/keeps overwriting/), [], 'damage is no fight')
    })
  })
}
