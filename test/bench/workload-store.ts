import { startCluster } from '../peers/cluster.ts'
import type { Etcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { storeAtOnce, storedValues } from '../peers/stored-values.ts'
import { untilPasses } from '../peers/until.ts'
import { type Stamps, stamped } from './stamped.ts'
import {
  type NodeMarks,
  namespaceMarks,
  nodeManifest,
  nodeMarks,
  type PodMarks,
  podManifest,
  podMarks,
  type ServiceMarks,
  serviceManifest,
  serviceMarks,
  type WorkloadShape,
} from './workload-objects.ts'

/** What the store of a bootstrapped cluster holds, and the first object of each kind as it is stored. */
export interface WorkloadTemplate {
  readonly rest: ReadonlyMap<string, Uint8Array>
  readonly namespace: StoredObject
  readonly node: StoredObject
  readonly pod: StoredObject
  readonly service: StoredObject
  readonly ipAddress: StoredObject
  /** How many bytes of JSON the server sends for a Pod. */
  readonly podJsonBytes: number
}

interface StoredObject {
  readonly value: Uint8Array
  /** The UID that the server assigned. */
  readonly uid: string
}

const keys = {
  namespace: ({ namespace }: { readonly namespace: string }) => `/registry/namespaces/${namespace}`,
  node: ({ node }: NodeMarks) => `/registry/minions/${node}`,
  pod: ({ namespace, pod }: PodMarks) => `/registry/pods/${namespace}/${pod}`,
  service: ({ namespace, service }: ServiceMarks) => `/registry/services/specs/${namespace}/${service}`,
  ipAddress: ({ clusterIp }: ServiceMarks) => `/registry/ipaddresses/${clusterIp}`,
} as const

/** What a bootstrap creates, including the ranges. */
const bootstrapped = ['namespaces', 'servicecidrs', 'services/specs', 'ipaddresses', 'ranges'].map(
  (kind) => `/registry/${kind}/`,
)
const operationsAtOnce = 120
const firstShape: WorkloadShape = { namespaces: 1, services: 1, podsPerService: 1, nodes: 1 }
const first = {
  namespace: namespaceMarks(0),
  node: nodeMarks(0),
  service: serviceMarks(0, firstShape),
  pod: podMarks(0, firstShape),
}

/** Lets a stock kube-apiserver store one object of each kind, and reads what it stored. */
export async function makeWorkloadTemplate(): Promise<WorkloadTemplate> {
  const owner = openOwner()
  try {
    const { etcd, server } = await startCluster(owner, { kind: 'stock', flags: ['--endpoint-reconciler-type=none'] })
    const inNamespace = `/api/v1/namespaces/${first.namespace.namespace}`
    const metadata = { name: first.namespace.namespace }
    const namespace = await server.api.create<Created>('/api/v1/namespaces', { metadata })
    const node = await server.api.create<Created>('/api/v1/nodes', nodeManifest(first.node))
    await server.api.update(`/api/v1/nodes/${first.node.node}/status`, nodeManifest(first.node))
    const service = await untilPasses(
      'a Service',
      () => server.api.create<Created>(`${inNamespace}/services`, serviceManifest(first.service)),
      { withinMs: 20_000 },
    )
    const ipAddress = await server.api.get<Created>(`/apis/networking.k8s.io/v1/ipaddresses/${first.service.clusterIp}`)
    const pod = await server.api.create<Created>(`${inNamespace}/pods`, podManifest(first.pod))
    await server.api.update(`${inNamespace}/pods/${first.pod.pod}/status`, podManifest(first.pod))
    const podJsonBytes = JSON.stringify(await server.api.get(`${inNamespace}/pods/${first.pod.pod}`)).length

    const stored = new Map(await storedValues(etcd, '/registry/'))
    const taken = (key: string, { metadata: { uid } }: Created): StoredObject => {
      const value = stored.get(key)
      if (value === undefined) throw new Error(`${key} is not stored`)
      stored.delete(key)
      return { value, uid }
    }
    const objects = {
      namespace: taken(keys.namespace(first.namespace), namespace),
      node: taken(keys.node(first.node), node),
      pod: taken(keys.pod(first.pod), pod),
      service: taken(keys.service(first.service), service),
      ipAddress: taken(keys.ipAddress(first.service), ipAddress),
    }
    for (const key of stored.keys()) if (!bootstrapped.some((prefix) => key.startsWith(prefix))) stored.delete(key)
    return { rest: stored, ...objects, podJsonBytes }
  } finally {
    await owner.close()
  }
}

/**
 * Fills an empty store with what a bootstrapped cluster with these workloads holds. No Service has Endpoints or
 * EndpointSlices.
 */
export async function fillWorkload(etcd: Etcd, template: WorkloadTemplate, shape: WorkloadShape): Promise<void> {
  const batch = new Map<string, Uint8Array>()
  const flush = async (): Promise<void> => {
    if (batch.size > 0) await storeAtOnce(etcd, { put: batch, remove: [] })
    batch.clear()
  }
  for (const [key, value] of valuesOf(template, shape)) {
    batch.set(key, value)
    if (batch.size === operationsAtOnce) await flush()
  }
  await flush()
}

function* valuesOf(template: WorkloadTemplate, shape: WorkloadShape): Generator<readonly [string, Uint8Array]> {
  yield* template.rest
  for (let index = 0; index < shape.namespaces; index++) {
    const marks = namespaceMarks(index)
    const stamps = stampsOf(first.namespace, marks, [template.namespace.uid, marks.namespaceUid])
    yield [keys.namespace(marks), stamped(template.namespace.value, stamps)]
  }
  for (let index = 0; index < shape.nodes; index++) {
    const marks = nodeMarks(index)
    const stamps = stampsOf(first.node, marks, [template.node.uid, marks.nodeUid])
    yield [keys.node(marks), stamped(template.node.value, stamps)]
  }
  for (let index = 0; index < shape.services; index++) {
    const marks = serviceMarks(index, shape)
    const stamps = new Map([
      ...stampsOf(first.service, marks, [template.service.uid, marks.serviceUid]),
      [template.ipAddress.uid, marks.ipAddressUid] as const,
    ])
    yield [keys.service(marks), stamped(template.service.value, stamps)]
    yield [keys.ipAddress(marks), stamped(template.ipAddress.value, stamps)]
  }
  for (let index = 0; index < shape.services * shape.podsPerService; index++) {
    const marks = podMarks(index, shape)
    const stamps = stampsOf(first.pod, marks, [template.pod.uid, marks.podUid])
    yield [keys.pod(marks), stamped(template.pod.value, stamps)]
  }
}

/** The marks in the order in which they are declared: a longer name comes before a name that it contains. */
function stampsOf<Marks extends { readonly [Mark in keyof Marks]: string }>(
  first: Marks,
  marks: Marks,
  uid: readonly [string, string],
): Stamps {
  const names = Object.keys(first) as (keyof Marks)[]
  return new Map<string, string>([...names.map((name) => [first[name], marks[name]] as const), uid])
}

interface Created {
  readonly metadata: { readonly uid: string }
}
