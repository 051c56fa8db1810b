import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EtcdError } from '../../../src/etcd/kv.ts'
import { MemoryEtcd } from '../../../src/etcd/memory-etcd.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { KubeError, type KubeErrorCode } from '../../../src/kube/errors.ts'
import type { ServerProbe } from '../../../src/kube/http-probe.ts'
import type { ReadinessAnswer } from '../../../src/kube/readiness.ts'
import {
  type EndpointSlice,
  endpointSlices,
  endpoints,
  type KubeObject,
  leases,
  namespaces,
  nodes,
  type Resource,
  type Service,
  serviceCidrs,
  services,
} from '../../../src/kube/resources.ts'
import { type ClusterSource, readCluster } from '../../../src/verify/cluster/read-cluster.ts'
import type { Part, PartName, Parts } from '../../../src/verify/cluster/state.ts'
import { setUp } from '../../bootstrap/masters-world.ts'
import { passedOn } from '../../kube/passed-on.ts'

const { signal } = new AbortController()
const DEFAULT = { namespace: 'default', name: 'kubernetes' }

/** An API server with the namespaces `default` and `another` and a range of ClusterIPs, and functions that read it. */
async function serving() {
  const { time, api } = setUp()
  for (const name of ['default', 'another']) await api.create(namespaces, { metadata: { name } })
  await api.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs: ['10.96.0.0/24'] } })
  const clock = time.view()
  const read = async <Name extends PartName>(name: Name, source: Partial<ClusterSource> = {}, end = signal) =>
    (await readCluster({ api, clock, ...source }, [name], end))[name] as Part<Parts[Name]>
  /** Reads a part, and asserts that it could be read. */
  const value = async <Name extends PartName>(name: Name, source?: Partial<ClusterSource>): Promise<Parts[Name]> => {
    const part = await read(name, source)
    assert.ok(part.type === 'read', JSON.stringify(part))
    return part.value
  }
  return { time, api, clock, read, value }
}

/** The same API, in which these lists, or all creations, fail. */
function failing(api: KubeApi, error: Error, ...of: readonly (Resource<KubeObject> | 'create')[]): KubeApi {
  return passedOn(api, {
    list: async (resource, query) => {
      if (of.some((one) => one !== 'create' && one.plural === resource.plural)) throw error
      return api.list(resource, query)
    },
    create: async (resource, object, options) => {
      if (of.includes('create')) throw error
      return api.create(resource, object, options)
    },
  })
}

const kubeError = (code: KubeErrorCode, httpStatus = 0): KubeError =>
  new KubeError(code, `it is ${code}`, { httpStatus })

test('a forbidden or unserved part is unread with the reason; any other failure rejects', async () => {
  const { api, read } = await serving()
  for (const [error, expected] of [
    [kubeError('Forbidden'), { type: 'unread', reason: 'it is Forbidden' }],
    [kubeError('BadRequest'), { type: 'unread', reason: 'it is BadRequest' }],
    [kubeError('NotFound'), { type: 'unread', reason: 'the server does not have it: it is NotFound', isServed: false }],
  ] as const) {
    assert.deepEqual(await read('services', { api: failing(api, error, services) }), expected)
  }
  for (const code of ['Unauthorized', 'Unreachable', 'ServerError'] as const) {
    await assert.rejects(read('services', { api: failing(api, kubeError(code), services) }), { code })
  }
  await assert.rejects(read('services', { api: failing(api, new TypeError('a bug'), services) }), TypeError)
})

test('a part that needs a flag is unread without it, and the reason names what is missing', async () => {
  const { read } = await serving()
  for (const [name, reason] of [
    ['readinessChecks', '/readyz is not known'],
    ['rangeAllocations', 'give --etcd-servers'],
    ['serverProbes', 'give --probe'],
    ['objectWrites', 'give --watch-writers'],
  ] as const) {
    assert.deepEqual(await read(name), { type: 'unread', reason })
  }
})

test('several parts are read in one call, and an unread one does not affect the others', async () => {
  const { api, clock } = await serving()
  const source = { api: failing(api, kubeError('Forbidden'), services), clock }
  const { services: unread, nodesServed, ...others } = await readCluster(source, ['services', 'nodesServed'], signal)
  assert.equal(unread?.type, 'unread')
  assert.deepEqual(nodesServed, { type: 'read', value: true })
  assert.deepEqual(others, {})
})

