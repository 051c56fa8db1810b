import type { EtcdKv } from '../../../src/etcd/kv.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { isKubeError } from '../../../src/kube/errors.ts'
import {
  endpointSlices,
  endpoints,
  ipAddresses,
  type Lease,
  leases,
  namespaces,
  serviceCidrs,
  services,
} from '../../../src/kube/resources.ts'
import { HOLDER_ANNOTATION } from '../../../src/kubernetes-service/leases/trimmed-lease.ts'
import { Bitmap } from '../../../src/net/bitmap.ts'
import { parsePortRange } from '../../../src/net/host-port.ts'
import { EtcdRangeRegistry } from '../../../src/repair/registries/etcd.ts'
import type { CheckId } from '../../../src/verify/cluster/check-ids.ts'
import type { KubeObject, Resource } from './resources.ts'

/** One kind of damage to a cluster, which exactly one check must find. */
export interface Damage {
  readonly name: string
  readonly check: CheckId
  readonly inflict: (api: KubeApi, etcd: EtcdKv) => Promise<unknown>
  /** Its repair takes minutes of real time. */
  readonly isSlow?: true
  /** The check finds it only when it is this old, in milliseconds, by the times in the objects. */
  readonly visibleAfterMs?: number
  /** The printed command is complete only if a flag gives the range. */
  readonly expectsRange?: true
}

const kubernetes = { namespace: 'default', name: 'kubernetes' } as const

function patch(resource: Resource, body: unknown) {
  return (api: KubeApi) => api.patch(resource, kubernetes, { type: 'merge', body })
}

function remove(resource: Resource) {
  return (api: KubeApi) => api.delete(resource, kubernetes)
}

function changed<T extends KubeObject>(resource: Resource, change: (object: T) => T) {
  return async (api: KubeApi) => {
    const object = (await api.get(resource, kubernetes)) as T
    return api.update(resource, change(object))
  }
}

const https = { name: 'https', protocol: 'TCP' }

/** Gives default/kubernetes another ClusterIP. */
async function moveService(api: KubeApi): Promise<void> {
  const { spec } = await api.get(services, kubernetes)
  const listed = await api.get(endpoints, kubernetes)
  await api.delete(services, kubernetes)
  const labels = { component: 'apiserver', provider: 'kubernetes' }
  const clusterIP = `${spec?.clusterIP?.replace(/\.\d+$/, '')}.9`
  const next = { type: 'ClusterIP', clusterIP, ports: spec?.ports }
  await api.create(services, { metadata: { ...kubernetes, labels }, spec: next } as never)
  // A real server deletes them with the Service.
  const { resourceVersion: _, uid: __, ...metadata } = listed.metadata ?? {}
  await api.create(endpoints, { ...listed, metadata }).catch((error: unknown) => {
    if (!isKubeError(error, 'AlreadyExists')) throw error
  })
}

async function takeClusterIp(api: KubeApi, clusterIP: string | undefined): Promise<void> {
  const metadata = { namespace: 'default', generateName: 'taker-' }
  await api.create(services, { metadata, spec: { clusterIP, ports: [{ port: 80 }] } } as never)
}

