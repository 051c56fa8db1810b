import { KubeError } from '../kube/errors.ts'
import type { Node, Pod, Service } from '../kube/resources.ts'
import { getOrMake } from '../runtime/memo.ts'
import { isEndpoint } from '../workloads/pod-rules.ts'
import { type Endpoint, endpointOf } from './endpoint.ts'
import { type AddressType, type EndpointPort, portsKey, portsOfPods } from './slice.ts'

export interface DesiredEndpointsOptions {
  readonly service: Service
  readonly nodeOf: (name: string) => Node | undefined
  readonly addressType: AddressType
}

/**
 * The endpoints that have the same ports, by the names of their Pods. A group may be empty: a Pod that is left out, or
 * has no address of the family, still creates its group.
 */
interface DesiredGroup {
  readonly ports: readonly EndpointPort[]
  readonly endpoints: ReadonlyMap<string, Endpoint>
}

/** A Pod that is left out because its Node is unknown. */
export interface LeftOutPod {
  readonly pod: string
  /** Empty if the Pod has no Node. */
  readonly node: string
}

interface Group extends DesiredGroup {
  readonly endpoints: Map<string, Endpoint>
  pods: number
}

/** The desired endpoints of a Service for one address type, made from the Pods and grouped by their ports. */
export class DesiredEndpoints {
  readonly leftOut: LeftOutPod[] = []
  readonly #options: DesiredEndpointsOptions
  readonly #portsOf: (pod: Pod) => readonly EndpointPort[]
  readonly #groups = new Map<string, Group>()
  /** The group of the previous Pod, to which the next Pod mostly belongs too. */
  #last: Group | undefined

  /**
   * Copies only these three fields of the options, which may be the whole input of a plan: a plan cache must not hold
   * that input in memory.
   */
  constructor({ service, nodeOf, addressType }: DesiredEndpointsOptions, pods: readonly Pod[]) {
    this.#options = { service, nodeOf, addressType }
    this.#portsOf = portsOfPods(service)
    for (const pod of pods) this.add(pod)
  }

  /** The groups, by the {@link portsKey} of their ports. */
  get groups(): ReadonlyMap<string, DesiredGroup> {
    return this.#groups
  }

  add(pod: Pod): void {
    if (!isEndpoint(pod, true)) return
    const { service, nodeOf, addressType } = this.#options
    const group = this.#groupOf(this.#portsOf(pod))
    group.pods++
    const name = pod.metadata?.name ?? ''
    const nodeName = pod.spec?.nodeName ?? ''
    const node = nodeOf(nodeName)
    if (node === undefined && service.spec?.publishNotReadyAddresses !== true) {
      this.leftOut.push({ pod: name, node: nodeName })
      return
    }
    const endpoint = endpointOf(pod, node, service, addressType)
    if (endpoint.addresses.length > 0) group.endpoints.set(name, endpoint)
  }

  /** Removes an added Pod, which must not have been left out. */
  remove(pod: Pod): void {
    if (!isEndpoint(pod, true)) return
    const ports = this.#portsOf(pod)
    const group = this.#groupOf(ports)
    group.endpoints.delete(pod.metadata?.name ?? '')
    if (--group.pods > 0) return
    this.#groups.delete(portsKey(ports))
    this.#last = undefined
  }

  #groupOf(ports: readonly EndpointPort[]): Group {
    if (this.#last?.ports === ports) return this.#last
    this.#last = getOrMake(this.#groups, portsKey(ports), () => ({ ports, endpoints: new Map(), pods: 0 }))
    return this.#last
  }
}

/**
 * Combines the errors of a Service's sync. The message has each distinct message once, in the form of upstream's
 * aggregated errors. The cause is the first error of the API server, if there is one.
 */
export class SyncFailure extends Error {
  override name = 'SyncFailure'

  constructor(errors: readonly Error[]) {
    const messages = [...new Set(errors.map(({ message }) => message))]
    const refused = errors.find(({ cause }) => cause instanceof KubeError)
    super(messages.length === 1 ? messages[0] : `[${messages.join(', ')}]`, { cause: refused?.cause })
  }
}

export function leftOutError(serviceKey: string, { pod, node }: LeftOutPod): Error {
  return new Error(`skipping Pod ${pod} for Service ${serviceKey}: Node ${node} Not Found`)
}
