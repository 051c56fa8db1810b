import type { KubeApi } from '../../../src/kube/api.ts'
import { endpointSlices, endpoints, namespaces, services } from '../../../src/kube/resources.ts'
import type { CheckId } from '../../../src/verify/cluster/check-ids.ts'
import type { KubeObject, Resource } from './resources.ts'

/** One kind of damage to a cluster, which exactly one check must find. */
export interface Damage {
  readonly name: string
  readonly check: CheckId
  readonly inflict: (api: KubeApi) => Promise<unknown>
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

/** Damage to the namespaces and to default/kubernetes. */
export const kubernetesDamages: readonly Damage[] = [
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
    name: 'the Service has one port more',
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
    async inflict(api) {
      const { spec } = await api.get(services, kubernetes)
      await api.delete(services, kubernetes)
      const labels = { component: 'apiserver', provider: 'kubernetes' }
      const clusterIP = `${spec?.clusterIP?.replace(/\.\d+$/, '')}.9`
      const next = { type: 'ClusterIP', clusterIP, ports: spec?.ports }
      return api.create(services, { metadata: { ...kubernetes, labels }, spec: next } as never)
    },
  },
  { name: 'the Endpoints are deleted', check: 'kubernetes-endpoints', inflict: remove(endpoints) },
  {
    name: 'the Endpoints list nobody',
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
  { name: 'the slice is deleted', check: 'kubernetes-endpointslice', inflict: remove(endpointSlices) },
  {
    name: 'the slice lists nobody',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { endpoints: [] }),
  },
  {
    name: 'the slice lists somebody else',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { endpoints: [{ addresses: ['192.0.2.99'], conditions: { ready: true } }] }),
  },
  {
    name: 'an endpoint of the slice is not ready',
    check: 'kubernetes-endpointslice',
    inflict: changed<SliceObject>(endpointSlices, (slice) => ({
      ...slice,
      endpoints: slice.endpoints.map((endpoint) => ({ ...endpoint, conditions: { ready: false } })),
    })),
  },
  {
    name: 'the slice has another port',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { ports: [{ ...https, port: 1 }] }),
  },
  {
    name: 'the slice has a label more',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, {
      metadata: { labels: { 'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io' } },
    }),
  },
  {
    name: 'the slice does not name its Service',
    check: 'kubernetes-endpointslice',
    inflict: patch(endpointSlices, { metadata: { labels: { 'kubernetes.io/service-name': null } } }),
  },
  {
    name: 'the slice is of another family',
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

interface Subset {
  readonly addresses?: readonly object[]
  readonly notReadyAddresses?: readonly object[]
  readonly ports: readonly object[]
}

type EndpointsObject = KubeObject & { readonly subsets: readonly Subset[] }
type SliceObject = KubeObject & { readonly endpoints: readonly object[] }

function changedSubset(change: (subset: Subset) => Subset) {
  return changed<EndpointsObject>(endpoints, (object) => ({ ...object, subsets: object.subsets.map(change) }))
}
