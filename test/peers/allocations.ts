import type { IpAddress, KubeEvent, Service } from '../../src/kube/resources.ts'
import type { ApiClient, SeenEvent } from './api-client.ts'
import type { Etcd } from './etcd.ts'
import type { Owner } from './owner.ts'
import { numberIn, type StoredRange, storedRange } from './stored-ranges.ts'
import { untilPasses } from './until.ts'

/** Reads what Services hold, and checks that a server's allocators have recorded it, without using the program. */

export const allocationPaths = {
  allServices: '/api/v1/services',
  services: '/api/v1/namespaces/default/services',
  ipAddresses: '/apis/networking.k8s.io/v1/ipaddresses',
  /** The Events about Services in this namespace, and about objects without a namespace. */
  events: '/apis/events.k8s.io/v1/namespaces/default/events',
} as const

/** The labels of every IPAddress of the allocator. */
export const ipAddressLabels = {
  'ipaddress.kubernetes.io/ip-family': 'IPv4',
  'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
} as const

/** The prefix in etcd. */
export const ipAddressPrefix = '/registry/ipaddresses/'

type ListOf<T> = { readonly items: readonly T[] }

/** Everything that an API server has allocated and to whom. */
export interface Allocations {
  readonly services: readonly Service[]
  /** Undefined on a server that serves none. */
  readonly ipAddresses: readonly IpAddress[] | undefined
  /** Undefined where there is none. */
  readonly clusterIps: StoredRange | undefined
  readonly nodePorts: StoredRange | undefined
}

/** Without `etcd` the bitmaps are left out. */
export interface AllocationsOf {
  readonly server: { readonly api: ApiClient }
  readonly etcd?: Etcd
}

export async function readAllocations({ server, etcd }: AllocationsOf): Promise<Allocations> {
  const [services, ipAddresses, clusterIps, nodePorts] = await Promise.all([
    server.api.get<ListOf<Service>>(allocationPaths.allServices),
    server.api.find<ListOf<IpAddress>>(allocationPaths.ipAddresses),
    etcd && storedRange(etcd, 'serviceips'),
    etcd && storedRange(etcd, 'servicenodeports'),
  ])
  return { services: services.items, ipAddresses: ipAddresses?.items, clusterIps, nodePorts }
}

/** Describes every problem; empty when all that Services hold is allocated to them, and nothing else is. Pure. */
export function allocationProblems(
  { services, ipAddresses, clusterIps, nodePorts }: Allocations,
  { mayLeak = false }: { /** Bits that nobody holds are no problem. */ readonly mayLeak?: boolean } = {},
): readonly string[] {
  const addresses = services.flatMap((service) => addressesOf(service).map((ip) => ({ ip, name: nameOf(service) })))
  const ports = new Set(services.flatMap(portsOf))
  return [
    ...(ipAddresses === undefined ? [] : ipAddressProblems(addresses, ipAddresses)),
    ...(ipAddresses === undefined && clusterIps === undefined ? ['no bitmap of ClusterIPs'] : []),
    ...bitProblems('ClusterIP', clusterIps, new Set(addresses.map(({ ip }) => ip)), mayLeak),
    ...bitProblems('NodePort', nodePorts, ports, mayLeak),
  ]
}

/** Waits until there is no problem, and returns the allocations. */
export function whenAllocated(
  of: AllocationsOf,
  withinMs: number,
  options?: Parameters<typeof allocationProblems>[1],
): Promise<Allocations> {
  return untilPasses(
    'all allocations to be right',
    async () => {
      const allocations = await readAllocations(of)
      const problems = allocationProblems(allocations, options)
      if (problems.length > 0) throw new Error(`${problems.length}: ${problems.slice(0, 5).join('; ')}`)
      return allocations
    },
    { withinMs },
  )
}

/** A Service with one port and no endpoints. */
export function serviceNamed(name: string, spec: Readonly<Record<string, unknown>> = {}): unknown {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'default' },
    spec: { ports: [{ port: 80 }], ...spec },
  }
}

/** Creates Services called `<prefix>-0` and on, several at a time. */
export async function createServices(
  api: ApiClient,
  prefix: string,
  count: number,
  spec: Readonly<Record<string, unknown>> = {},
): Promise<readonly Service[]> {
  const names = Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
  return severalAtATime(names, (name) => api.create<Service>(allocationPaths.services, serviceNamed(name, spec)))
}

