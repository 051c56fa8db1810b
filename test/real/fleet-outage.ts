import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Endpoints } from '../../src/kube/resources.ts'
import { startCluster } from '../peers/cluster.ts'
import { listedIn, paths, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { throughout } from '../peers/until.ts'

const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4', '192.0.2.5']
const leaseTtlMs = 3000

/**
 * Five masters lose their one API server for `outageMs`, many times their TTL. From its first answer on, and for
 * several TTLs more, all of them stay listed.
 */
export async function fiveMastersThroughAnOutage(t: TestContext, outageMs: number): Promise<void> {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const flags = [`--lease-ttl=${leaseTtlMs / 1000}s`, '--reconcile-interval=2s']
  const masters = await Promise.all(addresses.map((address) => startMaster(owner, server, { address, flags })))
  await whenRight(server.api, { addresses, port: server.port }, 60_000)

  await server.kill()
  await sleep(outageMs)
  await server.start()
  let answers = 0
  await throughout(5 * leaseTtlMs, async () => {
    const { status, body } = await server.api.send('GET', paths.endpoints)
    if (status !== 200) return
    answers++
    assert.deepEqual(listedIn(body as Endpoints), addresses)
  })
  assert.ok(answers > 50, `only ${answers} reads`)
  for (const master of masters) master.assertRunning()
  await whenRight(server.api, { addresses, port: server.port }, 5000)
}