test('when one part fails, the reads of the others are aborted', async () => {
  const { time, api, clock } = await serving()
  const seen: AbortSignal[] = []
  const watch: KubeApi['watch'] = (resource, query) => {
    seen.push(query.signal)
    return api.watch(resource, query)
  }
  let fail: (error: Error) => void = () => {}
  const list: KubeApi['list'] = (resource, query) =>
    resource.plural === 'nodes' ? new Promise((_, reject) => (fail = reject)) : api.list(resource, query)
  const source = { api: passedOn(api, { watch, list }), clock, watchMs: 60_000 }
  const reading = readCluster(source, ['objectWrites', 'nodes'], signal)
  const rejected = assert.rejects(reading, { code: 'ServerError' })
  await time.runUntil(() => seen.length === 3, 1_000)
  assert.deepEqual(
    seen.map(({ aborted }) => aborted),
    [false, false, false],
  )
  fail(kubeError('ServerError'))
  await rejected
  assert.deepEqual(
    seen.map(({ aborted }) => aborted),
    [true, true, true],
  )
})

test('an interrupted read rejects with the reason of the abort', async () => {
  const { read } = await serving()
  const stop = new AbortController()
  const reading = read('objectWrites', { watchMs: 60_000 }, stop.signal)
  const reason = new Error('stopped')
  stop.abort(reason)
  await assert.rejects(reading, reason)
})

test('nodesServed is true or false; a failed request gives neither', async () => {
  const { api, read, value } = await serving()
  assert.equal(await value('nodesServed'), true)
  assert.equal(await value('nodesServed', { api: failing(api, kubeError('NotFound'), nodes) }), false)
  assert.equal((await read('nodesServed', { api: failing(api, kubeError('Forbidden'), nodes) })).type, 'unread')
  await assert.rejects(read('nodesServed', { api: failing(api, kubeError('Unreachable'), nodes) }))
})

test('namespaces are read by name, with no details but their deletionTimestamp', async () => {
  const { api, value } = await serving()
  const leaving = passedOn(api, {
    list: async (resource, query) => {
      const { items, ...rest } = await api.list(resource, query)
      const deletionTimestamp = '2026-01-01T00:00:00Z'
      return { ...rest, items: items.map((item) => ({ ...item, metadata: { ...item.metadata, deletionTimestamp } })) }
    },
  })
  assert.deepEqual(
    [...(await value('namespaces'))],
    [
      ['another', { metadata: { name: 'another' } }],
      ['default', { metadata: { name: 'default' } }],
    ],
  )
  const [[, first] = []] = await value('namespaces', { api: leaving })
  assert.deepEqual(first, { metadata: { name: 'another', deletionTimestamp: '2026-01-01T00:00:00Z' } })
})

test('long lists are read in pages of 100 without managed fields', async () => {
  const { api, value } = await serving()
  const asked: object[] = []
  const list: KubeApi['list'] = (resource, query) => {
    asked.push({ limit: query?.limit, drops: query?.dropsManagedFields, more: query?.continue !== undefined })
    return api.list(resource, query)
  }
  for (let index = 0; index < 120; index++) {
    await api.create(services, { metadata: { namespace: 'another', name: `s-${index}` }, spec: { clusterIP: 'None' } })
  }
  assert.equal((await value('services', { api: passedOn(api, { list }) })).length, 120)
  assert.deepEqual(asked, [
    { limit: 100, drops: true, more: false },
    { limit: 100, drops: true, more: true },
  ])
})

test('the kubernetes Service and its Endpoints are read from default, and are undefined if missing', async () => {
  const { api, value } = await serving()
  assert.equal(await value('kubernetesService'), undefined)
  assert.equal(await value('kubernetesEndpoints'), undefined)
  for (const ref of [{ ...DEFAULT, name: 'a' }, { ...DEFAULT, namespace: 'another' }, DEFAULT]) {
    await api.create(services, { metadata: ref, spec: { ports: [{ port: 443 }] } })
    await api.create(endpoints, { metadata: ref, subsets: [] })
  }
  for (const found of [await value('kubernetesService'), await value('kubernetesEndpoints')]) {
    assert.deepEqual([found?.metadata?.namespace, found?.metadata?.name], ['default', 'kubernetes'])
    assert.ok(found?.metadata?.uid !== undefined, 'the lists are complete')
  }
})

function slice(namespace: string, name: string, service?: string): EndpointSlice {
  const labels = service === undefined ? {} : { 'kubernetes.io/service-name': service }
  const endpoints = [{ addresses: ['192.0.2.1'], hints: { forZones: [{ name: 'z' }] } }]
  return { metadata: { namespace, name, labels }, addressType: 'IPv4', endpoints, ports: [] } as EndpointSlice
}

