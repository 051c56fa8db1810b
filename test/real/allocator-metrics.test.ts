import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { startApiServer } from '../../src/testing.ts'
import { allocationPaths, serviceNamed } from '../peers/allocations.ts'
import { ApiClient } from '../peers/api-client.ts'
import { startCluster } from '../peers/cluster.ts'
import { openOwner } from '../peers/owner.ts'
import { untilPasses } from '../peers/until.ts'

const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } }
const serviceCidr = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'ServiceCIDR',
  metadata: { name: 'kubernetes' },
  spec: { cidrs: ['10.96.0.0/24'] },
}

/** The values of the allocators' metrics, by name and labels. Histograms of latency are left out. */
async function samplesOf(api: ApiClient): Promise<ReadonlyMap<string, number>> {
  const { body } = await api.send('GET', '/metrics')
  const found = String(body).matchAll(
    /^(kube_apiserver_(?:clusterip|nodeport)_allocator_(?!allocation_duration)\S+) (\S+)$/gm,
  )
  return new Map([...found].map(([, name = '', value]) => [name, Number(value)]))
}

/** Creates and deletes Services that get, choose or contend for addresses and ports. Returns the answers' statuses. */
async function allocate(api: ApiClient): Promise<readonly number[]> {
  const statuses: number[] = []
  const create = async (name: string, spec: object, query = ''): Promise<void> => {
    const body = serviceNamed(name, { ports: [{ port: 80 }], ...spec })
    statuses.push((await api.send('POST', `${allocationPaths.services}${query}`, { body })).status)
  }
  await create('a', {})
  await create('b', { clusterIP: '10.96.0.9' })
  await create('c', { clusterIP: '10.96.0.9' })
  await create('d', { clusterIP: '192.0.2.1' })
  await create('e', { type: 'NodePort' })
  await create('f', { type: 'NodePort', ports: [{ port: 80, nodePort: 30_100 }] })
  await create('g', { type: 'NodePort', ports: [{ port: 80, nodePort: 30_100 }] })
  await create('h', {}, '?dryRun=All')
  const lb = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' }
  await create('i', { ...lb, ports: [80, 81].map((port) => ({ name: `p${port}`, port })) })
  await create('j', { ...lb, healthCheckNodePort: 30_101, allocateLoadBalancerNodePorts: false })
  const protocols = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), port: 53, protocol }))
  await create('k', { type: 'NodePort', ports: protocols })
  await create('l', { type: 'NodePort', ports: protocols.map((port) => ({ ...port, nodePort: 30_102 })) })
  for (const name of ['a', 'f']) await api.delete(`${allocationPaths.services}/${name}`)
  return statuses
}

/** Counters as differences, gauges as they are. */
function changes(after: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>): Record<string, number> {
  const names = [...after.keys()].sort()
  return Object.fromEntries(
    names.map((name) => [name, (after.get(name) ?? 0) - (name.includes('_total') ? (before.get(name) ?? 0) : 0)]),
  )
}

test('the metrics of the embedded allocators change as those of kube-apiserver do', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'stock', flags: ['--service-cluster-ip-range=10.96.0.0/24'] })
  await using embedded = await startApiServer({ serviceAllocators: 'own', objects: [namespace, serviceCidr] })
  const { url, certificate: ca, token } = embedded
  const own = new ApiClient({ url, ca, token })
  owner.after(() => own.close())
  // Both have the same Service when the comparison begins.
  const kubernetes = { metadata: { name: 'kubernetes' }, spec: { clusterIP: '10.96.0.1', ports: [{ port: 443 }] } }
  await own.create(allocationPaths.services, kubernetes)
  const path = `${allocationPaths.services}/kubernetes`
  const isThere = async (): Promise<void> => void (await server.api.get(path))
  await untilPasses('kube-apiserver has its own Service', isThere, { withinMs: 20_000 })
  const [ownBefore, theirsBefore] = [await samplesOf(own), await samplesOf(server.api)]
  assert.deepEqual(await allocate(own), await allocate(server.api))
  assert.ok(Object.keys(changes(await samplesOf(own), ownBefore)).length >= 10)
  await untilPasses(
    'the metrics of kube-apiserver show the same changes',
    async () => {
      const theirs = changes(await samplesOf(server.api), theirsBefore)
      const ours = changes(await samplesOf(own), ownBefore)
      if (!isDeepStrictEqual(theirs, ours)) {
        // kube-apiserver sets its gauges only when it allocates or releases, from a cache that may lag behind.
        for (const api of [own, server.api]) {
          await api.create(allocationPaths.services, serviceNamed('again', { ports: [{ port: 80 }] }))
          await api.delete(`${allocationPaths.services}/again`)
        }
      }
      assert.deepEqual(theirs, ours)
    },
    { withinMs: 20_000 },
  )
})