/** Deletes Services, several at a time. */
export async function deleteServices(api: ApiClient, services: readonly Service[]): Promise<void> {
  await severalAtATime(services, ({ metadata }) => api.delete(`${allocationPaths.services}/${metadata?.name}`))
}

/** Whether the program, not an API server, created or changed the IPAddress. */
export function isMadeByTheProgram({ metadata }: IpAddress): boolean {
  return JSON.stringify(metadata?.managedFields ?? []).includes('"apiserver-bootstrap"')
}

export interface IpAddressCount {
  readonly added: number
  readonly deleted: number
  stop(): void
}

/** Counts the IPAddresses that are created or deleted from now on. */
export async function countIpAddresses(owner: Owner, api: ApiClient): Promise<IpAddressCount> {
  const stop = new AbortController()
  const count = { added: 0, deleted: 0, stop: () => stop.abort() }
  const { metadata } = await api.get<{ readonly metadata: { readonly resourceVersion: string } }>(
    `${allocationPaths.ipAddresses}?limit=1`,
  )
  owner.after(count.stop)
  void api.watch(
    `${allocationPaths.ipAddresses}?resourceVersion=${metadata.resourceVersion}`,
    ({ type }: SeenEvent<IpAddress>) => {
      if (type === 'ADDED') count.added += 1
      if (type === 'DELETED') count.deleted += 1
    },
    stop.signal,
  )
  return count
}

/** The events in the namespace `default` that have this reason. */
export async function eventsFor(api: ApiClient, reason: string): Promise<readonly KubeEvent[]> {
  const { items } = await api.get<ListOf<KubeEvent>>(allocationPaths.events)
  return items.filter((event) => event.reason === reason)
}

/** The ClusterIPs that a Service holds. */
export function addressesOf({ spec }: Service): readonly string[] {
  return (spec?.clusterIPs ?? []).filter((ip) => ip !== 'None' && ip !== '')
}

/** The NodePorts that a Service holds, each once. */
export function portsOf({ spec }: Service): readonly number[] {
  const ports = (spec?.ports ?? []).map(({ nodePort = 0 }) => nodePort)
  return [...new Set([...ports, spec?.healthCheckNodePort ?? 0])].filter((port) => port !== 0)
}

function nameOf({ metadata }: Service): string {
  return `${metadata?.namespace}/${metadata?.name}`
}

function ipAddressProblems(
  held: readonly { readonly ip: string; readonly name: string }[],
  ipAddresses: readonly IpAddress[],
): readonly string[] {
  const byName = new Map(ipAddresses.map((ipAddress) => [ipAddress.metadata?.name, ipAddress]))
  const names = new Set(held.map(({ ip, name }) => `${ip} ${name}`))
  const missing = held.flatMap(({ ip, name }) => {
    const ipAddress = byName.get(ip)
    if (ipAddress === undefined) return [`${name} has no IPAddress ${ip}`]
    const labels = Object.entries(ipAddressLabels)
    return labels.every(([key, value]) => ipAddress.metadata?.labels?.[key] === value) ? [] : [`labels of ${ip}`]
  })
  const foreign = ipAddresses.flatMap(({ metadata, spec }) => {
    const { group = '', resource, namespace, name } = spec?.parentRef ?? {}
    const isRight = group === '' && resource === 'services' && names.has(`${metadata?.name} ${namespace}/${name}`)
    return isRight ? [] : [`IPAddress ${metadata?.name} names ${group} ${resource} ${namespace}/${name}`]
  })
  return [...missing, ...foreign]
}

function bitProblems(
  what: string,
  stored: StoredRange | undefined,
  held: ReadonlySet<string | number>,
  mayLeak: boolean,
): readonly string[] {
  if (stored === undefined) return []
  const numbers = new Map([...held].map((item) => [numberIn(stored, item), item]))
  const missing = [...numbers].filter(([number]) => !stored.taken.has(number))
  const leaked = mayLeak ? [] : [...stored.taken].filter((number) => !numbers.has(number))
  return [
    ...missing.map(([, item]) => `${what} ${item} has no bit`),
    ...leaked.map((number) => `bit ${number} of the ${what}s is nobody's`),
  ]
}

async function severalAtATime<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const results: Result[] = []
  const left = [...items]
  const worker = async (): Promise<void> => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) results.push(await work(item))
  }
  await Promise.all(Array.from({ length: 8 }, worker))
  return results
}
