import { parseAddress } from '../../src/net/address.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { type AllocationRange, addressAllocationRange, parseCidr, portAllocationRange } from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import { encodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import { serviceRange } from '../peers/apiserver.ts'
import { startCluster } from '../peers/cluster.ts'
import type { Etcd } from '../peers/etcd.ts'
import { openOwner } from '../peers/owner.ts'
import { storeAtOnce, storedValues } from '../peers/stored-values.ts'
import { untilPasses } from '../peers/until.ts'
import { stamped } from './stamped.ts'

/** How many Services to store, and how many of them have a NodePort: the first ones. */
export interface MassOptions {
  readonly services: number
  readonly nodePorts: number
}

/** One of the stored Services, in namespace default. */
export interface MassService {
  readonly name: string
  readonly address: string
  readonly nodePort: number | undefined
}

/** What the store of a bootstrapped cluster holds, and a Service of each kind with its IPAddress as they are stored. */
export interface StoreTemplate {
  readonly rest: ReadonlyMap<string, Uint8Array>
  readonly clusterIp: StoredService
  readonly nodePort: StoredService
}

interface StoredService {
  readonly service: Buffer
  readonly ipAddress: Buffer
  /** The values in those bytes that differ in other Services. */
  readonly marks: Marks
}

interface Marks {
  readonly name: string
  readonly address: string
  readonly uid: string
  readonly ipAddressUid: string
  readonly nodePort: number | undefined
}

/** The ranges that all servers of the bench have. */
export const nodePortRange = portAllocationRange(parsePortRange('30000-32767'))
export const clusterIpRange = addressAllocationRange(parseCidr(serviceRange))
export const rangeKeys = {
  clusterIps: '/registry/ranges/serviceips',
  nodePorts: '/registry/ranges/servicenodeports',
} as const
export const ipAddressPrefix = '/registry/ipaddresses/'
/** The addresses of {@link massServices} begin with this; the address of default/kubernetes does not. */
export const massAddressPrefix = '10.1'

/** The value of one label of all Services. It occurs nowhere else in them. */
export const partOf = 'mass'

const servicePrefix = '/registry/services/specs/default/'
/** etcd takes 128 operations in a transaction. */
const operationsAtOnce = 120
/** What a bootstrap creates besides the ranges. */
const bootstrapped = ['namespaces', 'servicecidrs', 'services/specs', 'ipaddresses'].map((kind) => `/registry/${kind}/`)

/**
 * Lets a stock kube-apiserver store a Service of each kind, and reads what it stored. `range`: the range of ClusterIPs;
 * the default range, which all test servers have, has room for 120,000 of {@link massServices}. `managers`: whether
 * objects have managedFields, which take half of a server's memory.
 */
export async function makeTemplate({ range = serviceRange, managers = true } = {}): Promise<StoreTemplate> {
  const owner = openOwner()
  try {
    const { etcd, server } = await startCluster(owner, {
      kind: 'stock',
      flags: [`--service-cluster-ip-range=${range}`],
    })
    const made: Marks[] = []
    for (const service of massServices({ services: 2, nodePorts: 1 })) {
      const created = await untilPasses(
        service.name,
        () => server.api.create<Created>('/api/v1/namespaces/default/services', manifestOf(service)),
        { withinMs: 20_000 },
      )
      const ofIpAddress = `/apis/networking.k8s.io/v1/ipaddresses/${service.address}`
      const ipAddress = await server.api.get<Created>(ofIpAddress)
      if (!managers) {
        const none = { metadata: { managedFields: [{}] } }
        for (const path of [`/api/v1/namespaces/default/services/${service.name}`, ofIpAddress]) {
          await server.api.merge(path, none)
        }
      }
      made.push({ ...service, uid: created.metadata.uid, ipAddressUid: ipAddress.metadata.uid })
    }
    const kubernetes = '/api/v1/namespaces/default/services/kubernetes'
    await untilPasses('default/kubernetes', () => server.api.get(kubernetes), { withinMs: 20_000 })
    const stored = new Map(await storedValues(etcd, '/registry/'))
    const [nodePort, clusterIp] = made.map((marks): StoredService => {
      const { service, ipAddress } = keysOf(marks)
      const taken = { service: stored.get(service), ipAddress: stored.get(ipAddress) }
      stored.delete(service)
      stored.delete(ipAddress)
      return { ...(taken as Pick<StoredService, 'service' | 'ipAddress'>), marks }
    }) as [StoredService, StoredService]
    for (const key of stored.keys()) if (!bootstrapped.some((prefix) => key.startsWith(prefix))) stored.delete(key)
    return { rest: stored, clusterIp, nodePort }
  } finally {
    await owner.close()
  }
}

