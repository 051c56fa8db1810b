import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createApiServer, inProcessTransport } from '../../../src/apiserver/api-server.ts'
import { writeStaticList } from '../../../src/drill/listings.ts'
import type { Cluster } from '../../../src/drill/live/cluster.ts'
import { whenUnoccupied } from '../../../src/drill/live/found-state.ts'
import { endpointSlices, endpoints } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import { KUBERNETES_SERVICE } from '../../../src/kubernetes-service/identity.ts'
import type { InspectedLease, LeaseLife } from '../../../src/kubernetes-service/masters/inspection.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { systemClock } from '../../../src/runtime/system-clock.ts'

const { signal } = new AbortController()

function lease(life: LeaseLife, revision = '1'): InspectedLease {
  return { id: 'a key', revision, address: '203.0.113.5', holders: [], leased: true, odd: [], life }
}

/**
 * A cluster with an etcd, where the leases are in `leaseStore`. Its reads of the leases return `readings` one after the
 * other, and then no leases.
 */
function clusterOf(
  readings: readonly (readonly InspectedLease[])[],
  readyz = '[+]ping ok',
  leaseStore: Cluster['leaseStore'] = 'kubernetes',
): Cluster {
  const options = { clock: systemClock, random: seededRandom(1, 'server') }
  const api = restKubeApi({ transport: inProcessTransport(createApiServer(options)), ...options })
  const left = [...readings]
  const leases = { inspect: async () => left.shift() ?? [], evict: async () => false }
  const etcd = { prefix: '/registry' }
  return { api, etcd, leaseStore, leases, readyz: async () => ({ status: 200, text: readyz }) } as unknown as Cluster
}

async function logOf(cluster: Cluster): Promise<readonly string[]> {
  const lines: string[] = []
  await whenUnoccupied(cluster, { clock: systemClock, log: (line) => lines.push(line), signal })
  return lines
}

test('a drill begins at once if nobody maintains the list', async () => {
  assert.deepEqual(await logOf(clusterOf([])), [])
})

test('a drill waits until left-over leases have ended, and logs that it waits', async () => {
  const dying = [lease({ type: 'ends', leftMs: 1_000 })]
  assert.match((await logOf(clusterOf([dying, dying, []]))).join('\n'), /^waiting for .*203\.0\.113\.5$/)
})

test('a drill is refused if leases are renewed or never end', async () => {
  const renewed = clusterOf([[lease({ type: 'ends', leftMs: 5_000 })], [lease({ type: 'ends', leftMs: 15_000 }, '2')]])
  await assert.rejects(logOf(renewed), { code: 'DrillFailed', message: /203\.0\.113\.5/ })
  const eternal = [lease({ type: 'never' })]
  const everlasting = clusterOf(Array.from({ length: 50 }, () => eternal))
  await assert.rejects(logOf(everlasting), { code: 'DrillFailed', message: /never end.*masters evict/ })
})

test('a drill with Lease objects is refused if the API server itself maintains the list, even if it has an etcd', async () => {
  const own = '[+]poststarthook/bootstrap-controller ok'
  const listing = clusterOf([], own)
  await writeStaticList(listing.api, ['10.0.0.1'])
  await assert.rejects(logOf(listing), { code: 'DrillFailed', message: /10\.0\.0\.1.*reconciler-type=none/ })
  assert.deepEqual(await logOf(clusterOf([], own)), [], 'it lists nobody: its reconciler is none')
  const leaseless = clusterOf([], own, 'etcd')
  await writeStaticList(leaseless.api, ['10.0.0.1'])
  assert.deepEqual(await logOf(leaseless), [], 'it would have a lease in the etcd of the drill')
})

test('a drill is refused if the list is that of another drill, or of a master at an address of an example', async () => {
  const drilled = clusterOf([])
  await writeStaticList(drilled.api, ['10.0.0.1', '192.0.2.1'])
  await assert.rejects(logOf(drilled), {
    code: 'DrillFailed',
    message:
      / lists 192\.0\.2\.1, as masters of drills and of examples do: wait .*, or stop that master; if neither runs, /,
  })
})

test('a drill is refused if a killed drill left its EndpointSlice, even without Endpoints', async () => {
  const drilled = clusterOf([])
  await writeStaticList(drilled.api, ['192.0.2.1'])
  await drilled.api.delete(endpoints, KUBERNETES_SERVICE)
  await assert.rejects(logOf(drilled), {
    code: 'DrillFailed',
    message:
      / lists 192\.0\.2\.1, as masters of drills and of examples do: wait .*, or stop that master; if neither runs, /,
  })
})

test('a drill is refused if a killed drill left its second EndpointSlice, and the error names the slice', async () => {
  const drilled = clusterOf([])
  await writeStaticList(drilled.api, ['10.0.0.1'])
  await drilled.api.create(endpointSlices, {
    metadata: {
      namespace: 'default',
      name: 'kubernetes-ipv6',
      labels: { 'kubernetes.io/service-name': 'kubernetes' },
    },
    addressType: 'IPv6',
    endpoints: [{ addresses: ['2001:db8::1'] }],
    ports: [],
  })
  const message = / lists 2001:db8::1, .*; if neither runs, delete the Endpoints .*kubernetes-ipv6/
  await assert.rejects(logOf(drilled), { code: 'DrillFailed', message })
})
