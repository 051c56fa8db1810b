import type { EtcdKv, KeyChange, WatchOptions } from '../etcd/kv.ts'
import type { KubeApi } from '../kube/api.ts'
import { ifFound, ifNew } from '../kube/errors.ts'
import {
  endpointSlices,
  endpoints,
  type KubeObject,
  type Lease,
  leases,
  type Namespace,
  namespaces,
  type Resource,
  type Service,
  services,
} from '../kube/resources.ts'
import { newEndpoints, sliceOf } from '../kubernetes-service/endpoints-plan.ts'
import { endpointPorts, KUBERNETES_SERVICE } from '../kubernetes-service/identity.ts'
import { EtcdLeaseKeys } from '../kubernetes-service/leases/etcd/snapshot.ts'
import { LABEL_SELECTOR, LEASE_NAMESPACE } from '../kubernetes-service/leases/kubernetes.ts'
import { decodeHolder } from '../kubernetes-service/leases/master-leases.ts'
import type { MemoryLeaseRegistry } from '../kubernetes-service/leases/memory.ts'
import { HOLDER_ANNOTATION } from '../kubernetes-service/leases/trimmed-lease.ts'
import type { Listing, ObservedObjects, ObservedService } from '../verify/observation.ts'

/**
 * The timeout of watches, in seconds. It is longer than any drill of a scenario file, so that this timeout ends no
 * watch of an observer.
 */
const WATCH_SECONDS = 172_800
const SECURE_PORT = 6443

/**
 * Reports the addresses of every version of the Endpoints or of the slice `kubernetes`, or undefined when the object is
 * deleted. Ends when the signal is aborted or the watch ends. Rejects with a KubeError if the watch breaks.
 */
