import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createServices, eventsFor, ipAddressPrefix, isMadeByTheProgram, whenAllocated } from '../peers/allocations.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { whenReady } from '../peers/program-health.ts'
import { untilPasses } from '../peers/until.ts'

const hook = 'poststarthook/start-service-ip-repair-controllers'
const hookWithinMs = 90_000

/**
 * Starts a stock kube-apiserver over and over against a store in which 800 IPAddresses are missing, while the program
 * runs against its address. At first this is a program that did this repair until now, for a bare server at the same
 * address. From then on it is, in turn, a program that was just started and one that knows the server.
 *
 * A writer that created the IPAddresses at the same time would make the server's own first repair fail. The server does
 * not retry that repair: its hook ends the server a minute after its start. Once the hook is done, this can no longer
 * happen, so the test need not watch that start for longer.
 */
export async function startStockServers(t: TestContext, { starts }: { readonly starts: number }): Promise<void> {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare', flags: ['--endpoint-reconciler-type=none'] })
  const { etcd, server } = cluster
  const startProgram = (): Promise<Program> =>
    startMaster(owner, server, { address: '192.0.2.1', flags: [`--etcd-servers=${etcd.url}`] })
  let master = await startProgram()
  await whenReady(master, 30_000)
  await createServices(server.api, 'a', 400)
  await createServices(server.api, 'b', 400, { type: 'NodePort' })
  await whenAllocated(cluster, 30_000)

  const tookMs: number[] = []
  for (let start = 1; start <= starts; start++) {
    await server.kill()
    await etcd.deletePrefix(ipAddressPrefix)
    if (start % 2 === 0) {
      await master.kill()
      master = await startProgram()
      await master.waitForLog(/"message":"started"/, 30_000)
    }
    const startedAt = performance.now()
    await server.start({ wait: false, kind: 'stock' })
    await untilPasses(
      `the repair at start ${start}`,
      async () => {
        if (server.process.exit !== undefined) return
        const { body } = await server.api.send('GET', '/readyz?verbose')
        assert.match(String(body), new RegExp(`^\\[\\+\\]${hook} ok$`, 'm'))
      },
      { withinMs: hookWithinMs },
    )
    assert.equal(server.process.exit, undefined, `start ${start}: ${server.process.tail()}`)
    tookMs.push(Math.round(performance.now() - startedAt))
    const { ipAddresses = [] } = await whenAllocated(cluster, 30_000)
    assert.equal(ipAddresses.length, 801)
    assert.deepEqual(ipAddresses.filter(isMadeByTheProgram), [], `start ${start}: left to the server`)
    master.assertRunning()
  }
  t.diagnostic(`the hook was done after ${tookMs.join(', ')} ms`)

  assert.deepEqual(await eventsFor(server.api, 'ServiceRangeMismatch'), [])
  assert.deepEqual(master.logged(/"level":"error"/), [])
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
}