test('the kubernetes slices are the one with that name and all with the label of the Service, each once', async () => {
  const { api, value } = await serving()
  for (const one of [
    slice('default', 'kubernetes', 'kubernetes'),
    slice('default', 'kubernetes-ipv6', 'kubernetes'),
    slice('default', 'web-1', 'web'),
    slice('another', 'foreign', 'kubernetes'),
  ]) {
    await api.create(endpointSlices, one)
  }
  const names = async () =>
    (await value('kubernetesSlices')).map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`)
  assert.deepEqual(await names(), ['default/kubernetes', 'default/kubernetes-ipv6'])
  // Without its label, the slice is still found by its name.
  const live = await api.get(endpointSlices, DEFAULT)
  await api.update(endpointSlices, { ...live, metadata: { ...live.metadata, labels: {} } })
  assert.deepEqual(await names(), ['default/kubernetes', 'default/kubernetes-ipv6'])
  const all = await value('endpointSlices')
  assert.equal(all.length, 4)
  assert.ok(all.every(({ endpoints }) => endpoints?.every(({ hints }) => hints === undefined)))
  assert.deepEqual(all[0]?.endpoints?.[0]?.addresses, ['192.0.2.1'])
})

test('Services are read with all ports and with their healthCheckNodePort and its policy', async () => {
  const { api, value } = await serving()
  const ports = [{ name: 'web', port: 80, protocol: 'TCP', nodePort: 30_080, targetPort: 80 }]
  const spec = { type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 30_090, ports }
  await api.create(services, { metadata: { namespace: 'another', name: 'a' }, spec } as unknown as Service)
  await api.create(services, { metadata: { namespace: 'default', name: 'b' }, spec: { ports: [{ port: 80 }] } })
  const [checked, plain] = await value('services')
  assert.deepEqual(
    checked?.spec?.ports?.map(({ nodePort }) => nodePort),
    [30_080],
  )
  assert.deepEqual([checked?.spec?.healthCheckNodePort, checked?.spec?.externalTrafficPolicy], [30_090, 'Local'])
  assert.equal('healthCheckNodePort' in (plain?.spec ?? {}), false)
  const [address] = await value('ipAddresses')
  assert.deepEqual(Object.keys(address?.metadata ?? {}).sort(), ['creationTimestamp', 'labels', 'name'])
  assert.equal(address?.spec?.parentRef?.name !== undefined, true)
})

test('readinessChecks are the checks in the answer of /readyz, and empty without an answer', async () => {
  const { value } = await serving()
  const checks = [{ name: 'etcd', ok: true }]
  const probing = (answer: ReadinessAnswer) => value('readinessChecks', { readiness: { probe: async () => answer } })
  assert.deepEqual(await probing({ answered: true, ready: false, checks }), checks)
  assert.deepEqual(await probing({ answered: false, reason: 'refused' }), [])
})

test('a dry run creates a Service of each type without storing it; a denial by admission leaves the part unread', async () => {
  const { api, read, value } = await serving()
  const asked: unknown[] = []
  const create: KubeApi['create'] = (resource, object, options) => {
    asked.push([(object as Service).spec?.type, options?.dryRun])
    return api.create(resource, object, options)
  }
  const source = { api: passedOn(api, { create }) }
  assert.deepEqual(await value('clusterIpDryRun', source), { type: 'accepted' })
  assert.deepEqual(await value('nodePortDryRun', source), { type: 'accepted' })
  assert.deepEqual(asked, [
    ['ClusterIP', true],
    ['NodePort', true],
  ])
  assert.deepEqual((await api.list(services)).items, [])
  for (const error of [kubeError('Invalid', 422), kubeError('ServerError', 500)]) {
    const refused = await value('nodePortDryRun', { api: failing(api, error, 'create') })
    assert.deepEqual(refused, { type: 'refused', reason: error.message })
  }
  const denied = `services "x" is forbidden: ValidatingAdmissionPolicy 'no-node-ports' with binding 'all' denied request`
  const webhook = 'admission webhook "a.example.com" denied the request: no Services today'
  for (const text of [denied, webhook]) {
    for (const [code, httpStatus] of [
      ['Invalid', 422],
      ['ServerError', 500],
      ['Conflict', 409],
      ['TooManyRequests', 429],
      ['ServerError', 503],
    ] as const) {
      const denial = new KubeError(code, `create services: ${httpStatus}: ${text}`, { httpStatus })
      const withheld = await read('nodePortDryRun', { api: failing(api, denial, 'create') })
      assert.deepEqual(withheld, { type: 'unread', reason: denial.message })
    }
  }
  await assert.rejects(read('nodePortDryRun', { api: failing(api, kubeError('ServerError', 503), 'create') }))
  assert.equal((await read('nodePortDryRun', { api: failing(api, kubeError('BadRequest'), 'create') })).type, 'unread')
})

test('leases are read from etcd if it is given and leaseStore is not kubernetes, otherwise from the API server', async () => {
  const { api, clock, read, value } = await serving()
  const kv = new MemoryEtcd({ clock }).client()
  await kv.create('/registry/masterleases/192.0.2.1', new Uint8Array(), { signal })
  const etcd = { kv, prefix: '/registry' }
  const found = await value('masterLeases', { etcd })
  assert.equal(found.store, 'etcd')
  assert.deepEqual(
    found.leases.map(({ id }) => id),
    ['/registry/masterleases/192.0.2.1'],
  )
  assert.equal((await value('masterLeases')).store, 'kubernetes')
  const labels = { 'apiserver-bootstrap/component': 'endpoint-reconciler' }
  const asked: unknown[] = []
  const list: KubeApi['list'] = (resource, query) => {
    if (resource.plural === leases.plural) asked.push(query?.namespace)
    return api.list(resource, query)
  }
  const source = { api: passedOn(api, { list }), etcd, leaseStore: 'kubernetes', leaseNamespace: 'another' } as const
  await api.create(leases, { metadata: { namespace: 'another', name: 'a', labels } })
  assert.equal((await value('masterLeases', source)).store, 'kubernetes')
  assert.deepEqual(asked, ['another'])
  const denied = { ...kv, list: () => Promise.reject(new EtcdError('PermissionDenied', 'denied')) }
  for (const name of ['masterLeases', 'rangeAllocations'] as const) {
    const broken = {
      etcd: { ...etcd, kv: new Proxy(kv, { get: () => () => Promise.reject(new EtcdError('Unreachable', 'away')) }) },
    }
    await assert.rejects(read(name, broken), { code: 'Unreachable' })
    const withheld = { etcd: { ...etcd, kv: new Proxy(kv, { get: () => denied.list }) } }
    assert.deepEqual(await read(name, withheld), { type: 'unread', reason: 'denied' })
  }
  const ranges = await value('rangeAllocations', { etcd })
  assert.deepEqual(
    ranges.map(({ stored }) => stored.type),
    ['absent', 'absent', 'absent'],
  )
})

test('servers are probed with the names of the Service, even if the Service and the slices are unreadable', async () => {
  const { api, read, value } = await serving()
  const ports = [{ name: 'https', port: 6443, protocol: 'TCP' }]
  await api.create(endpoints, { metadata: DEFAULT, subsets: [{ addresses: [{ ip: '192.0.2.1' }], ports }] })
  await api.create(services, { metadata: DEFAULT, spec: { clusterIP: '10.96.0.7', ports: [{ port: 443 }] } })
  const six = { ...slice('default', 'kubernetes-ipv6', 'kubernetes'), addressType: 'IPv6', ports } as EndpointSlice
  await api.create(endpointSlices, { ...six, endpoints: [{ addresses: ['2001:db8::1'] }] })
  const ask: ServerProbe = async () => ({ type: 'none', reason: 'no' })
  const probe = { ask, targets: new Map() }
  const addresses = async (error?: Error, ...of: readonly Resource<KubeObject>[]) => {
    const found = await value('serverProbes', { api: error === undefined ? api : failing(api, error, ...of), probe })
    return found.map(({ address, names }) => `${address} as ${names.filter((name) => name !== address).join(' ')}`)
  }
  const dns = 'kubernetes.default.svc'
  assert.deepEqual(await addresses(), [`192.0.2.1 as 10.96.0.7 ${dns}`, `2001:db8::1 as 10.96.0.7 ${dns}`])
  assert.deepEqual(await addresses(kubeError('Forbidden'), services, endpointSlices), [`192.0.2.1 as ${dns}`])
  const blind = { api: failing(api, kubeError('Forbidden'), endpoints), probe }
  assert.equal((await read('serverProbes', blind)).type, 'unread')
  await assert.rejects(read('serverProbes', { api: failing(api, kubeError('Unreachable'), services), probe }))
})

test('writes are watched for exactly watchMs', async () => {
  const { time, value } = await serving()
  let ended = false
  const reading = value('objectWrites', { watchMs: 5_000 }).finally(() => {
    ended = true
  })
  await time.advance(4_999)
  assert.equal(ended, false)
  await time.advance(1)
  const { forMs, states } = await reading
  assert.equal(forMs, 5_000)
  assert.deepEqual([...states.values()], [[undefined], [undefined], [undefined]])
})
