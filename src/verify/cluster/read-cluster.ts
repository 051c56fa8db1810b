import type { EtcdKv } from '../../etcd/kv.ts'
import type { KubeApi, ListQuery } from '../../kube/api.ts'
import { listPages } from '../../kube/api-wrappers.ts'
import { isKubeError } from '../../kube/errors.ts'
import {
  type EndpointSlice,
  endpointSlices,
  endpoints,
  type IpAddress,
  ipAddresses,
  type KubeObject,
  namespaces,
  nodes,
  pods,
  type Resource,
  type Service,
  serviceCidrs,
  services,
} from '../../kube/resources.ts'
import { KUBERNETES_SERVICE, SERVICE_NAME_LABEL } from '../../kubernetes-service/identity.ts'
import { EtcdLeaseInspector, KubernetesLeaseInspector } from '../../kubernetes-service/masters/inspection.ts'
import type { Clock } from '../../runtime/clock.ts'
import { trimEndpointSlice, trimEndpoints, trimNode, trimPod, trimService } from '../../workloads/trimmed.ts'
import type { ClusterState, DryRun, Part, PartName, Parts } from './state.ts'

/** Where the state of a cluster is read. */
export interface ClusterSource {
  readonly api: KubeApi
  /** The etcd of the API servers. With it the leases are theirs. `prefix`: without a slash at the end. */
  readonly etcd?: { readonly kv: EtcdKv; readonly prefix: string } | undefined
  /** The namespace of the Leases of masters. @default kube-system */
  readonly leaseNamespace?: string | undefined
}

interface TimedSource extends ClusterSource {
  readonly clock: Clock
}

/** Reads one part. A KubeError `Forbidden` or `NotFound` is the reason why there is none. */
type Reader<T> = (source: TimedSource, signal: AbortSignal) => Promise<T>

const named = `metadata.name=${KUBERNETES_SERVICE.name}`
const inDefault = { namespace: KUBERNETES_SERVICE.namespace }

const readers: { readonly [Name in PartName]: Reader<Parts[Name]> } = {
  async namespaces(source, signal) {
    const all = await listed(source, namespaces, {}, trimmedMeta, signal)
    return new Map(all.map((namespace) => [namespace.metadata?.name ?? '', namespace]))
  },
  async nodesServed({ api }, signal) {
    try {
      await api.list(nodes, { limit: 1, signal })
      return true
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return false
      throw error
    }
  },
  // Lists of one object: unlike a get, they distinguish an object that is missing from a kind that is not served.
  async kubernetesService(source, signal) {
    return (await listed(source, services, { ...inDefault, fieldSelector: named }, whole, signal))[0]
  },
  async kubernetesEndpoints(source, signal) {
    return (await listed(source, endpoints, { ...inDefault, fieldSelector: named }, whole, signal))[0]
  },
  async kubernetesSlices(source, signal) {
    const selectors: readonly ListQuery[] = [
      { fieldSelector: named },
      { labelSelector: `${SERVICE_NAME_LABEL}=${KUBERNETES_SERVICE.name}` },
    ]
    const lists = await Promise.all(
      selectors.map((selector) => listed(source, endpointSlices, { ...inDefault, ...selector }, whole, signal)),
    )
    return [
      ...new Map(lists.flat().map((slice): [string, EndpointSlice] => [slice.metadata?.name ?? '', slice])).values(),
    ]
  },
  serviceCidrs: (source, signal) => listed(source, serviceCidrs, {}, whole, signal),
  services: (source, signal) => listed(source, services, {}, trimmedService, signal),
  ipAddresses: (source, signal) => listed(source, ipAddresses, {}, trimmedIpAddress, signal),
  async clusterIpDryRun({ api }, signal) {
    return dryRun(api, { type: 'ClusterIP' }, ({ spec }) => spec?.clusterIP, signal)
  },
  async nodePortDryRun({ api }, signal) {
    return dryRun(api, { type: 'NodePort' }, ({ spec }) => spec?.ports?.[0]?.nodePort, signal)
  },
  pods: (source, signal) => listed(source, pods, {}, trimPod, signal),
  nodes: (source, signal) => listed(source, nodes, {}, trimNode, signal),
  endpoints: (source, signal) => listed(source, endpoints, {}, trimEndpoints, signal),
  endpointSlices: (source, signal) => listed(source, endpointSlices, {}, trimmedSlice, signal),
  async masterLeases({ api, clock, etcd, leaseNamespace }, signal) {
    if (etcd !== undefined) {
      const inspector = new EtcdLeaseInspector({ etcd: etcd.kv, prefix: etcd.prefix })
      return { store: 'etcd', leases: await inspector.inspect(signal) }
    }
    const inspector = new KubernetesLeaseInspector({ api, clock, namespace: leaseNamespace })
    return { store: 'kubernetes', leases: await inspector.inspect(signal) }
  },
}

