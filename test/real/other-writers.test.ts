import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { errors } from 'undici'
import type { EndpointSlice, Endpoints, KubeEvent, Lease, Service } from '../../src/kube/resources.ts'
import { type ApiClient, ApiFailure } from '../peers/api-client.ts'
import { startCluster } from '../peers/cluster.ts'
import { paths, whenRight } from '../peers/kubernetes-service.ts'
import { type Owner, openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

const address = '192.0.2.1'
const everyMs = 50
/** How long the other writers continue after the master has backed off from all of them. */
const goOnMs = 10_000
/**
 * How often the master may correct an object in that time. If it corrected every overwrite, there would be far more
 * corrections.
 */
const most = 40

type ListOf<T> = { readonly items: readonly T[] }

async function eventsOf(api: ApiClient, reason: string): Promise<readonly KubeEvent[]> {
  const { items } = await api.get<ListOf<KubeEvent>>('/apis/events.k8s.io/v1/namespaces/default/events')
  return items.filter((event) => event.reason === reason)
}

/**
 * Repeats `work` until the signal is aborted. Ignores objects that are gone or changed, and requests that fail because
 * the server closes the connection just as they are sent.
 */
async function keepDoing(work: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await work().catch((error: unknown) => {
      const isChanged = error instanceof ApiFailure && (error.status === 404 || error.status === 409)
      if (!isChanged && !(error instanceof errors.SocketError)) throw error
    })
    await sleep(everyMs)
  }
}

/** Counts the observed versions of an object that have this property. */
function follow<T>(owner: Owner, api: ApiClient, collection: string, isRight: (object: T) => boolean): () => number {
  let count = 0
  const stop = new AbortController()
  owner.after(() => stop.abort())
  void api.watch<T>(
    `${collection}?fieldSelector=metadata.name%3Dkubernetes`,
    ({ type, object }) => {
      if (type !== 'BOOKMARK' && type !== 'DELETED' && isRight(object)) count += 1
    },
    stop.signal,
  )
  return () => count
}

