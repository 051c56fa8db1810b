import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Apiserver } from '../peers/apiserver.ts'
import { type Cluster, startCluster } from '../peers/cluster.ts'
import { type Footprint, footprintOf } from '../peers/footprint.ts'
import { paths, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'
import { assertLoggedOnce } from './logged-once.ts'

const address = '192.0.2.1'
const outageMs = 20_000
/** Ten times the promised time. */
const rightAgainMs = 20_000
const quietMs = 3000

describe('outages of the API server and its etcd', () => {
  const owner = openOwner({ after })
  let cluster: Cluster
  let master: Program
  let undisturbed: Footprint & { readonly watches: number }

  const footprint = async () => {
    const { server } = cluster
    return { ...footprintOf(master.process.pid, [server.port]), watches: await watchesOf(server) }
  }

  before(async () => {
    cluster = await startCluster(owner, { kind: 'bare' })
    const { server } = cluster
    master = await startMaster(owner, server, { address })
    await whenRight(server.api, { addresses: [address], port: server.port }, 30_000)
    await sleep(quietMs)
    undisturbed = await footprint()
  })

  for (const part of ['etcd', 'kube-apiserver'] as const) {
    test(`${part} is down for twenty seconds: the program runs on, logs it once, and corrects the first write afterwards`, async () => {
      const { etcd, server } = cluster
      const linesBefore = master.log.length
      const peer = part === 'etcd' ? etcd : server
      await peer.kill()
      await sleep(outageMs)
      master.assertRunning()
      assert.ok(master.log.length > linesBefore, 'the outage is logged')

      const started = part === 'etcd' ? etcd.start() : server.start({ wait: false })
      // The first write that the server accepts is one that the program must correct.
      await untilPasses('the first write', () => server.api.delete(paths.slice), { withinMs: 120_000, everyMs: 20 })
      await whenRight(server.api, { addresses: [address], port: server.port }, rightAgainMs)
      await started

      await untilPasses(
        'as many watches as before',
        async () => assert.equal((await footprint()).watches, undisturbed.watches),
        { withinMs: 20_000, everyMs: 500 },
      )
      // What is still unavailable when the next outage begins would belong to this outage.
      await untilPasses(
        'the line that ends the outage',
        async () =>
          assert.ok(master.log.slice(linesBefore).some(({ message }) => message === 'the API server is back')),
        { withinMs: 30_000, everyMs: 100 },
      )
      await sleep(quietMs)
      assertLoggedOnce(master.log.slice(linesBefore))
      // The connections that the outage needed are idle now, and close by themselves. Some of those from the start may
      // have closed too.
      await untilPasses(
        'no more connections than before',
        async () => {
          const { connections, descriptors } = await footprint()
          const before = undisturbed
          assert.ok(connections <= before.connections, `${connections} connections, ${before.connections} before`)
          assert.ok(descriptors <= before.descriptors, `${descriptors} descriptors, ${before.descriptors} before`)
        },
        { withinMs: 90_000, everyMs: 1_000 },
      )
      master.assertRunning()
    })
  }
})

/** The watches that a server has open, its own included. */
async function watchesOf(server: Apiserver): Promise<number> {
  const { body } = await server.api.send('GET', '/metrics')
  const counts = String(body).matchAll(/^apiserver_longrunning_requests\{.*verb="WATCH".*\} (\d+)$/gm)
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}
