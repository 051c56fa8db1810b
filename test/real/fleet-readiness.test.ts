import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import { openClient, patient } from '../etcd/etcd-client.ts'
import { type FakeReadyz, startFakeReadyz } from '../peers/fake-readyz.ts'
import { listedIn, type Transition, watchState } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { ReusedClusters } from '../peers/reused-clusters.ts'
import { untilPasses } from '../peers/until.ts'

const clusters = new ReusedClusters({ kind: 'bare' })

// With leases in kubernetes: members.test.ts.

const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const
const boundMs = 30_000

interface Fleet {
  readonly readyz: readonly [FakeReadyz, FakeReadyz, FakeReadyz]
  readonly history: readonly Transition[]
  readonly etcd: EtcdKv
  readonly masters: readonly Program[]
  whenListed(...addresses: readonly string[]): Promise<void>
  /** Stops a sidecar by SIGTERM, and starts it again. */
  restart(index: number): Promise<void>
}

async function startFleet(t: TestContext, leaseTtl = '6s'): Promise<Fleet> {
  const owner = openOwner(t)
  const { etcd, server } = await clusters.take(owner)
  const { history, whenRight } = await watchState(owner, server.api)
  const readyz = [await startFakeReadyz(owner), await startFakeReadyz(owner), await startFakeReadyz(owner)] as const
  const flags = [`--etcd-servers=${etcd.url}`, `--lease-ttl=${leaseTtl}`, '--reconcile-interval=4s']
  const start = (index: number): Promise<Program> =>
    startMaster(owner, server, {
      address: addresses[index] ?? '',
      host: `host-${index}`,
      flags: [...flags, `--readyz-url=${readyz[index]?.url}`],
    })
  const masters = await Promise.all(addresses.map((_, index) => start(index)))
  const whenListed = async (...expected: readonly string[]): Promise<void> => {
    await whenRight({ addresses: expected, port: server.port }, boundMs)
  }
  await whenListed(...addresses)
  const restart = async (index: number): Promise<void> => {
    await masters[index]?.stop()
    masters[index] = await start(index)
  }
  return { readyz: [...readyz], history, etcd: openClient(t, [etcd.url]), whenListed, masters, restart }
}

/** The addresses that a kube-apiserver would list. */
async function leasedIn(etcd: EtcdKv): Promise<readonly string[]> {
  const { items } = await etcd.list('/registry/masterleases/', { signal: patient })
  return items.map(({ key }) => key.split('/').at(-1) ?? '')
}

describe('fleets whose servers are not ready', () => {
  after(() => clusters.close())

  describe('readiness with leases in etcd', { concurrency: 3 }, () => {
    test('a master whose /readyz fails leaves the list after three seconds, gives up its lease, and rejoins when it is ready', async (t) => {
      const { readyz, history, etcd, whenListed } = await startFleet(t)
      const failedMs = performance.now()
      readyz[1].setFailing('poststarthook/something')
      const removedMs = await untilPasses(
        'the removal',
        () => {
          const removal = history.find(
            ({ atMs, state }) => atMs > failedMs && !listedIn(state.endpoints).includes(addresses[1]),
          )
          assert.ok(removal)
          return removal.atMs
        },
        { withinMs: boundMs },
      )
      t.diagnostic(`left after ${Math.round(removedMs - failedMs)} ms`)
      assert.ok(removedMs - failedMs > 3_000)
      await whenListed(addresses[0], addresses[2])
      // The record states this first; the lease is removed a moment later.
      await untilPasses(
        'the lease to go',
        async () => assert.deepEqual(await leasedIn(etcd), [addresses[0], addresses[2]]),
        { withinMs: 5_000 },
      )
      const { items } = await etcd.list('/registry/apiserver-bootstrap/holders/', { signal: patient })
      assert.equal(items.length, 3)
      readyz[1].setReady(true)
      await whenListed(...addresses)
      assert.deepEqual(await leasedIn(etcd), addresses)
    })

    test('masters whose /readyz all fail at once all stay listed', async (t) => {
      const { readyz, history, etcd } = await startFleet(t)
      const from = history.length
      for (const one of readyz) one.setReady(false)
      await sleep(15_000)
      assert.deepEqual(history.slice(from), [])
      assert.deepEqual(await leasedIn(etcd), addresses)
      for (const one of readyz) one.setReady(true)
      await sleep(5_000)
      assert.deepEqual(history.slice(from), [])
    })

    test('while /readyz is forbidden, sidecars that are restarted one by one keep their addresses', async (t) => {
      // A restart takes less time than a lease lasts.
      const { readyz, history, masters, restart } = await startFleet(t, '20s')
      const from = history.length
      for (const one of readyz) one.refuse(403)
      await sleep(4_000)
      for (const index of addresses.keys()) {
        const stopped = masters[index]
        await restart(index)
        assert.equal(stopped?.logged(/a restarted sidecar could not join/).length, 1)
        await sleep(3_000)
      }
      await sleep(21_000)
      assert.deepEqual(history.slice(from), [])
      for (const master of masters) master.assertRunning()
    })

    test('a master whose etcd check alone fails leaves and rejoins; if the etcd checks of all fail, none leaves', async (t) => {
      const { readyz, history, whenListed } = await startFleet(t)
      readyz[0].setFailing('etcd')
      await whenListed(addresses[1], addresses[2])
      readyz[0].setReady(true)
      await whenListed(...addresses)
      const from = history.length
      for (const one of readyz) one.setFailing('etcd', 'etcd-readiness')
      await sleep(12_000)
      assert.deepEqual(history.slice(from), [])
    })
  })
})