/** Damage to the namespaces and to default/kubernetes. */
const kubernetesDamages: readonly Damage[] = [
  {
    name: 'the namespace kube-node-lease is deleted',
    check: 'system-namespaces',
    inflict: (api) => api.delete(namespaces, { name: 'kube-node-lease' }),
  },
  { name: 'the Service is deleted', check: 'kubernetes-service', inflict: remove(services) },
  {
    name: 'the Service has another port',
    check: 'kubernetes-service',
    inflict: patch(services, { spec: { ports: [{ ...https, port: 8443, targetPort: 6443 }] } }),
  },
  {
    name: 'the Service has another targetPort',
    check: 'kubernetes-service',
    inflict: patch(services, { spec: { ports: [{ ...https, port: 443, targetPort: 1 }] } }),
  },
  {
    name: 'the Service has an additional port',
    check: 'kubernetes-service',
    inflict: changed<KubeObject & { spec: { ports: object[] } }>(services, (service) => ({
      ...service,
      spec: { ...service.spec, ports: [...service.spec.ports, { name: 'more', port: 80, protocol: 'TCP' }] },
    })),
  },
  {
    name: 'the Service has a selector',
    check: 'kubernetes-service',
    inflict: patch(services, { spec: { selector: { app: 'other' } } }),
  },
  {
    name: 'the Service is of type LoadBalancer',
    check: 'kubernetes-service',
    inflict: patch(services, { spec: { type: 'LoadBalancer', allocateLoadBalancerNodePorts: false } }),
  },
  {
    name: 'the Service is of type LoadBalancer and accepts only some clients',
    check: 'kubernetes-service',
    inflict: patch(services, {
      metadata: { annotations: { 'service.beta.kubernetes.io/load-balancer-source-ranges': '192.0.2.0/24' } },
      spec: {
        type: 'LoadBalancer',
        allocateLoadBalancerNodePorts: false,
        loadBalancerSourceRanges: ['192.0.2.0/24'],
      },
    }),
  },
  {
    name: 'the Service is of type ExternalName',
    check: 'kubernetes-service',
    inflict: patch(services, {
      spec: { type: 'ExternalName', externalName: 'example.com', clusterIP: null, clusterIPs: null },
    }),
  },
  {
    name: 'the Service has lost a label',
    check: 'kubernetes-service',
    inflict: patch(services, { metadata: { labels: { component: null } } }),
  },
  {
    name: 'the Service has another ClusterIP',
    check: 'kubernetes-service',
    inflict: moveService,
  },
  {
    name: 'the Service has another ClusterIP, and another Service has the first one',
    check: 'kubernetes-service',
    async inflict(api) {
      const { spec } = await api.get(services, kubernetes)
      await moveService(api)
      await takeClusterIp(api, spec?.clusterIP)
    },
  },
  {
    name: 'the Service is deleted, and another Service has its ClusterIP',
    check: 'kubernetes-service',
    async inflict(api) {
      const { spec } = await api.get(services, kubernetes)
      await api.delete(services, kubernetes)
      await takeClusterIp(api, spec?.clusterIP)
    },
  },
  { name: 'the Endpoints are deleted', check: 'kubernetes-endpoints', inflict: remove(endpoints) },
  {
    name: 'the Endpoints list no address',
    check: 'kubernetes-endpoints',
    inflict: patch(endpoints, { subsets: null }),
  },
  {
    name: 'the Endpoints have another port',
    check: 'kubernetes-endpoints',
    inflict: changedSubset((subset) => ({ ...subset, ports: [{ ...https, port: 1 }] })),
  },
  {
    name: 'the Endpoints have another port name',
    check: 'kubernetes-endpoints',
    inflict: changedSubset(({ ports: [port], ...subset }) => ({ ...subset, ports: [{ ...port, name: 'web' }] })),
  },
  {
    name: 'the Endpoints have a notReadyAddress',
    check: 'kubernetes-endpoints',
    inflict: changedSubset((subset) => ({ ...subset, notReadyAddresses: [{ ip: '192.0.2.77' }] })),
  },
  {
    name: 'the Endpoints have a second subset',
    check: 'kubernetes-endpoints',
    inflict: changed<EndpointsObject>(endpoints, (object) => ({
      ...object,
      subsets: [...object.subsets, { addresses: [{ ip: '192.0.2.1' }], ports: [{ ...https, port: 7443 }] }],
    })),
  },
  {
    name: 'the Endpoints have lost the label skip-mirror',
    check: 'kubernetes-endpoints',
    inflict: patch(endpoints, { metadata: { labels: { 'endpointslice.kubernetes.io/skip-mirror': null } } }),
  },
  { name: 'the EndpointSlice is deleted', check: 'kubernetes-endpointslice', inflict: remove(endpointSlices) },
  {
    name: 'the EndpointSlice lists no endpoint',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { endpoints: [] }),
  },
  {
    name: 'the EndpointSlice lists another address',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { endpoints: [{ addresses: ['192.0.2.99'], conditions: { ready: true } }] }),
  },
  {
    name: 'an endpoint of the EndpointSlice is not ready',
    check: 'kubernetes-endpointslice',
    inflict: changed<SliceObject>(endpointSlices, (slice) => ({
      ...slice,
      endpoints: slice.endpoints.map((endpoint) => ({ ...endpoint, conditions: { ready: false } })),
    })),
  },
  {
    name: 'the EndpointSlice has another port',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { ports: [{ ...https, port: 1 }] }),
  },
  {
    name: 'the EndpointSlice has an additional label',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, {
      metadata: { labels: { 'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io' } },
    }),
  },
  {
    name: 'the EndpointSlice has lost its service-name label',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { metadata: { labels: { 'kubernetes.io/service-name': null } } }),
  },
  {
    name: 'the EndpointSlice has another address family',
    check: 'kubernetes-endpointslice',
    async inflict(api) {
      const { ports, metadata } = await api.get(endpointSlices, kubernetes)
      await api.delete(endpointSlices, kubernetes)
      const slice = {
        metadata: { ...kubernetes, labels: metadata?.labels },
        addressType: 'IPv6',
        endpoints: [{ addresses: ['2001:db8::1'], conditions: { ready: true } }],
        ports,
      }
      return api.create(endpointSlices, slice as never)
    },
  },
]

