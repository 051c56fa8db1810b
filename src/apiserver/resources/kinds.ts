import { parseAddress } from '../../net/address.ts'
import type { PortRange } from '../../net/host-port.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import type { Draft, Kind } from '../kind.ts'
import { readDraft } from '../object-meta.ts'
import type { Store } from '../store.ts'
import { createObject, removeObject, type WriteContext } from '../writes.ts'
import { ClusterIps, ipAddressLabels, NodePorts } from './allocators.ts'
import { endpointSliceKind, endpointsKind } from './endpoints.ts'
import { ipAddressKind, serviceCidrKind } from './ip-addresses.ts'
import { configMapKind, eventKind, leaseKind, namespaceKind, nodeKind, podKind } from './plain-kinds.ts'
import { type ServiceAllocators, serviceKind } from './services.ts'

/** The field manager of the IPAddresses of Services. */
const allocator = { name: 'kube-apiserver', operation: 'Update' } as const

/** The kinds that are served, over one store. */
export class Kinds {
  readonly all: readonly Kind[]
  readonly context: WriteContext

  constructor(parts: {
    readonly store: Store
    readonly clock: Clock
    readonly random: Random
    readonly nodePortRange: PortRange
    readonly families: readonly string[] | undefined
    /** Whether this server allocates addresses and ports for Services. */
    readonly allocating: boolean
  }) {
    const { store, clock, random } = parts
    const namespaces = store.collection(namespaceKind.resource.plural)
    const addresses = store.collection(ipAddressKind.resource.plural)
    const context = { store, clock, random, namespace: (name: string) => namespaces.get(name), namespaceKind }
    const clusterIps = new ClusterIps(store.collection(serviceCidrKind.resource.plural), addresses, random)
    const families = (): readonly string[] => parts.families ?? familiesOf(clusterIps)
    const allocators: ServiceAllocators = {
      clusterIps,
      nodePorts: new NodePorts(parts.nodePortRange, random),
      takeIp(ip, service) {
        const draft = readDraft(ipAddressKind, ipAddressFor(ip, service))
        createObject(context, ipAddressKind, undefined, draft, { manager: allocator, dryRun: false })
      },
      releaseIp(ip) {
        const live = addresses.get(ip)
        if (live !== undefined) removeObject(ipAddressKind, addresses, ip, live)
      },
    }
    const services = serviceKind({ families, allocators: parts.allocating ? allocators : undefined })
    this.context = context
    this.all = [
      configMapKind,
      endpointsKind,
      namespaceKind,
      nodeKind,
      podKind,
      services,
      leaseKind,
      endpointSliceKind,
      eventKind,
      ipAddressKind,
      serviceCidrKind,
    ]
  }
}

function familiesOf(clusterIps: ClusterIps): readonly string[] {
  const families = clusterIps.families().map((family) => `IPv${family}`)
  return families.length === 0 ? ['IPv4'] : families
}

function ipAddressFor(ip: string, service: Draft): object {
  const { namespace, name } = service.metadata ?? {}
  const address = parseAddress(ip)
  return {
    metadata: { name: address.text, labels: ipAddressLabels(address) },
    spec: { parentRef: { resource: 'services', namespace, name } },
  }
}
