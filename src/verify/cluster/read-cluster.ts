import { type EtcdKv, isEtcdError } from '../../etcd/kv.ts'
import type { KubeApi, ListQuery } from '../../kube/api.ts'
import { listPages } from '../../kube/api-wrappers.ts'
import { ifFound, isKubeError, KubeError } from '../../kube/errors.ts'
import type { Readiness } from '../../kube/readiness.ts'
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
import { picked } from '../../kube/shared-values.ts'
import { KUBERNETES_SERVICE, SERVICE_NAME_LABEL } from '../../kubernetes-service/identity.ts'
import { EtcdLeaseInspector, KubernetesLeaseInspector } from '../../kubernetes-service/masters/inspection.ts'
import { EtcdRangeRegistry } from '../../repair/registries/etcd.ts'
import { rangeNames } from '../../repair/registries/range-registry.ts'
import type { Clock } from '../../runtime/clock.ts'
import { linkedController } from '../../runtime/signals.ts'
import { trimEndpointSlice, trimEndpoints, trimNode, trimPod, trimService } from '../../workloads/trimmed.ts'
import { typeFields } from './allocations.ts'
import { type ListedServers, type Probing, probeServers } from './probe-servers.ts'
import { type ClusterState, type DryRun, type Part, type PartName, type Parts, partOf } from './state.ts'
import { watchWrites } from './watch-writes.ts'

export interface ClusterSource {
  readonly api: KubeApi
  /** Probes /readyz of the API server behind `api`. @default /readyz is not read */
  readonly readiness?: Readiness | undefined
  /** The etcd of the API servers. `prefix`: the prefix of their keys, without a slash at the end. */
  readonly etcd?: { readonly kv: EtcdKv; readonly prefix: string } | undefined
  /** Where the leases of masters are. @default etcd if `etcd` is given, else kubernetes */
  readonly leaseStore?: 'etcd' | 'kubernetes' | undefined
  /** The namespace of the Leases of masters. @default kube-system */
  readonly leaseNamespace?: string | undefined
  /** How each listed address is probed. @default no address is probed */
  readonly probe?: Probing | undefined
  /** How long default/kubernetes is watched for writers, in milliseconds. @default not at all */
  readonly watchMs?: number | undefined
}

interface TimedSource extends ClusterSource {
  readonly clock: Clock
}

/** Rejects with NotRequested, an EtcdError or a KubeError; with `NotFound` if the server does not serve the kind. */
type Reader<T> = (source: TimedSource, signal: AbortSignal) => Promise<T>

const named = `metadata.name=${KUBERNETES_SERVICE.name}`
const inDefault = { namespace: KUBERNETES_SERVICE.namespace }

const readers: { readonly [Name in PartName]: Reader<Parts[Name]> } = {
  async namespaces(source, signal) {
    const all = await listed(source, namespaces, {}, trimmedMeta, signal)
    return new Map(all.map((namespace) => [namespace.metadata?.name ?? '', namespace]))
  },
  async nodesServed({ api }, signal) {
    return (await ifFound(api.list(nodes, { limit: 1, signal }))) !== undefined
  },
  // Listed: unlike a get, a list distinguishes a missing object from a kind that is not served.
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
    const byName = new Map(lists.flat().map((slice) => [slice.metadata?.name, slice]))
    return [...byName.values()]
  },
  serviceCidrs: (source, signal) => listed(source, serviceCidrs, {}, whole, signal),
  services: (source, signal) => listed(source, services, {}, trimmedService, signal),
  ipAddresses: (source, signal) => listed(source, ipAddresses, {}, trimmedIpAddress, signal),
  async readinessChecks({ readiness }, signal) {
    if (readiness === undefined) throw new NotRequested('/readyz is not known')
    const answer = await readiness.probe(signal)
    return answer.answered ? answer.checks : []
  },
  clusterIpDryRun: ({ api }, signal) => dryRun(api, { type: 'ClusterIP' }, signal),
  nodePortDryRun: ({ api }, signal) => dryRun(api, { type: 'NodePort' }, signal),
  pods: (source, signal) => listed(source, pods, {}, trimPod, signal),
  nodes: (source, signal) => listed(source, nodes, {}, trimNode, signal),
  endpoints: (source, signal) => listed(source, endpoints, {}, trimEndpoints, signal),
  endpointSlices: (source, signal) => listed(source, endpointSlices, {}, trimmedSlice, signal),
  async masterLeases({ api, clock, etcd, leaseStore = 'etcd', leaseNamespace }, signal) {
    if (etcd !== undefined && leaseStore === 'etcd') {
      const inspector = new EtcdLeaseInspector({ etcd: etcd.kv, prefix: etcd.prefix })
      return { store: 'etcd', leases: await inspector.inspect(signal) }
    }
    const inspector = new KubernetesLeaseInspector({ api, clock, namespace: leaseNamespace })
    return { store: 'kubernetes', leases: await inspector.inspect(signal) }
  },
  async rangeAllocations({ etcd }, signal) {
    if (etcd === undefined) throw new NotRequested('give --etcd-servers')
    const registry = new EtcdRangeRegistry({ etcd: etcd.kv, prefix: etcd.prefix })
    return Promise.all(
      rangeNames.map(async (name) => ({
        name,
        where: registry.where(name),
        stored: await registry.read(name, signal),
      })),
    )
  },
  async serverProbes(source, signal) {
    if (source.probe === undefined) throw new NotRequested('give --probe')
    return probeServers(source.probe, await listedServers(source, signal), signal)
  },
  async objectWrites(source, signal) {
    if (source.watchMs === undefined) throw new NotRequested('give --watch-writers')
    return watchWrites(source, source.watchMs, signal)
  },
}