/**
 * Reads these parts of a cluster, each as of a moment of its own. A part that the user may not read, or that the server
 * does not have, is `unread`. Rejects with a KubeError if the cluster cannot be asked.
 */
export async function readCluster(
  source: TimedSource,
  names: readonly PartName[],
  signal: AbortSignal,
): Promise<ClusterState> {
  const parts = await Promise.all(names.map(async (name) => [name, await readPart(source, name, signal)] as const))
  return Object.fromEntries(parts) as ClusterState
}

async function readPart(source: TimedSource, name: PartName, signal: AbortSignal): Promise<Part<unknown>> {
  try {
    return { type: 'read', value: await readers[name](source, signal) }
  } catch (error) {
    // An admission webhook may not support dry runs.
    if (isKubeError(error, 'Forbidden', 'BadRequest')) return { type: 'unread', reason: error.message }
    if (isKubeError(error, 'NotFound'))
      return { type: 'unread', reason: `the server does not have it: ${error.message}` }
    throw error
  }
}

async function listed<T extends KubeObject>(
  { api }: ClusterSource,
  resource: Resource<T>,
  query: ListQuery,
  trim: (object: T) => T,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const objects: T[] = []
  for await (const page of listPages(api, resource, { ...query, signal })) {
    for (const object of page) objects.push(trim(object))
  }
  return objects
}

function whole<T>(object: T): T {
  return object
}

function trimmedMeta<T extends KubeObject>({ metadata }: T): T {
  const { name, deletionTimestamp } = metadata ?? {}
  return { metadata: { name, ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }) } } as T
}

/** What Endpoints and allocations need of a Service. */
function trimmedService(service: Service): Service {
  const { ports, healthCheckNodePort, externalTrafficPolicy } = service.spec ?? {}
  const trimmed = trimService(service)
  const spec = {
    ...trimmed.spec,
    ports,
    ...(healthCheckNodePort ? { healthCheckNodePort, externalTrafficPolicy } : {}),
  }
  return { ...trimmed, spec } as Service
}

function trimmedIpAddress({ metadata, spec }: IpAddress): IpAddress {
  const { name, labels, creationTimestamp } = metadata ?? {}
  return { metadata: { name, labels, creationTimestamp }, spec } as IpAddress
}

/** Hints are another question than who is listed, and only a controller with its memory can answer it. */
function trimmedSlice(slice: EndpointSlice): EndpointSlice {
  const trimmed = trimEndpointSlice(slice)
  const { endpoints: listedIn, ...rest } = trimmed
  if (listedIn?.some(({ hints }) => hints !== undefined) !== true) return trimmed
  return { ...rest, endpoints: listedIn.map(({ hints: _hints, ...endpoint }) => endpoint) } as EndpointSlice
}

/** Creates a Service without storing it. Every other failure than that of its allocation rejects. */
async function dryRun(
  api: KubeApi,
  spec: object,
  itemOf: (created: Service) => string | number | undefined,
  signal: AbortSignal,
): Promise<DryRun> {
  const metadata = { ...inDefault, generateName: 'apiserver-bootstrap-verify-' }
  const service = { apiVersion: 'v1', kind: 'Service', metadata, spec: { ...spec, ports: [{ port: 80 }] } } as Service
  try {
    const created = await api.create(services, service, { dryRun: true, signal })
    return { type: 'allocated', item: `${itemOf(created) ?? ''}` }
  } catch (error) {
    const isRefused = isKubeError(error, 'Invalid') || (isKubeError(error, 'ServerError') && error.httpStatus === 500)
    if (!isRefused) throw error
    return { type: 'refused', reason: error.message }
  }
}
