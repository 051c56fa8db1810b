import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Namespace, Service, ServiceCidr } from '../../src/kube/resources.ts'
import type { ApiClient } from '../peers/api-client.ts'
import { serviceRange, startApiserver } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import { startEtcd } from '../peers/etcd.ts'
import { kubectlFor } from '../peers/kubectl.ts'
import { paths, readState, whenRight } from '../peers/kubernetes-service.ts'
import { openOwner } from '../peers/owner.ts'
import { startMaster } from '../peers/program.ts'
import { untilPasses } from '../peers/until.ts'

const systemNamespaces = ['default', 'kube-node-lease', 'kube-public', 'kube-system']
const bootstrapBoundMs = 30_000

test('a master turns an API server without bootstrap hooks into a cluster that kubectl can use', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const kubectl = kubectlFor(owner, server.kubeconfig)
  const createService = (name: string) => kubectl('create', 'service', 'clusterip', name, '--tcp=80')

  assert.notEqual((await createService('early')).code, 0)
  assert.deepEqual(await readState(server.api), { service: undefined, endpoints: undefined, slices: [] })

  await startMaster(owner, server, { address: '192.0.2.1' })
  await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, bootstrapBoundMs)
  assert.deepEqual(await activeNamespaces(server.api), systemNamespaces)
  const cidr = await untilPasses('the ServiceCIDR to be Ready', () => readyServiceCidr(server.api), { withinMs: 5000 })
  assert.deepEqual(cidr.spec?.cidrs, [serviceRange])

  const created = await createService('x')
  assert.equal(created.code, 0, created.stderr)
  const listed = await kubectl('get', 'services,endpoints,endpointslices', '--no-headers')
  assert.match(listed.stdout, /^service\/kubernetes +ClusterIP +10\.96\.0\.1 +<none> +443\/TCP /m)
  assert.match(listed.stdout, /^service\/x +ClusterIP +10\.\d+\.\d+\.\d+ /m)
  assert.match(listed.stdout, new RegExp(`^endpoints/kubernetes +192\\.0\\.2\\.1:${server.port} `, 'm'))
  assert.match(listed.stdout, new RegExp(`endpointslice\\S*/kubernetes +IPv4 +${server.port} +192\\.0\\.2\\.1 `, 'm'))
})

test('a master that starts before its API server bootstraps it once it answers', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  await server.kill()
  const master = await startMaster(owner, server, { address: '192.0.2.1' })
  await sleep(3000)
  master.assertRunning()
  await server.start()
  await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, bootstrapBoundMs)
})

test('a master with administrator rights bootstraps a server with RBAC', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare', authorization: 'RBAC' })
  await startMaster(owner, server, { address: '192.0.2.1' })
  await whenRight(server.api, { addresses: ['192.0.2.1'], port: server.port }, bootstrapBoundMs)
})

test('a dry run on an empty server logs what it would create and creates nothing', async (t) => {
  const owner = openOwner(t)
  const { server } = await startCluster(owner, { kind: 'bare' })
  const master = await startMaster(owner, server, { address: '192.0.2.1', flags: ['--dry-run'] })
  await master.waitForLog(/kube-public/, bootstrapBoundMs)
  await sleep(3000)
  master.assertRunning()
  assert.equal(await server.api.find<Namespace>(`${paths.namespaces}/kube-public`), undefined)
  assert.equal(await server.api.find<ServiceCidr>(paths.serviceCidr), undefined)
  assert.equal((await readState(server.api)).service, undefined)
  assert.deepEqual(await master.stop(), { code: 0, signal: null })
})

test('two masters that start together on an empty store are both listed and create one Service', async (t) => {
  const owner = openOwner(t)
  const etcd = await startEtcd(owner)
  const [first, second] = await Promise.all(
    [1, 2].map((number) => startApiserver(owner, { kind: 'bare', etcd, advertiseAddress: `192.0.2.${number}` })),
  )
  assert.ok(first !== undefined && second !== undefined)
  const securePort = 6443
  await Promise.all([
    startMaster(owner, first, { address: '192.0.2.1', securePort }),
    startMaster(owner, second, { address: '192.0.2.2', securePort }),
  ])
  const state = await whenRight(
    first.api,
    { addresses: ['192.0.2.1', '192.0.2.2'], port: securePort },
    bootstrapBoundMs,
  )
  await sleep(2000)
  const later = await first.api.get<Service>(paths.service)
  assert.equal(later.metadata?.uid, state.service?.metadata?.uid)
})

async function activeNamespaces(api: ApiClient): Promise<readonly (string | undefined)[]> {
  const { items } = await api.get<{ readonly items: readonly Namespace[] }>(paths.namespaces)
  return items.filter((namespace) => namespace.status?.phase === 'Active').map((namespace) => namespace.metadata?.name)
}

async function readyServiceCidr(api: ApiClient): Promise<ServiceCidr> {
  const cidr = await api.get<ServiceCidr>(paths.serviceCidr)
  const ready = cidr.status?.conditions?.find((condition) => condition.type === 'Ready')
  if (ready?.status !== 'True') throw new Error(`Ready is ${JSON.stringify(ready)}`)
  return cidr
}