/** The Lease of the master at an address. */
export async function leaseOf(api: KubeApi, address: string): Promise<Lease> {
  const { items } = await api.list(leases, { namespace: 'kube-system' })
  const found = items.find(({ metadata }) => holderIn(metadata?.annotations).includes(`"${address}"`))
  if (found === undefined) throw new Error(`no lease of ${address}`)
  return found
}

/** Creates a Lease of another host at the address 192.0.2.2, renewed some milliseconds before that of the master. */
export async function addSecondHost(
  api: KubeApi,
  { earlierMs = 1_000, ...more }: { readonly earlierMs?: number; readonly leaseDurationSeconds?: number },
): Promise<void> {
  const { metadata, spec } = await leaseOf(api, '192.0.2.2')
  const holder = JSON.parse(holderIn(metadata?.annotations)) as object
  const annotations = { [HOLDER_ANNOTATION]: JSON.stringify({ ...holder, host: 'another', instanceId: 'another' }) }
  const copy = { namespace: 'kube-system', name: 'apiserver-bootstrap-copy', labels: metadata?.labels, annotations }
  const renewTime = new Date(Date.parse(spec?.renewTime ?? '') - earlierMs).toISOString().replace('Z', '000Z')
  await api.create(leases, { metadata: copy, spec: { ...spec, renewTime, ...more } } as never)
}

function holderIn(annotations: Readonly<Record<string, string>> | undefined): string {
  return annotations?.[HOLDER_ANNOTATION] ?? ''
}

function refOf({ metadata }: Lease) {
  return { namespace: 'kube-system', name: metadata?.name ?? '' }
}

/** Lists 192.0.2.2 again, with a lease like that of 192.0.2.1: earlier repairs may have removed it. */
export async function withTwoMasters(api: KubeApi): Promise<void> {
  const one = await leaseOf(api, '192.0.2.1')
  const isThere = await leaseOf(api, '192.0.2.2').then(
    () => true,
    () => false,
  )
  if (isThere) return
  const holder = holderIn(one.metadata?.annotations).replaceAll('192.0.2.1', '192.0.2.2')
  const metadata = {
    namespace: 'kube-system',
    name: 'apiserver-bootstrap-again',
    labels: one.metadata?.labels,
    annotations: { [HOLDER_ANNOTATION]: holder },
  }
  await api.create(leases, { metadata, spec: one.spec } as never)
  const both = ['192.0.2.1', '192.0.2.2']
  const { subsets } = await api.get(endpoints, kubernetes)
  const addresses = both.map((ip) => ({ ip }))
  await patch(endpoints, { subsets: subsets?.map((subset) => ({ ...subset, addresses })) })(api)
  const listed = both.map((address) => ({ addresses: [address], conditions: { ready: true } }))
  await patch(endpointSlices, { endpoints: listed })(api)
}

