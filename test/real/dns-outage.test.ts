import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../peers/cluster.ts'
import { writeKubeconfig } from '../peers/kubeconfig.ts'
import { whenRight } from '../peers/kubernetes-service.ts'
import { judgeVersions, listKeys } from '../peers/listing-judge.ts'
import { openOwner, temporaryDirectory } from '../peers/owner.ts'
import { Program, runFlags, startMaster } from '../peers/program.ts'
import { followKeys } from '../peers/stored-versions.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'

const addresses = ['192.0.2.1', '192.0.2.2']
/** A lease lasts long enough for a machine that pauses for some seconds. */
const times = ['--lease-ttl=15s', '--reconcile-interval=5s']
/** The length of each outage. The three together are longer than a lease lasts. */
const outageMs = 7_000

for (const leaseStore of ['etcd', 'kubernetes'] as const) {
  test(`a master stays listed while DNS fails and its connections end, with leases in ${leaseStore}`, async (t) => {
    const owner = openOwner(t)
    const { etcd, server } = await startCluster(owner, { kind: 'bare' })
    const directory = temporaryDirectory(owner, 'dns')
    const dns = join(directory, 'state')
    const set = (state: 'answers' | 'fails' | 'denies' | 'hangs'): void => writeFileSync(dns, state)
    set('answers')
    const api = await TcpProxy.start(owner, { target: server.port })
    const store = await TcpProxy.start(owner, { target: Number(new URL(etcd.url).port) })
    const kubeconfig = writeKubeconfig(join(directory, 'kubeconfig'), {
      server: `https://localhost:${api.port}`,
      ca: server.authority.certificate,
      token: server.token,
    })
    const flagsFor = (host: string): readonly string[] => [
      ...times,
      ...(leaseStore === 'etcd' ? [`--etcd-servers=http://${host}`] : []),
    ]
    const [named = '', other = ''] = addresses
    const preload = `${new URL('../peers/failing-dns.ts', import.meta.url)}?state=${encodeURIComponent(dns)}`
    const master = await Program.start(
      owner,
      runFlags(server, { address: named, kubeconfig, flags: flagsFor(`localhost:${store.port}`) }),
      'host-1',
      ['--import', preload],
    )
    await startMaster(owner, server, {
      address: other,
      host: 'host-2',
      flags: flagsFor(`127.0.0.1:${new URL(etcd.url).port}`),
    })
    await whenRight(server.api, { addresses, port: server.port }, 60_000)

    const followed = await followKeys(owner, [etcd], Object.values(listKeys()))
    for (const state of ['fails', 'denies', 'hangs'] as const) {
      set(state)
      for (const proxy of [api, store]) proxy.cut()
      await sleep(outageMs)
      assert.ok(api.connections > 0, `no connection to the API server while DNS ${state}`)
      if (leaseStore === 'etcd') assert.ok(store.connections > 0, `no connection to etcd while DNS ${state}`)
    }
    await followed.caughtUp()
    assert.deepEqual(judgeVersions(followed.versions, 0, addresses), { gaps: [], empty: [] })
    master.assertRunning()
  })
}
