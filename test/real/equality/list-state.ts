import { randomUUID } from 'node:crypto'
import type { EndpointSlice, Endpoints } from '../../../src/kube/resources.ts'
import { encodeMasterLease } from '../../../src/protobuf/master-lease.ts'
import type { ApiClient } from '../../peers/api-client.ts'
import type { Etcd } from '../../peers/etcd.ts'
import { paths } from '../../peers/kubernetes-service.ts'
import { storeAtOnce, storedValues } from '../../peers/stored-values.ts'

/** The address of the master under test. */
export const own = '192.0.2.5'
/**
 * Its port. Real servers have other ports: a write replaces this port by the one of the server, and a read restores it.
 */
export const ownPort = 6443

/** The masters that are listed in Endpoints and EndpointSlices, without the fields that a server generates. */
export interface ListState {
  readonly endpoints?: Endpoints | undefined
  /** All slices in the namespace, sorted by name. */
  readonly slices: readonly EndpointSlice[]
}

/** Where a state is stored and served. */
export interface Place {
  readonly etcd: Etcd
  readonly prefix: string
  readonly api: ApiClient
  /** The port of the server, in place of {@link ownPort}. */
  readonly port: number
}

export async function readListState({ api, port }: Place): Promise<ListState> {
  const [endpoints, slices] = await Promise.all([
    // A list, because the number of GETs counts upstream's own reconciliations.
    api.get<List<Endpoints>>('/api/v1/namespaces/default/endpoints?fieldSelector=metadata.name%3Dkubernetes'),
    api.get<List<EndpointSlice>>(paths.slices),
  ])
  const [found] = endpoints.items
  return {
    endpoints: found === undefined ? undefined : plain(found, port),
    slices: slices.items.map((slice) => plain(slice, port)).sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1)),
  }
}

/** Replaces the stored state by this one, at one revision. */
export async function writeListState({ etcd, prefix, port }: Place, state: ListState): Promise<void> {
  const put = new Map<string, Uint8Array>()
  if (state.endpoints !== undefined) {
    put.set(`${prefix}/services/endpoints/default/kubernetes`, storedJson('v1', 'Endpoints', state.endpoints, port))
  }
  for (const slice of state.slices) {
    const value = storedJson('discovery.k8s.io/v1', 'EndpointSlice', slice, port)
    put.set(`${prefix}/endpointslices/default/${nameOf(slice)}`, value)
  }
  const present = await Promise.all([
    storedValues(etcd, `${prefix}/endpointslices/default/`),
    storedValues(etcd, `${prefix}/services/endpoints/default/`),
  ])
  const remove = present.flatMap((values) => [...values.keys()]).filter((key) => !put.has(key))
  await storeAtOnce(etcd, { put, remove })
}

/** Writes leases so that exactly these other masters are live. */
export async function writeLeases({ etcd, prefix }: Place, addresses: readonly string[]): Promise<void> {
  const keyOf = (address: string): string => `${prefix}/masterleases/${address}`
  const put = new Map(addresses.map((address) => [keyOf(address), encodeMasterLease(address)]))
  const present = await storedValues(etcd, keyOf(''))
  const remove = [...present.keys()].filter((key) => !put.has(key) && key !== keyOf(own))
  await storeAtOnce(etcd, { put, remove })
}

interface List<T> {
  readonly items: readonly T[]
}

function nameOf(object: Endpoints | EndpointSlice): string {
  return object.metadata?.name ?? ''
}

/** kube-apiserver also reads JSON, whatever format it writes. */
function storedJson(apiVersion: string, kind: string, object: Endpoints | EndpointSlice, port: number): Buffer {
  const metadata = { ...object.metadata, uid: randomUUID(), creationTimestamp: '2026-01-01T00:00:00Z' }
  return Buffer.from(JSON.stringify(withPort({ apiVersion, kind, ...object, metadata }, ownPort, port)))
}

function plain<T extends Endpoints | EndpointSlice>(object: T, port: number): T {
  const { apiVersion: _apiVersion, kind: _kind, ...content } = object
  const { uid, resourceVersion, creationTimestamp, managedFields, generation, ...metadata } = content.metadata ?? {}
  return withPort({ ...content, metadata }, port, ownPort) as T
}

function withPort<T>(value: T, from: number, to: number): T {
  return JSON.parse(JSON.stringify(value), (key, inner) => (key === 'port' && inner === from ? to : inner))
}