/** Damage to the list and the leases of two masters, 192.0.2.1 and 192.0.2.2, which nobody renews. */
const leaseDamages: readonly Damage[] = [
  {
    name: 'a listed master has no lease',
    check: 'master-leases',
    inflict: async (api) => api.delete(leases, refOf(await leaseOf(api, '192.0.2.2'))),
  },
  {
    name: 'the lease of a listed master expired long ago',
    check: 'master-leases',
    inflict: async (api) =>
      api.patch(leases, refOf(await leaseOf(api, '192.0.2.2')), {
        type: 'merge',
        body: { spec: { renewTime: '2020-01-01T00:00:00.000000Z', leaseDurationSeconds: 2 } },
      }),
  },
  {
    name: 'a live master is not listed',
    check: 'master-leases',
    async inflict(api) {
      const { subsets } = await api.get(endpoints, kubernetes)
      const left = subsets?.map((subset) => ({ ...subset, addresses: subset.addresses?.slice(0, 1) }))
      await patch(endpoints, { subsets: left })(api)
      await patch(endpointSlices, { endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready: true } }] })(api)
    },
  },
  {
    name: 'an address without a lease is listed',
    check: 'master-leases',
    async inflict(api) {
      const { subsets } = await api.get(endpoints, kubernetes)
      const more = [{ ip: '192.0.2.1' }, { ip: '192.0.2.2' }, { ip: '192.0.2.66' }]
      await patch(endpoints, { subsets: subsets?.map((subset) => ({ ...subset, addresses: more })) })(api)
      const listed = more.map(({ ip }) => ({ addresses: [ip], conditions: { ready: true } }))
      await patch(endpointSlices, { endpoints: listed })(api)
    },
  },
  {
    name: 'a second host has a lease for an address',
    check: 'shared-addresses',
    inflict: (api) => addSecondHost(api, {}),
  },
]

const web = { namespace: 'default', name: 'web' } as const

async function webIp(api: KubeApi): Promise<string> {
  return (await api.get(services, web)).spec?.clusterIP ?? ''
}

function ipAddress(name: string, service: string, managedBy = 'ipallocator.k8s.io') {
  const labels = { 'ipaddress.kubernetes.io/ip-family': 'IPv4', 'ipaddress.kubernetes.io/managed-by': managedBy }
  const parentRef = { resource: 'services', namespace: 'default', name: service }
  return { metadata: { name, labels }, spec: { parentRef } } as never
}

/** Another address of the same range. */
async function freeIp(api: KubeApi): Promise<string> {
  return (await webIp(api)).replace(/\.\d+$/, (last) => `.${((Number(last.slice(1)) + 5) % 200) + 10}`)
}

