import { randomUUID } from 'node:crypto'
import type { EndpointSlice, Endpoints } from '../../../src/kube/resources.ts'
import { encodeMasterLease } from '../../../src/protobuf/master-lease.ts'
import type { ApiClient } from '../../peers/api-client.ts'
import type { Etcd } from '../../peers/etcd.ts'
import { paths } from '../../peers/kubernetes-service.ts'
import { storeAtOnce, storedValues } from '../../peers/stored-values.ts'

/** The address of the master that everything is about. */
export const own = '192.0.2.5'
/** Its port. Real servers have others; they are told apart from it and put back. */
export const ownPort = 6443

/** Who is listed as a master, in Endpoints and EndpointSlices, without what a server makes up. */
export interface ListState {
  readonly endpoints?: Endpoints | undefined
  /** All in the namespace, by name. */
  readonly slices: readonly EndpointSlice[]
}

/** Where a state is stored and served. */
export interface Place {
  readonly etcd: Etcd
  readonly prefix: string
  readonly api: ApiClient
  /** What stands for {@link ownPort} there. */
  readonly port: number
}

/** What is there. */
export async function readListState({ api, port }: Place): Promise<ListState> {
  const [endpoints, slices] = await Promise.all([
    // A list, because upstream's own looks are counted by their GETs.
    api.get<List<Endpoints>>('/api/v1/namespaces/default/endpoints?fieldSelector=metadata.name%3Dkubernetes'),
    api.get<List<EndpointSlice>>(paths.slices),
  ])
  const [found] = endpoints.items
  return {
    endpoints: found === undefined ? undefined : plain(found, port),
    slices: slices.items.map((slice) => plain(slice, port)).sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1)),
  }
}

/** Puts a state there at one revision, and takes away what was there. */
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

/** Has exactly these other masters live. */
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

/** kube-apiserver reads JSON too, whatever it writes. */
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