/** Fills an empty store with what a bootstrapped cluster with these Services holds. Every allocation is correct. */
export async function fillStore(etcd: Etcd, template: StoreTemplate, options: MassOptions): Promise<void> {
  const entries = storedEntries(template, options)
  const worker = async (): Promise<void> => {
    for (;;) {
      const put = new Map<string, Uint8Array>()
      while (put.size < operationsAtOnce) {
        const { value, done } = entries.next()
        if (done) break
        put.set(...value)
      }
      if (put.size === 0) return
      await storeAtOnce(etcd, { put, remove: [] })
    }
  }
  await Promise.all(Array.from({ length: 4 }, worker))
}

/** Yields the entries one by one, because those of a million Services would take gigabytes. */
function* storedEntries(template: StoreTemplate, options: MassOptions): Generator<[string, Uint8Array], undefined> {
  const services = massServices(options)
  yield* template.rest
  yield [rangeKeys.nodePorts, nodePortsTaken(services)]
  for (const service of services) {
    const keys = keysOf(service)
    const stored = storedFor(service, template)
    yield [keys.service, stored.service]
    yield [keys.ipAddress, stored.ipAddress]
  }
}

/** A Service and its IPAddress as they are stored. */
export function storedFor(service: MassService, template: StoreTemplate): Record<'service' | 'ipAddress', Uint8Array> {
  const like = service.nodePort === undefined ? template.clusterIp : template.nodePort
  const own = (uid: string): string => `${uid.slice(0, -12)}${service.name.slice(-6).padStart(12, '0')}`
  const marks = { ...service, uid: own(like.marks.uid), ipAddressUid: own(like.marks.ipAddressUid) }
  return {
    service: remarked(like.service, like.marks, marks),
    ipAddress: remarked(like.ipAddress, like.marks, marks),
  }
}

/**
 * All Services that {@link fillStore} stores, at most a million. All names have one length, and so have all addresses
 * and all ports. The addresses are in 10.0.0.0/8.
 */
export function massServices({ services, nodePorts }: MassOptions): readonly MassService[] {
  return Array.from({ length: services }, (_, index) => {
    const parts = [Math.floor(index / 10_000), Math.floor(index / 100) % 100, index % 100].map((part) => 100 + part)
    const number = String(index).padStart(6, '0')
    return index < nodePorts
      ? { name: `ported-${number}`, address: `10.${parts.join('.')}`, nodePort: 30_000 + index }
      : { name: `simple-${number}`, address: `10.${parts.join('.')}`, nodePort: undefined }
  })
}

/** The range of NodePorts as it is stored when these Services hold their NodePorts. */
export function nodePortsTaken(services: readonly MassService[]): Uint8Array {
  const ports = services.flatMap(({ nodePort }) => (nodePort === undefined ? [] : [nodePort]))
  return taken(nodePortRange, ports)
}

/** The range of ClusterIPs as it is stored, by servers that store it, when these Services hold their ClusterIPs. */
export function clusterIpsTaken(services: readonly MassService[]): Uint8Array {
  return taken(
    clusterIpRange,
    services.map(({ address }) => parseAddress(address)),
  )
}

function taken<Item>(range: AllocationRange<Item>, items: readonly Item[]): Uint8Array {
  const bitmap = new Bitmap(range.size)
  for (const item of items) bitmap.add(range.offsetOf(item) as number)
  return encodeRangeAllocation({ range: range.text, data: bitmap.toBytes() })
}

interface Created {
  readonly metadata: { readonly uid: string }
}

function manifestOf({ name, address, nodePort }: MassService): unknown {
  const port = { name: 'http', port: 80, targetPort: 8080, ...(nodePort !== undefined && { nodePort }) }
  const type = nodePort === undefined ? 'ClusterIP' : 'NodePort'
  const labels = { 'app.kubernetes.io/name': 'bench', 'app.kubernetes.io/part-of': partOf }
  const spec = { type, clusterIP: address, selector: { app: 'bench' }, ports: [port] }
  return { apiVersion: 'v1', kind: 'Service', metadata: { name, labels }, spec }
}

export function keysOf({
  name,
  address,
}: Pick<MassService, 'name' | 'address'>): Record<'service' | 'ipAddress', string> {
  return { service: `${servicePrefix}${name}`, ipAddress: `${ipAddressPrefix}${address}` }
}

function remarked(value: Buffer, from: Marks, to: Marks): Buffer {
  return stamped(
    value,
    new Map<string | Buffer, string | Buffer>([
      ...(['name', 'address', 'uid', 'ipAddressUid'] as const).map((mark) => [from[mark], to[mark]] as const),
      ...(from.nodePort === undefined ? [] : [[portField(from.nodePort), portField(to.nodePort ?? 0)] as const]),
    ]),
  )
}

/** `nodePort`, field 5 of a ServicePort, as protobuf encodes it. */
function portField(port: number): Buffer {
  return Buffer.from([0x28, (port & 0x7f) | 0x80, ((port >> 7) & 0x7f) | 0x80, port >> 14])
}