/** The source lacks what a part needs. The message names what is missing. */
class NotRequested extends Error {}

/**
 * Reads the parts, not all at the same moment, so they may contradict each other. A part is `unread` if the server
 * refuses the request, or if the server or `source` does not have the part. Rejects after any other failure.
 */
export async function readCluster(
  source: TimedSource,
  names: readonly PartName[],
  signal: AbortSignal,
): Promise<ClusterState> {
  const { controller, unlink } = linkedController(signal)
  const read = async (name: PartName) => [name, await readPart(source, name, controller.signal)] as const
  try {
    return Object.fromEntries(await Promise.all(names.map(read))) as ClusterState
  } finally {
    unlink()
    // After a failure nobody waits for the other parts, such as long lists or a watch of minutes.
    controller.abort()
  }
}

async function readPart(source: TimedSource, name: PartName, signal: AbortSignal): Promise<Part<unknown>> {
  try {
    return { type: 'read', value: await readers[name](source, signal) }
  } catch (error) {
    // A dry run fails with BadRequest if an admission webhook does not support dry runs. A server without the verb
    // answers with a status such as 405.
    const isWithheld =
      isKubeError(error, 'Forbidden', 'BadRequest', 'Refused') || isEtcdError(error, 'PermissionDenied')
    if (isWithheld || error instanceof NotRequested) return { type: 'unread', reason: error.message }
    if (isKubeError(error, 'NotFound')) {
      return { type: 'unread', reason: `the server does not have it: ${error.message}`, isServed: false }
    }
    throw error
  }
}

/** Rejects if the user may not read the Endpoints. Leaves out a Service or slices that the user may not read. */
async function listedServers(source: TimedSource, signal: AbortSignal): Promise<ListedServers> {
  const endpoints = await readers.kubernetesEndpoints(source, signal)
  const state = await readCluster(source, ['kubernetesService', 'kubernetesSlices'], signal)
  const service = partOf({ state }, 'kubernetesService')
  return { endpoints, service, slices: partOf({ state }, 'kubernetesSlices') ?? [] }
}

/** The most objects of a page. Small pages need less memory: a page becomes garbage once its objects are trimmed. */
const PAGE_SIZE = 100

async function listed<T extends KubeObject>(
  { api }: ClusterSource,
  resource: Resource<T>,
  query: ListQuery,
  trim: (object: T) => T,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const objects: T[] = []
  for await (const page of listPages(api, resource, { ...query, limit: PAGE_SIZE, dropsManagedFields: true, signal })) {
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

/** Retains the fields that the checks compare, and those that a remedy restores. */
function trimmedService(service: Service): Service {
  const { spec = {} } = service
  const trimmed = trimService(service)
  return { ...trimmed, spec: { ...trimmed.spec, ports: spec.ports, ...picked(spec, typeFields) } } as Service
}

function trimmedIpAddress({ metadata, spec }: IpAddress): IpAddress {
  const { name, labels, creationTimestamp } = metadata ?? {}
  return { metadata: { name, labels, creationTimestamp }, spec } as IpAddress
}

/** Drops the hints: which hints are right depends on earlier decisions of the controller. */
function trimmedSlice(slice: EndpointSlice): EndpointSlice {
  const { endpoints: listedIn, ...rest } = trimEndpointSlice(slice)
  return { ...rest, endpoints: listedIn?.map(({ hints: _hints, ...endpoint }) => endpoint) } as EndpointSlice
}

/**
 * Creates a Service in a dry run. `refused`: the server answers Invalid or 500, as it does if it cannot allocate.
 * Rejects after any other failure. A denial by an admission policy or webhook proves nothing about allocations. After a
 * denial this function rejects with `Forbidden`, whatever the HTTP status is.
 */
async function dryRun(api: KubeApi, spec: object, signal: AbortSignal): Promise<DryRun> {
  const metadata = { ...inDefault, generateName: 'apiserver-bootstrap-verify-' }
  const service = { apiVersion: 'v1', kind: 'Service', metadata, spec: { ...spec, ports: [{ port: 80 }] } } as Service
  try {
    await api.create(services, service, { dryRun: true, signal })
    return { type: 'accepted' }
  } catch (error) {
    const isDenied = error instanceof KubeError && / is forbidden: | denied the request/.test(error.message)
    if (isDenied) throw new KubeError('Forbidden', error.message)
    const isRefused = isKubeError(error, 'Invalid') || (isKubeError(error, 'ServerError') && error.httpStatus === 500)
    if (!isRefused) throw error
    return { type: 'refused', reason: error.message }
  }
}
