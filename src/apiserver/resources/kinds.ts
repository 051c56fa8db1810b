import { setMaxListeners } from 'node:events'
import { qualifiedPlural } from '../../kube/resources.ts'
import { parseAddress } from '../../net/address.ts'
import type { PortRange } from '../../net/host-port.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { type Draft, type Kind, member } from '../kind.ts'
import { readDraft } from '../object-meta.ts'
import type { Change, StoredObject } from '../store.ts'
import { createObject, removeObject, type WriteContext } from '../writes.ts'
import { AllocatorMetrics } from './allocator-metrics.ts'
import { ClusterIps, NodePorts } from './allocators.ts'
import { customResourceDefinitionKind } from './custom-resource-definitions.ts'
import { kindsOfDefinition } from './custom-resources.ts'
import { endpointSliceKind, endpointsKind } from './endpoints.ts'
import { coreEventKind, eventKind } from './events.ts'
import { ipAddressKind, serviceCidrKind } from './ip-addresses.ts'
import {
  configMapKind,
  leaseKind,
  namespaceKind,
  secretKind,
  selfSubjectAccessReviewKind,
  serviceAccountKind,
} from './plain-kinds.ts'
import { nodeKind, podKind } from './pods.ts'
import { type ServiceAllocators, serviceKind } from './services.ts'

/** The field manager of the IPAddresses of Services. */
const allocator = { name: 'kube-apiserver', operation: 'Update' } as const

/** The served kinds, which share one store: Kubernetes' own, and those that CustomResourceDefinitions define. */
export class Kinds {
  readonly #context: WriteContext
  readonly #builtIn: readonly Kind[]
  /** What each CustomResourceDefinition defines, by the name of the definition. Older definitions come first. */
  readonly #defined = new Map<string, Definition>()
  readonly #onChange: () => void
  readonly #allocators: ServiceAllocators

  constructor(
    context: WriteContext,
    parts: {
      readonly nodePortRange: PortRange
      readonly families: readonly string[] | undefined
      /** Whether this server allocates addresses and ports for Services. */
      readonly allocating: boolean
      /** Called whenever the kinds have changed. */
      readonly onChange: () => void
    },
  ) {
    const { store, random } = context
    const addresses = store.stored(ipAddressKind)
    const clusterIps = new ClusterIps(store.stored(serviceCidrKind), addresses, random)
    const families = (): readonly string[] => parts.families ?? clusterIps.families()
    const allocators: ServiceAllocators = {
      clusterIps,
      nodePorts: new NodePorts(parts.nodePortRange, random),
      metrics: new AllocatorMetrics(),
      takeIp(ip, service) {
        const draft = readDraft(ipAddressKind, ipAddressFor(ip, service))
        createObject(context, ipAddressKind, undefined, draft, { manager: allocator, dryRun: false })
      },
      releaseIp(ip) {
        const { text } = parseAddress(ip)
        const live = addresses.get(text)
        if (live !== undefined) removeObject(ipAddressKind, addresses, text, live)
      },
    }
    const services = serviceKind({ families, allocators: parts.allocating ? allocators : undefined })
    this.#allocators = allocators
    this.#context = context
    this.#onChange = parts.onChange
    this.#builtIn = [
      configMapKind,
      endpointsKind,
      coreEventKind,
      namespaceKind,
      nodeKind,
      podKind,
      secretKind,
      serviceAccountKind,
      services,
      selfSubjectAccessReviewKind,
      leaseKind,
      endpointSliceKind,
      eventKind,
      ipAddressKind,
      serviceCidrKind,
      customResourceDefinitionKind,
    ]
    store.stored(customResourceDefinitionKind).subscribe((change) => this.#define(change))
  }

  /**
   * The served kinds. A kind of a definition is not served while its group has a built-in kind, or a served kind of an
   * older definition, with the same plural or kind.
   */
  get all(): readonly Kind[] {
    const served = [...this.#builtIn]
    for (const { kinds } of this.#defined.values()) served.push(...kinds.filter((kind) => !isTaken(kind, served)))
    return served
  }

  /** The metrics of the allocators of Services, in the text format of Prometheus. */
  metrics(): string {
    const { clusterIps, nodePorts, metrics } = this.#allocators
    clusterIps.report(metrics)
    nodePorts.report(metrics)
    return metrics.expose()
  }

  #define({ type, object, previous }: Change): void {
    const { name } = object.metadata
    const before = this.#defined.get(name)
    if (type === 'DELETED') this.#defined.delete(name)
    else if (previous !== undefined && equalJson(member(previous, 'spec'), member(object, 'spec'))) return
    else this.#defined.set(name, defined(object))
    before?.definitionChanged.abort()
    this.#onChange()
    // Deferred, so that no write is nested in another.
    if (type === 'DELETED') this.#context.clock.schedule(0, () => this.#removeAll(before?.kinds ?? []))
  }

  /** Removes the objects of a deleted definition, unless their resource is served again. */
  #removeAll(kinds: readonly Kind[]): void {
    const [kind] = kinds
    if (kind === undefined) return
    const name = qualifiedPlural(kind.resource)
    if (this.all.some(({ resource }) => qualifiedPlural(resource) === name)) return
    const objects = this.#context.store.objects(kind)
    for (const key of [...objects.keys('')]) objects.remove(key, objects.get(key) as StoredObject)
  }
}

/**
 * The kinds of a definition, including those that are not served because their name is taken. `definitionChanged` is
 * aborted when the definition changes or is deleted, which ends the watches of its kinds.
 */
interface Definition {
  readonly kinds: readonly Kind[]
  readonly definitionChanged: AbortController
}

function defined(definition: StoredObject): Definition {
  const definitionChanged = new AbortController()
  // Each watch adds a listener.
  setMaxListeners(0, definitionChanged.signal)
  const kinds = kindsOfDefinition(definition).map((kind) => ({ ...kind, definitionChanged: definitionChanged.signal }))
  return { kinds, definitionChanged }
}

function isTaken({ resource: { group, plural, kind } }: Kind, others: readonly Kind[]): boolean {
  return others.some(
    ({ resource }) => resource.group === group && (resource.plural === plural || resource.kind === kind),
  )
}

function ipAddressFor(ip: string, service: Draft): object {
  const { namespace, name } = service.metadata ?? {}
  const { text, family } = parseAddress(ip)
  const labels = {
    'ipaddress.kubernetes.io/ip-family': `IPv${family}`,
    'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
  }
  return {
    metadata: { name: text, labels },
    spec: { parentRef: { resource: 'services', namespace, name } },
  }
}