/** Damage to ServiceCIDR, ClusterIPs and IPAddresses. */
const allocationDamages: readonly Damage[] = [
  {
    name: 'the default ServiceCIDR is deleted',
    check: 'service-cidr',
    expectsRange: true,
    inflict: (api) => api.delete(serviceCidrs, { name: 'kubernetes' }),
  },
  {
    name: 'the default ServiceCIDR is not Ready',
    check: 'service-cidr',
    inflict: setCondition('False'),
  },
  {
    name: 'the default ServiceCIDR has no condition',
    check: 'service-cidr',
    inflict: (api) =>
      api.patch(
        serviceCidrs,
        { name: 'kubernetes' },
        { type: 'merge', body: { status: { conditions: null } } },
        { subresource: 'status' },
      ),
  },
  {
    name: 'the IPAddress of a Service is deleted',
    check: 'ip-addresses',
    inflict: async (api) => api.delete(ipAddresses, { name: await webIp(api) }),
  },
  {
    name: 'the IPAddress of default/kubernetes is deleted',
    check: 'ip-addresses',
    inflict: async (api) =>
      api.delete(ipAddresses, { name: (await api.get(services, kubernetes)).spec?.clusterIP ?? '' }),
  },
  {
    name: 'an IPAddress has the label of another family',
    check: 'ip-addresses',
    inflict: async (api) =>
      api.patch(
        ipAddresses,
        { name: await webIp(api) },
        { type: 'merge', body: { metadata: { labels: { 'ipaddress.kubernetes.io/ip-family': 'IPv6' } } } },
      ),
  },
  {
    name: 'an IPAddress has lost the label of its family',
    check: 'ip-addresses',
    inflict: async (api) =>
      api.patch(
        ipAddresses,
        { name: await webIp(api) },
        { type: 'merge', body: { metadata: { labels: { 'ipaddress.kubernetes.io/ip-family': null } } } },
      ),
  },
  {
    name: 'an IPAddress has another manager',
    check: 'ip-addresses',
    inflict: async (api) =>
      api.patch(
        ipAddresses,
        { name: await webIp(api) },
        { type: 'merge', body: { metadata: { labels: { 'ipaddress.kubernetes.io/managed-by': 'me' } } } },
      ),
  },
  {
    name: 'the IPAddress of a Service refers to a missing Service',
    check: 'ip-addresses',
    async inflict(api) {
      const name = await webIp(api)
      await api.delete(ipAddresses, { name })
      return api.create(ipAddresses, ipAddress(name, 'nobody'))
    },
  },
  {
    name: 'an unused IPAddress refers to a missing Service',
    check: 'ip-addresses',
    visibleAfterMs: 61_000,
    inflict: async (api) => api.create(ipAddresses, ipAddress(await freeIp(api), 'nobody')),
  },
  {
    name: 'an IPAddress refers to a Service with another ClusterIP',
    check: 'ip-addresses',
    visibleAfterMs: 61_000,
    inflict: async (api) => api.create(ipAddresses, ipAddress(await freeIp(api), 'web')),
  },
  {
    name: 'two Services have the same ClusterIP',
    check: 'cluster-ips',
    async inflict(api) {
      const clusterIP = await webIp(api)
      await api.delete(ipAddresses, { name: clusterIP })
      const spec = { clusterIP, ports: [{ port: 80 }] }
      return api.create(services, { metadata: { namespace: 'default', name: 'thief' }, spec } as never)
    },
  },
  {
    name: 'a ClusterIP is in no ServiceCIDR',
    check: 'cluster-ips',
    async inflict(api) {
      const name = 'other'
      await api.create(serviceCidrs, { metadata: { name }, spec: { cidrs: ['203.0.113.0/24'] } } as never)
      await setCondition('True', name)(api)
      const spec = {
        type: 'LoadBalancer',
        clusterIP: '203.0.113.7',
        externalTrafficPolicy: 'Cluster',
        allocateLoadBalancerNodePorts: false,
        loadBalancerClass: 'example.com/class',
        loadBalancerSourceRanges: ['192.0.2.0/24'],
        ports: [{ port: 80 }],
      }
      const service = { metadata: { namespace: 'default', name: 'outside' }, spec } as never
      await eventually(() => api.create(services, service))
      await api.delete(serviceCidrs, { name })
    },
  },
]

