import type { Pod, Service } from '../../src/kube/resources.ts'
import type { ClusterState } from './cluster-state.ts'

/** A port as Endpoints and EndpointSlices have it. */
export interface MemberPort {
  readonly name: string
  readonly port: number
  readonly protocol: string
  readonly appProtocol: string | undefined
}

type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

/** A Pod that a Service selects, with the Service's ports as they resolve for the Pod. */
export interface Member {
  readonly pod: Pod
  readonly ports: readonly MemberPort[]
  readonly isReady: boolean
  readonly isTerminating: boolean
  readonly hostname: string | undefined
}

/** Whether a controller makes endpoints for a Service: the Service selects Pods, and is no alias. */
export function hasEndpoints(service: Service): boolean {
  return service.spec?.type !== 'ExternalName' && service.spec?.selector !== undefined
}

export function isHeadless(service: Service): boolean {
  const ip = service.spec?.clusterIP ?? ''
  return ip === '' || ip === 'None'
}

/** The Pods that can be endpoints of a Service: selected, with an address, and not ended. */
export function membersOf(service: Service, state: ClusterState): readonly Member[] {
  return state.pods
    .filter((pod) => isSelected(pod, service))
    .filter(({ status }) => status?.phase !== 'Failed' && status?.phase !== 'Succeeded')
    .filter(({ status }) => (status?.podIP ?? '') !== '' || (status?.podIPs ?? []).length > 0)
    .map((pod) => ({
      pod,
      ports: (service.spec?.ports ?? []).flatMap((port) => portOf(pod, port)),
      isReady: pod.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True',
      isTerminating: pod.metadata?.deletionTimestamp !== undefined,
      hostname: pod.spec?.subdomain === service.metadata?.name ? pod.spec?.hostname || undefined : undefined,
    }))
}

/** The addresses of a Pod in one family. */
export function addressesOf(pod: Pod, family: string): readonly string[] {
  const isWanted = (ip: string): boolean => ip.includes(':') === (family === 'IPv6')
  return (pod.status?.podIPs ?? []).map(({ ip }) => ip).filter(isWanted)
}

/** The ports as one word, which does not depend on their order. */
export function portsText(
  ports: readonly {
    readonly name?: string | undefined
    readonly port?: number | undefined
    readonly protocol?: string | undefined
    readonly appProtocol?: string | undefined
  }[],
): string {
  const texts = ports.map(({ name, port, protocol, appProtocol }) => {
    return `${name ?? ''}:${port}/${protocol}${appProtocol === undefined ? '' : `(${appProtocol})`}`
  })
  return texts.sort().join('+') || 'no-ports'
}

function isSelected(pod: Pod, service: Service): boolean {
  if (pod.metadata?.namespace !== service.metadata?.namespace) return false
  const labels = pod.metadata?.labels ?? {}
  return Object.entries(service.spec?.selector ?? {}).every(([name, value]) => labels[name] === value)
}

/** Empty if the target port is a name that the Pod does not have. A number is used as it is. */
function portOf(pod: Pod, servicePort: ServicePort): readonly MemberPort[] {
  const { targetPort, name = '', protocol = 'TCP', appProtocol } = servicePort
  if (typeof targetPort !== 'string') return [{ name, port: Number(targetPort), protocol, appProtocol }]
  const sidecars = (pod.spec?.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always')
  for (const container of [...(pod.spec?.containers ?? []), ...sidecars]) {
    for (const port of container.ports ?? []) {
      if (port.name === targetPort && (port.protocol ?? 'TCP') === protocol) {
        return [{ name, port: port.containerPort, protocol, appProtocol }]
      }
    }
  }
  return []
}