test('the master backs off from writers that undo its four objects every 50 ms, and reports each of them once', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const { api } = server
  const master = await startMaster(owner, server, { address })
  const right = { addresses: [address], port: server.port }
  await whenRight(api, right, 30_000)
  const written = {
    Endpoints: follow<Endpoints>(owner, api, '/api/v1/namespaces/default/endpoints', ({ subsets }) =>
      (subsets ?? []).some(({ addresses }) => addresses?.some(({ ip }) => ip === address)),
    ),
    EndpointSlice: follow<EndpointSlice>(owner, api, paths.slices, () => true),
    Service: follow<Service>(owner, api, paths.services, ({ spec }) => spec?.ports?.[0]?.port === 443),
    Lease: () => leasesTaken,
  }
  let leasesTaken = 0
  const counts = () => Object.entries(written).map(([kind, count]) => [kind, count()] as const)
  const foreign = {
    addresses: [{ ip: '198.51.100.1' }],
    ports: [{ name: 'https', port: server.port, protocol: 'TCP' }],
  }
  const undo = [
    () => api.merge(`${paths.endpoints}?fieldManager=mangler`, { subsets: [foreign] }),
    () => api.delete(paths.slice),
    () =>
      api.merge(`${paths.service}?fieldManager=mangler`, {
        spec: { ports: [{ name: 'x', port: 8443, targetPort: 1 }] },
      }),
    async () => {
      const { items } = await api.get<ListOf<Lease>>(
        `${paths.leases}?labelSelector=apiserver-bootstrap%2Flease%3Dmaster`,
      )
      if (items[0] === undefined) return
      leasesTaken += 1
      await api.delete(`${paths.leases}/${items[0].metadata?.name}`)
    },
  ]
  const end = new AbortController()
  const fights = undo.map((work) => keepDoing(work, end.signal))
  // A busy machine needs longer for the ten corrections within ten seconds that make a fight.
  const foughtFromMs = performance.now()
  await untilPasses('four fights', () => assert.equal(master.logged(/; backing off/).length, 4), { withinMs: 120_000 })
  const before = counts()
  await sleep(goOnMs)
  const after = counts()
  end.abort()
  await Promise.all(fights)
  // An interval between corrections is at most an eighth of the fight.
  await whenRight(api, right, 5_000 + (performance.now() - foughtFromMs) / 8)

  after.forEach(([kind, count], index) => {
    const corrected = count - (before[index]?.[1] ?? 0)
    t.diagnostic(`${kind}: ${corrected} corrections in ${goOnMs / 1000} s`)
    assert.ok(corrected > 0 && corrected <= most, `${kind} was corrected ${corrected} times`)
  })

  const recorded = await untilPasses(
    'the events',
    async () => {
      const events = [...(await eventsOf(api, 'ForeignOverwrite')), ...(await eventsOf(api, 'LeaseContested'))]
      assert.equal(events.length, 4, JSON.stringify(events.map(({ note }) => note)))
      return events
    },
    { withinMs: 10_000 },
  )
  const notes = new Map(recorded.map(({ reason, regarding, note }) => [`${reason} ${regarding?.kind}`, note]))
  assert.match(notes.get('ForeignOverwrite Endpoints') ?? '', /field manager mangler/)
  assert.match(notes.get('ForeignOverwrite Service') ?? '', /field manager mangler/)
  assert.match(notes.get('ForeignOverwrite EndpointSlice') ?? '', /without a trace/)
  assert.match(notes.get('LeaseContested Endpoints') ?? '', /lease of 192\.0\.2\.1/)
  assert.deepEqual(master.logged(/lost the API server|refuses a request|operation failed/), [])

  // Quiet again: the program repairs one more damage as quickly as ever.
  await untilPasses(
    'the ends of four fights',
    () => assert.equal(master.logged(/other writers no longer overwrite|no other client deletes/).length, 4),
    {
      withinMs: 30_000,
    },
  )
  await api.delete(paths.slice)
  await whenRight(api, right, 2_000)
})

test('a kube-apiserver that reconciles beside another lease store is reported once with its flag', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'stock', advertiseAddress: '192.0.2.250' })
  const master = await startMaster(owner, server, { address, flags: ['--lease-store=kubernetes'] })
  const [event] = await untilPasses(
    'the event',
    async () => {
      const events = await eventsOf(server.api, 'OtherReconcilerActive')
      assert.equal(events.length, 1)
      return events
    },
    { withinMs: 60_000 },
  )
  assert.equal(event?.type, 'Warning')
  assert.equal(event?.regarding?.kind, 'Endpoints')
  assert.match(
    event?.note ?? '',
    /^kube-apiserver overwrites .*--endpoint-reconciler-type=none, or give this program --etcd-servers/,
  )
  await sleep(12_000)
  assert.equal((await eventsOf(server.api, 'OtherReconcilerActive')).length, 1)
  assert.equal(master.logged(/endpoint-reconciler-type=none/).length, 1)
  assert.deepEqual(await eventsOf(server.api, 'ForeignOverwrite'), [])
})

test('a kube-apiserver that reconciles on the same etcd is not reported as another writer', async (t) => {
  const owner = openOwner(t)
  const { etcd, server } = await startCluster(owner, { kind: 'stock', advertiseAddress: '192.0.2.250' })
  const master = await startMaster(owner, server, { address, flags: [`--etcd-servers=${etcd.url}`] })
  await whenRight(server.api, { addresses: [address, '192.0.2.250'], port: server.port }, 30_000)
  await sleep(25_000)
  await whenRight(server.api, { addresses: [address, '192.0.2.250'], port: server.port }, 1_000)
  for (const reason of ['OtherReconcilerActive', 'ForeignOverwrite', 'KubernetesServiceReset']) {
    assert.deepEqual(await eventsOf(server.api, reason), [])
  }
  assert.deepEqual(master.logged(/endpoint-reconciler-type|keeps overwriting/), [])
})
