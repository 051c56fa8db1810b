import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IpAddress } from '../../src/kube/resources.ts'
import { loseIpAddresses } from '../peers/allocation-damage.ts'
import {
  countIpAddresses,
  createServices,
  deleteServices,
  eventsFor,
  ipAddressPrefix,
  isMadeByTheProgram,
  whenAllocated,
} from '../peers/allocations.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { metricOf, whenReady } from '../peers/program-health.ts'
import { untilPasses } from '../peers/until.ts'

const address = '192.0.2.1'
const withinMs = 30_000

test('500 IPAddresses that are deleted together are all recreated, once each, with the same content', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
  await whenReady(master, withinMs)
  await createServices(server.api, 'a', 499)
  const { ipAddresses: before = [] } = await whenAllocated(cluster, withinMs)
  assert.equal(before.length, 500, 'with that of default/kubernetes')

  const count = await countIpAddresses(owner, server.api)
  const startedAt = performance.now()
  await loseIpAddresses(etcd)
  await untilPasses('all to be gone', () => assert.equal(count.deleted, 500), { withinMs, everyMs: 5 })
  const goneAt = performance.now()
  const { ipAddresses: after = [] } = await whenAllocated(cluster, withinMs)
  const sinceMs = (instant: number): number => Math.round(performance.now() - instant)
  t.diagnostic(`right again ${sinceMs(startedAt)} ms after the first was deleted, ${sinceMs(goneAt)} ms after the last`)
  await sleep(2_000)
  assert.deepEqual([count.added, count.deleted], [500, 500])
  count.stop()

  const shape = ({ metadata, spec }: IpAddress) => ({ name: metadata?.name, labels: metadata?.labels, spec })
  assert.deepEqual(after.map(shape), before.map(shape))
  assert.ok(after.every(isMadeByTheProgram))
  const repaired = 'apiserver_bootstrap_repairs_total{repair="cluster-ip",reason="ClusterIPNotAllocated"}'
  assert.equal(await metricOf(master, repaired), 500)
})

test('800 IPAddresses deleted at one revision, more than a watch can deliver, are recreated', async (t) => {
  const owner = openOwner(t)
  const cluster = await startCluster(owner, { kind: 'bare' })
  const { etcd, server } = cluster
  const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
  await whenReady(master, withinMs)
  await createServices(server.api, 'a', 800)
  await whenAllocated(cluster, withinMs)
  for (let round = 1; round <= 2; round++) {
    await etcd.deletePrefix(ipAddressPrefix)
    await whenAllocated(cluster, withinMs)
  }
})

for (const kind of ['bare', 'bare-1.32'] as const) {
  test(`mass creation and deletion of Services on a ${kind} server causes no false reports`, async (t) => {
    const owner = openOwner(t)
    const cluster = await startCluster(owner, { kind })
    const { etcd, server } = cluster
    const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
    await whenReady(master, withinMs)
    for (const round of ['a', 'b']) {
      const services = await createServices(server.api, round, 200, { type: 'NodePort' })
      await whenAllocated(cluster, withinMs)
      await deleteServices(server.api, services)
    }
    await whenAllocated(cluster, withinMs)
    const logged = master.logged(/not allocated|leaked|wrong reference/).map(({ message }) => message)
    assert.deepEqual(logged, [])
    for (const reason of [
      'ClusterIPNotAllocated',
      'PortNotAllocated',
      'IPAddressNotAllocated',
      'IPAddressWrongReference',
    ]) {
      assert.deepEqual(await eventsFor(server.api, reason), [])
    }
  })
}