export async function followListings(
  api: KubeApi,
  object: Listing['object'],
  report: (addresses: readonly string[] | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  const resource = (object === 'endpoints' ? endpoints : endpointSlices) as Resource<KubeObject>
  const query = {
    namespace: 'default',
    fieldSelector: 'metadata.name=kubernetes',
    timeoutSeconds: WATCH_SECONDS,
    signal,
  }
  for await (const event of api.watch(resource, { ...query, sendInitialEvents: true, allowWatchBookmarks: true })) {
    if (event.type === 'BOOKMARK' || event.type === 'ERROR') continue
    report(event.type === 'DELETED' ? undefined : addressesOf(event.object))
  }
}

/** The addresses that Endpoints or an EndpointSlice offer to clients, sorted. */
export function addressesOf(object: unknown): readonly string[] {
  // A Go server writes null for an empty list.
  const { subsets, endpoints: sliced } = object as {
    subsets?: { addresses?: { ip: string }[] }[] | null
    endpoints?: { addresses: string[]; conditions?: { ready?: boolean } }[] | null
  }
  const listed = (subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
  // Only `ready: false` excludes an endpoint. A kube-apiserver copies the unready addresses of Endpoints to the slice.
  const usable = (sliced ?? []).filter(({ conditions }) => conditions?.ready !== false)
  return [...listed, ...usable.flatMap(({ addresses }) => addresses)].sort()
}

export type Found = Pick<ObservedObjects, 'service' | 'namespaces'>

/**
 * Reports the Service `kubernetes` and the namespaces once both are known, and then at each event of their watches.
 * Ends and rejects as {@link followListings} does.
 */
export async function followObjects(api: KubeApi, report: (found: Found) => void, signal: AbortSignal): Promise<void> {
  const names = new Set<string>()
  let service: ObservedService | undefined
  const synced = new Set<'service' | 'namespaces'>()
  const reportFound = (): void => {
    if (synced.size === 2) report({ service, namespaces: [...names].sort() })
  }
  const watched = { sendInitialEvents: true, allowWatchBookmarks: true, timeoutSeconds: WATCH_SECONDS, signal }
  const followService = async (): Promise<void> => {
    const query = { namespace: 'default', fieldSelector: 'metadata.name=kubernetes', ...watched }
    for await (const event of api.watch(services, query)) {
      if (event.type === 'BOOKMARK') synced.add('service')
      else if (event.type !== 'ERROR')
        service = event.type === 'DELETED' ? undefined : serviceOf(event.object as Service)
      reportFound()
    }
  }
  const followNamespaces = async (): Promise<void> => {
    for await (const event of api.watch(namespaces, watched)) {
      if (event.type === 'ERROR') continue
      if (event.type === 'BOOKMARK') synced.add('namespaces')
      else {
        const { metadata } = event.object as Namespace
        if (event.type === 'DELETED') names.delete(metadata?.name ?? '')
        else names.add(metadata?.name ?? '')
      }
      reportFound()
    }
  }
  await Promise.all([followService(), followNamespaces()])
}

function serviceOf({ metadata, spec }: Service): ObservedService {
  const ports = (spec?.ports ?? []).map(({ name = '', port, protocol = 'TCP', nodePort }) => ({
    name,
    port,
    protocol,
    nodePort: nodePort === 0 ? undefined : nodePort,
  }))
  return { uid: metadata?.uid ?? '', clusterIP: spec?.clusterIP ?? '', ports }
}

/** Receives the addresses with leases in the store, sorted, at each change. */
type ReportLeases = (addresses: readonly string[]) => void

/**
 * The addresses of the leases in a store, by the keys of the leases. Reports the addresses only if they have changed
 * since the last report.
 */
class LeaseAddresses {
  readonly #byKey = new Map<string, string>()
  readonly #report: ReportLeases
  #reported = '[]'

  constructor(report: ReportLeases) {
    this.#report = report
  }

  set(key: string, address: string | undefined): void {
    if (address === undefined) this.#byKey.delete(key)
    else this.#byKey.set(key, address)
  }

  clear(): void {
    this.#byKey.clear()
  }

  report(addresses = [...this.#byKey.values()].sort()): void {
    const text = JSON.stringify(addresses)
    if (text === this.#reported) return
    this.#reported = text
    this.#report(addresses)
  }
}

/** Follows the leases at the keys that kube-apiserver itself uses, until the signal is aborted. */
export async function followEtcdLeases(
  etcd: EtcdKv,
  prefix: string,
  report: ReportLeases,
  signal: AbortSignal,
): Promise<void> {
  const addresses = new LeaseAddresses(report)
  const keys = new EtcdLeaseKeys(prefix)
  /** The changes that have arrived during the current list request; undefined while there is no such request. */
  let waiting: KeyChange[] | undefined
  const apply = (changes: readonly KeyChange[]): void => {
    for (const { type, key } of changes) {
      addresses.set(key, type === 'deleted' ? undefined : keys.addressOfLease(key))
    }
    addresses.report()
  }
  // The watch may have missed changes, so this lists all leases.
  const listAgain = async (): Promise<void> => {
    const arrived: KeyChange[] = []
    waiting = arrived
    const found = await etcd.list(keys.leases, { signal }).catch(() => undefined)
    // A later list request has begun, and replaces this one.
    if (waiting !== arrived) return
    waiting = undefined
    if (found === undefined) return apply(arrived)
    addresses.clear()
    for (const { key } of found.items) addresses.set(key, keys.addressOfLease(key))
    apply(arrived.filter(({ modRevision }) => modRevision > found.revision))
  }
  const onChange: WatchOptions['onChange'] = (changes) => {
    if (changes === undefined) void listAgain()
    else if (waiting === undefined) apply(changes)
    else waiting.push(...changes)
  }
  await etcd.watch(keys.leases, { onChange, report: () => {}, signal })
}

/** Follows the Lease objects of masters. Ends and rejects as {@link followListings} does. */
export async function followKubernetesLeases(api: KubeApi, report: ReportLeases, signal: AbortSignal): Promise<void> {
  const addresses = new LeaseAddresses(report)
  const query = {
    namespace: LEASE_NAMESPACE,
    labelSelector: LABEL_SELECTOR,
    sendInitialEvents: true,
    timeoutSeconds: WATCH_SECONDS,
    signal,
  }
  for await (const event of api.watch(leases, query)) {
    if (event.type === 'BOOKMARK' || event.type === 'ERROR') continue
    const { metadata } = event.object as Lease
    const holder = event.type === 'DELETED' ? undefined : decodeHolder(metadata?.annotations?.[HOLDER_ANNOTATION])
    addresses.set(metadata?.name ?? '', holder?.addresses[0])
    addresses.report()
  }
}

/** Follows leases in memory, until the signal is aborted. */
export function followMemoryLeases(registry: MemoryLeaseRegistry, report: ReportLeases, signal: AbortSignal): void {
  const addresses = new LeaseAddresses(report)
  const listed = (): readonly string[] => registry.list().map(({ address }) => address)
  const end = registry.subscribe(() => addresses.report([...listed()].sort()))
  signal.addEventListener('abort', end, { once: true })
}

/**
 * Writes these addresses to `default/kubernetes` once, and replaces existing objects. With the reconciler `none` an
 * administrator must do the same, because nothing else maintains the list.
 */
export async function writeStaticList(api: KubeApi, addresses: readonly string[], signal?: AbortSignal): Promise<void> {
  const list = newEndpoints(addresses, endpointPorts(SECURE_PORT))
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: KUBERNETES_SERVICE.namespace } }
  await ifNew(api.create(namespaces, namespace, { signal }))
  for (const kind of [endpoints, endpointSlices] as const) {
    await ifFound(api.delete(kind, KUBERNETES_SERVICE, { signal }))
  }
  await api.create(endpoints, list, { signal })
  await api.create(endpointSlices, sliceOf(list), { signal })
}
