import type { KubeApi } from '../../kube/api.ts'
import { KubeError } from '../../kube/errors.ts'
import { endpointSlices, endpoints, services } from '../../kube/resources.ts'
import { type EndpointSubset, KUBERNETES_SERVICE as ref } from '../../kubernetes-service/identity.ts'

type Damage = (api: KubeApi) => Promise<unknown>

/**
 * The damages that another writer does to `default/kubernetes`, by name. Each function rejects with a KubeError if the
 * server fails or refuses; its code is `NotFound` if there is nothing to damage.
 */
export const damages = named({
  'endpoints-deleted': (api) => api.delete(endpoints, ref),
  'endpoints-emptied': (api) => api.patch(endpoints, ref, { type: 'merge', body: { subsets: null } }),
  'endpoints-unlabelled': (api) => api.patch(endpoints, ref, { type: 'merge', body: { metadata: { labels: null } } }),
  'endpoints-with-a-foreign-port': (api) => patchSubset(api, { ports: [{ name: 'https', port: 1, protocol: 'TCP' }] }),
  'endpoints-with-a-foreign-protocol': (api) =>
    patchSubset(api, { ports: [{ name: 'https', port: 6443, protocol: 'UDP' }] }),
  'endpoints-with-a-foreign-address': (api) => patchSubset(api, { addresses: [{ ip: '203.0.113.7' }] }),
  'endpoints-with-a-foreign-unready-address': (api) => patchSubset(api, { notReadyAddresses: [{ ip: '203.0.113.8' }] }),
  'slice-deleted': (api) => api.delete(endpointSlices, ref),
  'slice-unlabelled': (api) => api.patch(endpointSlices, ref, { type: 'merge', body: { metadata: { labels: null } } }),
  'slice-emptied': (api) => api.patch(endpointSlices, ref, { type: 'merge', body: { endpoints: [], ports: [] } }),
  'service-deleted': (api) => api.delete(services, ref),
  'service-with-a-foreign-port': (api) =>
    api.patch(services, ref, { type: 'merge', body: { spec: { ports: [{ name: 'x', port: 1, protocol: 'TCP' }] } } }),
})

/** Gives each value a type that is short in the package's declarations. */
function named<Name extends string>(all: Readonly<Record<Name, Damage>>): Readonly<Record<Name, Damage>> {
  return all
}

export type DamageName = keyof typeof damages

async function patchSubset(api: KubeApi, change: EndpointSubset): Promise<unknown> {
  const { subsets } = await api.get(endpoints, ref)
  const subset = { ...subsets?.[0], ...change }
  // Emptied Endpoints have no port to damage. A server refuses a subset with only ports.
  if (subset.addresses === undefined && subset.notReadyAddresses === undefined) {
    throw new KubeError('NotFound', 'Endpoints default/kubernetes list no address')
  }
  return api.patch(endpoints, ref, { type: 'merge', body: { subsets: [subset] } })
}