/** Repeats an attempt, because a server takes a moment to use a new range. */
async function eventually(attempt: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await attempt()
      return
    } catch (error) {
      if (tries === 50) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

function setCondition(status: 'True' | 'False', name = 'kubernetes') {
  const condition = { type: 'Ready', status, reason: 'Test', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }
  return (api: KubeApi) =>
    api.patch(
      serviceCidrs,
      { name },
      { type: 'merge', body: { status: { conditions: [condition] } } },
      { subresource: 'status' },
    )
}

/** Changes the bitmap of NodePorts. */
function changedNodePorts(change: (ports: Bitmap, offset: number) => void) {
  return async (api: KubeApi, kv: EtcdKv) => {
    const registry = new EtcdRangeRegistry({ etcd: kv, prefix: '/registry' })
    const signal = new AbortController().signal
    const stored = await registry.read('servicenodeports', signal)
    if (stored.type !== 'range') throw new Error(`the bitmap of NodePorts is ${stored.type}`)
    const { first, size } = parsePortRange(stored.range)
    const ports = Bitmap.fromBytes(size, stored.data) ?? new Bitmap(size)
    const { spec } = await api.get(services, web)
    change(ports, (spec?.ports?.[0]?.nodePort ?? 0) - first)
    await registry.write('servicenodeports', { range: stored.range, data: ports.toBytes() }, stored, signal)
  }
}

/** Damage to the bitmap of NodePorts in etcd. */
const bitmapDamages: readonly Damage[] = [
  {
    name: 'the bitmap of NodePorts is zeroed',
    check: 'range-allocations',
    inflict: changedNodePorts((ports) => {
      for (const port of [...ports]) ports.delete(port)
    }),
  },
  {
    name: 'the NodePort of one of two Services is not allocated',
    check: 'range-allocations',
    async inflict(api, kv) {
      const spec = { type: 'NodePort', ports: [{ port: 80 }] }
      await api.create(services, { metadata: { namespace: 'default', name: 'second' }, spec } as never)
      // An in-process server has its own allocator.
      const { nodePort = 0 } =
        (await api.get(services, { namespace: 'default', name: 'second' })).spec?.ports?.[0] ?? {}
      await changedNodePorts((ports, offset) => {
        const other = nodePort - 30_000
        if (!ports.has(other)) ports.add(other)
        ports.delete(offset)
      })(api, kv)
    },
  },
  {
    name: 'a NodePort that no Service uses is allocated',
    check: 'range-allocations',
    isSlow: true,
    inflict: changedNodePorts((ports, offset) => void ports.add(offset === 7 ? 8 : 7)),
  },
]

const manager = 'endpointslice.kubernetes.io/managed-by'
const controller = 'endpointslice-controller.k8s.io'

async function sliceOf(api: KubeApi, service: string): Promise<SliceObject> {
  const labelSelector = `kubernetes.io/service-name=${service},${manager}=${controller}`
  const { items } = await api.list(endpointSlices, { namespace: 'default', labelSelector })
  return items[0] as unknown as SliceObject
}

function changedSlice(change: (slice: SliceObject) => SliceObject) {
  return async (api: KubeApi) => api.update(endpointSlices, change(await sliceOf(api, 'web')) as never)
}

function changedEndpoints(change: (object: EndpointsObject) => EndpointsObject) {
  return async (api: KubeApi) =>
    api.update(endpoints, change((await api.get(endpoints, web)) as unknown as EndpointsObject) as never)
}

/** Another slice with the endpoints of `web`. */
function copyOfSlice(labels: Readonly<Record<string, string>>, name: string, owned = true) {
  return async (api: KubeApi) => {
    const { metadata, addressType, endpoints: listed, ports } = await sliceOf(api, 'web')
    const owners = owned ? { ownerReferences: metadata?.ownerReferences } : {}
    const copy = { metadata: { namespace: 'default', name, labels, ...owners }, addressType, endpoints: listed, ports }
    return api.create(endpointSlices, copy as never)
  }
}

/** Damage to the Endpoints and slices of Services, while no controller runs. */
const workloadDamages: readonly Damage[] = [
  {
    name: 'the Endpoints of a Service are deleted',
    check: 'service-endpoints',
    inflict: (api) => api.delete(endpoints, web),
  },
  {
    name: 'the Endpoints of a Service have lost a Pod',
    check: 'service-endpoints',
    inflict: changedEndpoints((object) => ({
      ...object,
      subsets: object.subsets.map((subset) => ({ ...subset, addresses: subset.addresses?.slice(1) ?? [] })),
    })),
  },
  {
    name: 'the Endpoints of a Service list a Pod as not ready',
    check: 'service-endpoints',
    inflict: changedEndpoints((object) => ({
      ...object,
      subsets: object.subsets.map(({ addresses = [], ...subset }) => ({ ...subset, notReadyAddresses: addresses })),
    })),
  },
  {
    name: 'the Endpoints of a Service have another port',
    check: 'service-endpoints',
    inflict: changedEndpoints((object) => ({
      ...object,
      subsets: object.subsets.map((subset) => ({ ...subset, ports: [{ name: 'http', port: 1, protocol: 'TCP' }] })),
    })),
  },
  {
    name: 'the EndpointSlice of a Service is deleted',
    check: 'service-endpointslices',
    inflict: async (api) => {
      const name = (await sliceOf(api, 'web')).metadata?.name ?? ''
      return api.delete(endpointSlices, { namespace: 'default', name })
    },
  },
  {
    name: 'the EndpointSlice of a Service has lost a Pod',
    check: 'service-endpointslices',
    inflict: changedSlice((slice) => ({ ...slice, endpoints: slice.endpoints.slice(1) })),
  },
  {
    name: 'the EndpointSlice of a Service lists a Pod as not ready',
    check: 'service-endpointslices',
    inflict: changedSlice((slice) => ({
      ...slice,
      endpoints: slice.endpoints.map((one) => ({ ...one, conditions: { ready: false } })),
    })),
  },
  {
    name: 'the EndpointSlice of a Service lists another address',
    check: 'service-endpointslices',
    inflict: changedSlice((slice) => ({
      ...slice,
      endpoints: slice.endpoints.map((one, index) => (index === 0 ? { ...one, addresses: ['198.51.100.99'] } : one)),
    })),
  },
  {
    name: 'the EndpointSlice of a Service has another port',
    check: 'service-endpointslices',
    inflict: changedSlice((slice) => ({ ...slice, ports: [{ name: 'http', port: 1, protocol: 'TCP' }] })),
  },
  {
    name: 'the EndpointSlice of a Service has no managed-by label',
    check: 'service-endpointslices',
    inflict: changedSlice((slice) => ({
      ...slice,
      metadata: { ...slice.metadata, labels: { 'kubernetes.io/service-name': 'web' } },
    })),
  },
  {
    name: 'an EndpointSlice belongs to a missing Service',
    check: 'orphan-slices',
    inflict: copyOfSlice({ 'kubernetes.io/service-name': 'gone', [manager]: controller }, 'gone-abcde', false),
  },
  {
    name: 'Endpoints belong to a missing Service',
    check: 'orphan-slices',
    async inflict(api) {
      const { metadata, subsets } = await api.get(endpoints, web)
      return api.create(endpoints, {
        metadata: { namespace: 'default', name: 'gone', labels: metadata?.labels },
        subsets,
      } as never)
    },
  },
  {
    name: 'an EndpointSlice belongs to a deleted Service of the same name',
    check: 'orphan-slices',
    async inflict(api) {
      const { metadata, ...slice } = await sliceOf(api, 'web')
      const [owner] = (metadata?.ownerReferences ?? []) as readonly object[]
      const owners = [{ ...owner, uid: '00000000-0000-0000-0000-000000000000' }]
      const old = { namespace: 'default', name: 'web-old', labels: metadata?.labels, ownerReferences: owners }
      return api.create(endpointSlices, { ...slice, endpoints: [], metadata: old } as never)
    },
  },
  {
    name: 'two EndpointSlices of a Service have the same endpoints',
    check: 'duplicate-slices',
    visibleAfterMs: 1_000,
    inflict: copyOfSlice({ 'kubernetes.io/service-name': 'web', [manager]: controller }, 'web-zzzzz'),
  },
  {
    name: 'default/kubernetes also has a mirrored EndpointSlice',
    check: 'duplicate-slices',
    inflict: copyOfSlice(
      { 'kubernetes.io/service-name': 'kubernetes', [manager]: 'endpointslicemirroring-controller.k8s.io' },
      'kubernetes-abcde',
      false,
    ),
  },
]

interface Subset {
  readonly addresses?: readonly object[]
  readonly notReadyAddresses?: readonly object[]
  readonly ports: readonly object[]
}

type EndpointsObject = KubeObject & { readonly subsets: readonly Subset[] }
type SliceObject = KubeObject & {
  readonly addressType?: string
  readonly endpoints: readonly object[]
  readonly ports?: readonly object[]
}

function changedSubset(change: (subset: Subset) => Subset) {
  return changed<EndpointsObject>(endpoints, (object) => ({ ...object, subsets: object.subsets.map(change) }))
}

export const damages: readonly Damage[] = [
  ...kubernetesDamages,
  ...leaseDamages.map((one) => ({
    ...one,
    async inflict(api: KubeApi, etcd: EtcdKv) {
      await withTwoMasters(api)
      return one.inflict(api, etcd)
    },
  })),
  ...allocationDamages,
  ...bitmapDamages,
  ...workloadDamages,
]
