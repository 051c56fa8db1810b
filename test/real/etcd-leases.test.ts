import assert from 'node:assert/strict'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectEtcd } from '../../src/etcd/connect-etcd.ts'
import { parseEndpoint } from '../../src/etcd/options.ts'
import { Availability } from '../../src/kube/availability.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd/leases.ts'
import type { Holder, HolderState, MasterLeases } from '../../src/kubernetes-service/leases/master-leases.ts'
import { systemClock } from '../../src/runtime/system-clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { masterLeasesContract } from '../../src/verify/master-leases-contract.ts'
import { addressesOf, holder } from '../kubernetes-service/leases/holders.ts'
import { spoilRecord } from '../kubernetes-service/leases/spoil.ts'
import { type Apiserver, startApiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { startEtcd } from '../peers/etcd.ts'
import { startKine } from '../peers/kine.ts'
import { listedIn, paths, readState, watchState } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { storeValue } from '../peers/stored-values.ts'
import { TcpProxy } from '../peers/tcp-proxy.ts'
import { untilPasses } from '../peers/until.ts'
import { withOddField } from '../protobuf/odd-lease.ts'
import type { Cleanup } from '../support/cleanup.ts'

const { signal } = new AbortController()
const self = holder('192.0.2.1')
/** The address of the kube-apiserver. */
const foreign = '192.0.2.250'
/** Ten times kube-apiserver's interval, and longer than any lease here. */
const withinMs = 100_000

function openLeases(
  cleanup: Cleanup,
  options: { readonly url: string; readonly prefix: string; readonly ttlMs: number },
): MasterLeases {
  const etcd = connectEtcd({ endpoints: [parseEndpoint(options.url)], clock: systemClock })
  cleanup.after(() => etcd.close())
  const availability = new Availability({ clock: systemClock, logger: silentLogger })
  return new EtcdLeases({ ...options, etcd, clock: systemClock, logger: silentLogger, availability })
}

// These tests wait most of the time.
describe('leases in a store', { concurrency: true }, () => {
  for (const { flavour, start } of [
    { flavour: 'etcd', start: startEtcd },
    { flavour: 'kine', start: startKine },
  ] as const) {
    describe(`leases in a real ${flavour}`, { concurrency: 4 }, () => {
      const owner = openOwner({ after })
      let url = ''
      let stores = 0

      before(async () => {
        url = (await start(owner)).url
      })

      const cases = masterLeasesContract((lifetime) => {
        const world = openOwner()
        const options = { url, prefix: `/contract-${++stores}`, ttlMs: lifetime === 'lasting' ? 60_000 : 5_000 }
        const open = (): MasterLeases => openLeases(world, options)
        const spoil = async (of: Holder, text: string): Promise<void> => {
          const etcd = connectEtcd({ endpoints: [parseEndpoint(url)], clock: systemClock })
          world.after(() => etcd.close())
          await spoilRecord(etcd, options.prefix, of, text)
        }
        return { ttlMs: options.ttlMs, open, pass: (ms) => sleep(ms), spoil, close: () => world.close() }
      })
      for (const { name, run } of cases) test(`${flavour}: ${name}`, run)

      test('an expiring lease is never attributed to a kube-apiserver', async (t) => {
        const options = { url, prefix: '/ending', ttlMs: 3_000 }
        const [a, b] = [openLeases(t, options), openLeases(t, options)]
        await a.update(self, signal)
        await untilPasses(
          'the end of the lease',
          async () => {
            const live = await b.list(signal)
            assert.ok(live.every((lease) => lease.holder !== undefined))
            assert.deepEqual(live, [])
          },
          { withinMs },
        )
        await a.update(self, signal)
        assert.deepEqual(await addressesOf(b), ['192.0.2.1'])
      })

      test('abandoned renewals on a dead connection neither delay the next one nor count as those of another master', async (t) => {
        const proxy = await TcpProxy.start(openOwner(t), { target: Number(new URL(url).port) })
        const options = { url: `http://127.0.0.1:${proxy.port}`, prefix: '/lost', ttlMs: 60_000 }
        const [a, b] = [openLeases(t, options), openLeases(t, { ...options, url })]
        const stop = new AbortController()
        let notifications = 0
        const watching = a.watch(() => notifications++, stop.signal)
        await a.update(self, signal)
        for (let round = 0; round < 3; round++) {
          proxy.lose()
          await assert.rejects(a.update(self, AbortSignal.timeout(500)), { name: 'TimeoutError' })
          await a.update(self, AbortSignal.timeout(5_000))
        }
        assert.deepEqual(await addressesOf(b), ['192.0.2.1'])
        const before = notifications
        await b.update(holder('192.0.2.2', { host: 'other' }), signal)
        await untilPasses('a notification', () => assert.ok(notifications > before), { withinMs })
        await a.mark({ ...self, state: 'unready' }, signal)
        assert.deepEqual(
          (await b.list(signal)).map((lease) => lease.holder?.state),
          ['unready', 'ready'],
        )
        stop.abort()
        await watching
      })

      test('a kube-apiserver and this program see each other’s leases; it lists no unready or removed master', async (t) => {
        const peers: Owner = openOwner(t)
        const etcd = { url }
        const server = await startApiserver(peers, {
          kind: 'stock',
          etcd,
          etcdPrefix: '/fleet',
          advertiseAddress: foreign,
        })
        const leases = openLeases(t, { url, prefix: '/fleet', ttlMs: 15_000 })
        const stop = keepRenewed(t, leases)
        await whenListed(server, self.addresses[0] ?? '', foreign)
        assert.deepEqual(
          (await leases.list(signal)).map(({ address, holder: held }) => [address, held?.host]),
          [
            [foreign, undefined],
            ['192.0.2.1', 'host'],
          ],
        )
        await stop.as('unready')
        await whenListed(server, foreign)
        assert.deepEqual(await addressesOf(leases), ['192.0.2.1', foreign])
        await stop.as('ready')
        await whenListed(server, '192.0.2.1', foreign)
        await stop.end()
        await leases.remove(self, signal)
        assert.deepEqual(await addressesOf(leases), [foreign])
        await whenListed(server, foreign)
        await server.kill()
        await untilPasses('its lease has ended', async () => assert.deepEqual(await addressesOf(leases), []), {
          withinMs,
        })
      })
    })
  }
})

test('a kube-apiserver and this program both list a lease with an unknown field', async (t) => {
  const owner = openOwner(t)
  const etcd = await startEtcd(owner)
  await storeValue(etcd, '/registry/masterleases/192.0.2.9', withOddField('192.0.2.9'))
  const server = await startApiserver(owner, { kind: 'eager', etcd, advertiseAddress: foreign })
  await whenListed(server, '192.0.2.9', foreign)
  const leases = openLeases(t, { url: etcd.url, prefix: '/registry', ttlMs: 15_000 })
  assert.deepEqual(await addressesOf(leases), ['192.0.2.9', foreign].sort())
})

test('no master loses its address while etcd is full for longer than a TTL, or when it accepts writes again', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'bare' })
  const { history, whenRight } = await watchState(owner, server.api)
  const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3']
  const flags = [`--etcd-servers=${etcd.url}`, '--lease-ttl=3s', '--reconcile-interval=2s']
  const masters = await Promise.all(addresses.map((address) => startMaster(owner, server, { address, flags })))
  await whenRight({ addresses, port: server.port }, 30_000)
  const from = history.length
  const leases = openLeases(t, { url: etcd.url, prefix: '/registry', ttlMs: 3_000 })
  const full = { memberID: '0', alarm: 'NOSPACE' }
  await etcd.call('/v3/maintenance/alarm', { ...full, action: 'ACTIVATE' })
  await untilPasses('all leases to end', async () => assert.deepEqual(await leases.list(signal), []), { withinMs })
  // One master returns much later than the others, which find no lease of it.
  masters[2]?.process.signal('SIGSTOP')
  await etcd.call('/v3/maintenance/alarm', { ...full, action: 'DEACTIVATE' })
  await untilPasses('two to be back', async () => assert.deepEqual(await addressesOf(leases), addresses.slice(0, 2)), {
    withinMs,
  })
  await sleep(4_000)
  masters[2]?.process.signal('SIGCONT')
  await untilPasses('all to be back', async () => assert.deepEqual(await addressesOf(leases), addresses), { withinMs })
  await sleep(5_000)
  assert.deepEqual(history.slice(from), [])
})

/** Renews the lease every two seconds, with the state that was last set by `as`. */
function keepRenewed(t: TestContext, leases: MasterLeases) {
  const ended = new AbortController()
  let current = self
  const loop = (async () => {
    while (!ended.signal.aborted) {
      await leases.update(current, signal)
      await sleep(2_000, undefined, { signal: ended.signal }).catch(() => {})
    }
  })()
  const end = async (): Promise<void> => {
    ended.abort()
    await loop
  }
  t.after(end)
  return {
    end,
    async as(state: HolderState): Promise<void> {
      current = { ...self, state }
      await leases.mark(current, signal)
    },
  }
}

async function whenListed({ api }: Apiserver, ...addresses: readonly string[]): Promise<void> {
  await untilPasses(
    `${paths.endpoints} with ${addresses}`,
    async () => assert.deepEqual(listedIn((await readState(api)).endpoints), [...addresses].sort()),
    { withinMs, everyMs: 200 },
  )
}
