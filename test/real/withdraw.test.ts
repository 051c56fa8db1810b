import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { startEtcd } from '../peers/etcd.ts'
import { listedIn, watchState } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { runToEnd, startMaster } from '../peers/program.ts'

const addresses = ['192.0.2.1', '192.0.2.2'] as const
const securePort = 6443

test('withdraw needs no address, and deletes the lease in etcd of a master whose API server is dead', async (t) => {
  const owner = openOwner(t)
  const etcd = await startEtcd(owner)
  const servers = await Promise.all(addresses.map(() => startApiserver(owner, { kind: 'bare', etcd })))
  const [first, second] = servers as [Apiserver, Apiserver]
  const watched = await watchState(owner, second.api)
  const store = `--etcd-servers=${etcd.url}`
  const masters = await Promise.all(
    servers.map((server, index) => {
      const address = addresses[index] as string
      return startMaster(owner, server, { address, securePort, host: `host-${index + 1}`, flags: [store] })
    }),
  )
  await watched.whenRight({ addresses, port: securePort }, 60_000)
  const since = watched.history.length
  const withdraw = (server: Apiserver, host: string) =>
    runToEnd(owner, ['withdraw', `--kubeconfig=${server.kubeconfig}`, store, `--hostname-override=${host}`])

  const unknown = await withdraw(first, 'host-3')
  assert.equal(unknown.code, 1, unknown.output)
  assert.match(unknown.output, /^nothing withdrawn: no lease of host host-3 under \/registry\/masterleases\/ in etcd$/m)

  await first.kill()
  const startedMs = performance.now()
  const gone = await withdraw(first, 'host-1')
  const tookMs = performance.now() - startedMs
  assert.equal(gone.code, 0, gone.output)
  assert.match(
    gone.output,
    /^withdrawn: 192\.0\.2\.1 is marked as withdrawn, and other masters remove it from the list, because the API server is not available here: /m,
  )
  assert.ok(tookMs < 15_000, `${Math.round(tookMs)} ms`)
  await watched.whenRight({ addresses: ['192.0.2.2'], port: securePort }, 6_000)

  // The first master returns, and is withdrawn while its server serves: then the write of `withdraw` itself removes the
  // address.
  await first.start()
  await masters[0]?.stop()
  await startMaster(owner, first, { address: addresses[0], securePort, host: 'host-1', flags: [store] })
  await watched.whenRight({ addresses, port: securePort }, 60_000)
  const serving = await withdraw(first, 'host-1')
  assert.equal(serving.code, 0, serving.output)
  assert.match(serving.output, /^withdrawn: 192\.0\.2\.1 was removed from the list$/m)
  await watched.whenRight({ addresses: ['192.0.2.2'], port: securePort }, 6_000)
  for (const { state } of watched.history.slice(since)) {
    assert.ok(listedIn(state.endpoints).includes('192.0.2.2'), 'the other master stays listed')
  }
})
