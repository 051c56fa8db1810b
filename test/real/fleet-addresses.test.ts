import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openClient, patient } from '../etcd/etcd-client.ts'
import type { Apiserver } from '../peers/apiserver.ts'
import type { Etcd } from '../peers/etcd.ts'
import { listedIn, listedInSlices, type Transition, watchState } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { type Program, startMaster } from '../peers/program.ts'
import { ReusedClusters } from '../peers/reused-clusters.ts'
import { untilPasses } from '../peers/until.ts'

const ttlMs = 6_000
const shortLease = [`--lease-ttl=${ttlMs / 1000}s`, '--reconcile-interval=4s']
/** Ten times the lease. */
const boundMs = 60_000

const stores = ['etcd', 'kubernetes'] as const

interface Fleet {
  readonly etcd: Etcd
  readonly server: Apiserver
  readonly history: readonly Transition[]
  start(host: string, address: string, flags?: readonly string[]): Promise<Program>
  whenListed(...addresses: readonly string[]): Promise<void>
}

describe('addresses that several hosts share', { concurrency: 2 }, () => {
  const clusters = new ReusedClusters({ kind: 'bare' })
  after(() => clusters.close())

  async function startFleet(t: TestContext, store: (typeof stores)[number]): Promise<Fleet> {
    const own = openOwner(t)
    const { etcd, server } = await clusters.take(own)
    const { history, whenRight } = await watchState(own, server.api)
    const flags = [...shortLease]
    if (store === 'etcd') flags.push(`--etcd-servers=${etcd.url}`)
    return {
      server,
      etcd,
      history,
      start: (host, address, more = []) => startMaster(own, server, { address, host, flags: [...flags, ...more] }),
      whenListed: async (...addresses) => {
        await whenRight({ addresses, port: server.port }, boundMs)
      },
    }
  }

  for (const store of stores) {
    test(`two masters behind one address restart one after the other without a write to the list (leases in ${store})`, async (t) => {
      const { history, start, whenListed } = await startFleet(t, store)
      const masters = { a: await start('a', '192.0.2.1'), b: await start('b', '192.0.2.1') }
      await Promise.all([announced(masters.a), announced(masters.b)])
      await whenListed('192.0.2.1')
      const from = history.length
      for (const host of ['a', 'b', 'a', 'b'] as const) {
        assert.deepEqual(await masters[host].stop(), { code: 0, signal: null })
        masters[host] = await start(host, '192.0.2.1')
        await announced(masters[host])
      }
      await sleep(2 * ttlMs)
      assert.deepEqual(history.slice(from), [], 'nothing is written')
      assertNeverEmpty(history)
    })

    test(`of two masters behind one address one stops: the address stays listed until the other dies (leases in ${store})`, async (t) => {
      const { history, start, whenListed } = await startFleet(t, store)
      const [, a, b] = await Promise.all([
        start('steady', '192.0.2.1'),
        start('a', '192.0.2.2'),
        start('b', '192.0.2.2'),
      ])
      await Promise.all([announced(a), announced(b)])
      await whenListed('192.0.2.1', '192.0.2.2')
      const from = history.length
      assert.deepEqual(await b.stop(), { code: 0, signal: null })
      await sleep(2 * ttlMs)
      assert.deepEqual(history.slice(from), [], 'nothing is written')
      await a.kill()
      await whenListed('192.0.2.1')
    })

    test(`a new host with the address of a dead one takes over without a write to the list (leases in ${store})`, async (t) => {
      const { history, start, whenListed, etcd } = await startFleet(t, store)
      // The lease of the old master must last until the new master has started and has its own lease.
      const longTtlMs = 15_000
      const longLease = [`--lease-ttl=${longTtlMs / 1000}s`]
      const [, old] = await Promise.all([start('steady', '192.0.2.1', longLease), start('old', '192.0.2.2', longLease)])
      await whenListed('192.0.2.1', '192.0.2.2')
      const from = history.length
      await old.kill()
      await announced(await start('new', '192.0.2.2', longLease))
      await sleep(2 * longTtlMs)
      assert.deepEqual(history.slice(from), [], 'nothing is written')
      assertNeverEmpty(history)
      if (store !== 'etcd') return
      const { items } = await openClient(t, [etcd.url]).list('/registry/apiserver-bootstrap/holders/', {
        signal: patient,
      })
      const hosts = items.map(({ value }) => JSON.parse(Buffer.from(value).toString()).host)
      assert.deepEqual(hosts.sort(), ['new', 'steady'], 'the record of the old holder has gone with its lease')
    })
  }
})

/** Waits until the first list of this master, which includes itself, was written or found right. */
async function announced(master: Program): Promise<void> {
  await untilPasses(
    'the program to be ready',
    async () => {
      const { health } = await master.waitForLog(/"message":"started"/, boundMs)
      const response = await fetch(`http://${health}/readyz`, { headers: { connection: 'close' } })
      assert.equal(response.status, 200, await response.text())
    },
    { withinMs: boundMs },
  )
}

function assertNeverEmpty(history: readonly Transition[]): void {
  const first = history.findIndex(({ state }) => state.endpoints !== undefined)
  assert.ok(first >= 0)
  for (const { state } of history.slice(first)) {
    assert.ok(listedIn(state.endpoints).length > 0)
    if (state.slices.length > 0) assert.ok(listedInSlices(state.slices).length > 0)
  }
}
