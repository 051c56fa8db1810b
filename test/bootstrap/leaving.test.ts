import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EtcdKv } from '../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import { faultyEtcd } from '../../src/etcd/memory-etcd-faults.ts'
import type { ReadinessAnswer } from '../../src/kube/readiness.ts'
import { type Endpoints, endpoints } from '../../src/kube/resources.ts'
import { addressesIn } from '../../src/kubernetes-service/identity.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd/leases.ts'
import { EtcdRangeRegistry } from '../../src/repair/registries/etcd.ts'
import { abortable } from '../../src/runtime/signals.ts'
import { passedOn } from '../kube/passed-on.ts'
import { setUp, storeLeaseOfAnother } from './masters-world.ts'

const ready: ReadinessAnswer = { answered: true, ready: true, checks: [] }
const etcdServers = 'http://127.0.0.1:2379'

/** Two masters. The first is stopped while its own etcd member hangs for `hangsMs` milliseconds. */
async function stoppedWhileEtcdHangs({ hangsMs, lives }: { readonly hangsMs: number; readonly lives: boolean }) {
  const { time, api, start, ports } = setUp()
  const hung = Promise.withResolvers<void>()
  let hangs = false
  const memory = new MemoryEtcd({ clock: ports.clock })
  const member = faultyEtcd(memory.client(), {
    clock: ports.clock,
    before: (_, signal) => (hangs ? abortable(hung.promise, signal) : undefined),
  })
  const through = (kv: EtcdKv) => ({ kv, Leases: EtcdLeases, Ranges: EtcdRangeRegistry })
  const readiness = {
    probe: async (): Promise<ReadinessAnswer> => (hangs ? { answered: false, reason: 'no answer' } : ready),
    answers: async () => !hangs || lives,
  }
  const master = start({ etcdServers }, { etcd: through(member), readiness })
  const other = start({ etcdServers, advertiseAddress: '192.0.2.2' }, { etcd: through(memory.client()) })
  await time.advance(30_000)
  hangs = true
  let endedMs: number | undefined
  const stoppedMs = time.nowMs
  master.stop.abort()
  const ended = master.ended.then(() => {
    endedMs = time.nowMs - stoppedMs
  })
  await time.advance(hangsMs)
  hangs = false
  hung.resolve()
  await time.advance(2_000)
  const list = async (): Promise<readonly string[]> =>
    addressesIn(await api.get(endpoints, { namespace: 'default', name: 'kubernetes' }))
  const listed = await list()
  await time.advance(20_000)
  await ended
  const listedLater = await list()
  await other.end()
  return { listed, listedLater, endedMs: endedMs ?? Number.NaN }
}

test('a stopped master whose server is alive waits for its hung etcd, and leaves the list when etcd answers', async () => {
  const { listed } = await stoppedWhileEtcdHangs({ hangsMs: 10_000, lives: true })
  assert.deepEqual(listed, ['192.0.2.2'])
})

test('a stopped master gives up after five to seven seconds without any answer, and is listed until its lease ends', async () => {
  const { endedMs, listed, listedLater } = await stoppedWhileEtcdHangs({ hangsMs: 12_000, lives: false })
  assert.deepEqual([listed, listedLater], [['192.0.2.1', '192.0.2.2'], ['192.0.2.2']])
  assert.ok(endedMs >= 5_000 && endedMs <= 7_000, `${endedMs} ms`)
})

test('an unready master that is stopped does not return to the list', { timeout: 20_000 }, async () => {
  const { time, api, start } = setUp()
  let answer: ReadinessAnswer = ready
  const master = start({}, { readiness: { probe: async () => answer, answers: async () => true } })
  const other = start({ advertiseAddress: '192.0.2.2' })
  await time.advance(30_000)
  const lists: (readonly string[])[] = []
  const watch = new AbortController()
  const watching = (async () => {
    for await (const { object } of api.watch(endpoints, { namespace: 'default', signal: watch.signal })) {
      lists.push(addressesIn(object as Endpoints))
    }
  })()
  answer = { answered: true, ready: false, checks: [] }
  await time.advance(20_000)
  await master.end()
  watch.abort()
  await watching
  await other.end()
  assert.deepEqual(lists, [['192.0.2.1', '192.0.2.2'], ['192.0.2.2']])
})

test('a master that leaves reads the leases after the list it writes, so a master that has just joined stays listed', async () => {
  const { time, api, start } = setUp()
  const order: string[] = []
  const master = start(
    {},
    {
      api: passedOn(api, {
        get: (resource, ...args) => {
          order.push(`get ${resource.plural}`)
          return api.get(resource, ...args)
        },
        list: (resource, ...args) => {
          order.push(`list ${resource.plural}`)
          return api.list(resource, ...args)
        },
        update: (resource, ...args) => {
          order.push(`update ${resource.plural}`)
          return api.update(resource, ...args)
        },
      }),
    },
  )
  await time.advance(2_000)
  await storeLeaseOfAnother(api, 60)
  await time.advance(2_000)
  order.length = 0
  await master.end()
  const { subsets } = await api.get(endpoints, { namespace: 'default', name: 'kubernetes' })
  assert.deepEqual(
    subsets?.[0]?.addresses?.map(({ ip }) => ip),
    ['192.0.2.2'],
  )
  const before = order.slice(0, order.indexOf('update endpoints'))
  assert.ok(before.lastIndexOf('get endpoints') >= 0)
  assert.ok(before.lastIndexOf('list leases') > before.lastIndexOf('get endpoints'), before.join())
})

for (const endpointReconcilerType of ['master-count', 'lease'] as const) {
  test(`with ${endpointReconcilerType} the only master stays listed if its server is silent for a moment when it stops`, async () => {
    const { time, api, start } = setUp()
    let answer: ReadinessAnswer = ready
    const readiness = { probe: async () => answer, answers: async () => true }
    const master = start({ endpointReconcilerType }, { readiness })
    await time.advance(20_000)
    answer = { answered: false, reason: 'no answer within 3000 ms' }
    await master.end()
    const stored = await api.get(endpoints, { namespace: 'default', name: 'kubernetes' })
    assert.deepEqual(addressesIn(stored), ['192.0.2.1'])
  })
}

test('with Lease objects the first master that is back after a power failure does not leave because of dead masters', async () => {
  const { time, api, start } = setUp()
  const masters = [start({ onShutdown: 'keep' }), start({ onShutdown: 'keep', advertiseAddress: '192.0.2.2' })]
  await time.advance(30_000)
  for (const { stop } of masters) stop.abort()
  await time.advance(3_600_000)
  const back = start()
  await time.advance(5_000)
  await back.end()
  const stored = await api.get(endpoints, { namespace: 'default', name: 'kubernetes' })
  assert.ok(addressesIn(stored).includes('192.0.2.1'))
})

test('with Lease objects a master leaves right after its start, although the clocks of the hosts differ by an hour', async () => {
  const { time, api, start } = setUp()
  const other = start({ advertiseAddress: '192.0.2.2' }, { clock: time.view({ skewMs: -3_600_000 }) })
  await time.advance(30_000)
  const master = start()
  await time.advance(2_000)
  master.stop.abort()
  await time.advance(2_000)
  const stored = await api.get(endpoints, { namespace: 'default', name: 'kubernetes' })
  assert.deepEqual(addressesIn(stored), ['192.0.2.2'])
  await master.ended
  await other.end()
})
