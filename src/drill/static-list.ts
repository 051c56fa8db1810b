import type { KubeApi } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import { type EndpointSlice, type Endpoints, endpointSlices, endpoints, namespaces } from '../kube/resources.ts'
import {
  endpointPorts,
  KUBERNETES_SERVICE,
  SERVICE_NAME_LABEL,
  SKIP_MIRROR_LABEL,
} from '../kubernetes-service/identity.ts'

/**
 * Lists all these addresses in `default/kubernetes`, once, as an administrator does who runs API servers with the reconciler `none`:
 * nobody else will. What is there is replaced.
 */
export async function writeStaticList(
  api: KubeApi,
  addresses: readonly string[],
  { securePort, signal }: { readonly securePort: number; readonly signal?: AbortSignal | undefined },
): Promise<void> {
  const metadata = { ...KUBERNETES_SERVICE }
  const ports = endpointPorts(securePort)
  const list: Endpoints = {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...metadata, labels: { [SKIP_MIRROR_LABEL]: 'true' } },
    subsets: [{ addresses: addresses.map((ip) => ({ ip })), ports }],
  }
  const slice: EndpointSlice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...metadata, labels: { [SERVICE_NAME_LABEL]: KUBERNETES_SERVICE.name } },
    addressType: addresses.some((address) => address.includes(':')) ? 'IPv6' : 'IPv4',
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports,
  }
  await namespaceExists(api, signal)
  for (const kind of [endpoints, endpointSlices] as const) {
    await api.delete(kind, KUBERNETES_SERVICE, { signal }).catch((error: unknown) => {
      if (!isKubeError(error, 'NotFound')) throw error
    })
  }
  await api.create(endpoints, list, { signal })
  await api.create(endpointSlices, slice, { signal })
}

async function namespaceExists(api: KubeApi, signal: AbortSignal | undefined): Promise<void> {
  const metadata = { name: KUBERNETES_SERVICE.namespace }
  try {
    await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata }, { signal })
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error
  }
}
