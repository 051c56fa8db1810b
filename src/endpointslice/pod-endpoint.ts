import type { EndpointSlice, Node, Pod, Service } from '../kube/resources.ts'
import { hasHostname, isPodReady, isTerminating, podAddresses } from '../workloads/pod-rules.ts'
import type { AddressType } from './slice-info.ts'

export type Endpoint = NonNullable<EndpointSlice['endpoints']>[number]

type EndpointConditions = NonNullable<Endpoint['conditions']>
type ObjectReference = NonNullable<Endpoint['targetRef']>

const zoneLabel = 'topology.kubernetes.io/zone'

/** A Pod as an endpoint, and what else than the Pod it was made from. */
interface Made {
  readonly endpoint: Endpoint
  readonly addressType: AddressType
  readonly publishNotReady: boolean
  readonly hostname: boolean
  readonly zone: string | undefined
}

const made = new WeakMap<Pod, Made[]>()

/** The zone of a Node, where it says one. */
export function zoneOf(node: Node | undefined): string | undefined {
  return node?.metadata?.labels?.[zoneLabel] || undefined
}

/**
 * A Pod as an endpoint of a Service's slices of an address type, with all its addresses of that family: none may be left (upstream's `podToEndpoint`). The
 * same object as long as nothing that it is made of changes.
 */
export function endpointOf(pod: Pod, node: Node | undefined, service: Service, addressType: AddressType): Endpoint {
  const publishNotReady = service.spec?.publishNotReadyAddresses === true
  const hostname = hasHostname(pod, service)
  const zone = zoneOf(node)
  let known = made.get(pod)
  if (known === undefined) {
    known = []
    made.set(pod, known)
  }
  for (const one of known) {
    if (
      one.addressType === addressType &&
      one.publishNotReady === publishNotReady &&
      one.hostname === hostname &&
      one.zone === zone
    )
      return one.endpoint
  }
  const endpoint = makeEndpoint(pod, { addressType, publishNotReady, hostname, zone })
  // A Node seldom gets another zone; what was made with the former one is of no more use then.
  const rest = known.filter((one) => one.zone === zone)
  made.set(pod, [...rest, { endpoint, addressType, publishNotReady, hostname, zone }])
  return endpoint
}

function makeEndpoint(pod: Pod, { addressType, publishNotReady, hostname, zone }: Omit<Made, 'endpoint'>): Endpoint {
  const { namespace, name, uid } = pod.metadata ?? {}
  const { nodeName, hostname: ownHostname } = pod.spec ?? {}
  const serving = isPodReady(pod)
  const terminating = isTerminating(pod)
  return {
    addresses: [...podAddresses(pod, addressType)].sort(),
    conditions: conditionsOf(publishNotReady || (serving && !terminating), serving, terminating),
    ...(hostname && ownHostname !== undefined ? { hostname: ownHostname } : {}),
    targetRef: { kind: 'Pod', namespace, name, uid } as ObjectReference,
    ...(nodeName ? { nodeName } : {}),
    ...(zone === undefined ? {} : { zone }),
  }
}

const yesOrNo = [false, true] as const
/** All that there are: every endpoint shares one of them. */
const conditions: readonly EndpointConditions[] = yesOrNo.flatMap((ready) =>
  yesOrNo.flatMap((serving) => yesOrNo.map((terminating) => ({ ready, serving, terminating }))),
)

function conditionsOf(ready: boolean, serving: boolean, terminating: boolean): EndpointConditions {
  return conditions[Number(ready) * 4 + Number(serving) * 2 + Number(terminating)] as EndpointConditions
}
