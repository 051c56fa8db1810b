import type { EndpointSlice, Service } from '../../kube/resources.ts'
import { KUBERNETES_SERVICE, type portTexts } from '../../kubernetes-service/identity.ts'
import { SERVICE_PORT } from '../../kubernetes-service/service-plan.ts'
import { byHand, type Command } from './finding.ts'
import { type CheckContext, partOf } from './state.ts'

/** The slice that lists the addresses of the first family. */
export function ownSlice(context: CheckContext): EndpointSlice | undefined {
  return partOf(context, 'kubernetesSlices')?.find(({ metadata }) => metadata?.name === KUBERNETES_SERVICE.name)
}

/**
 * The port of the API servers: the one that most of Endpoints, slice and Service state, so that one wrong object is
 * recognised. If all differ, the first of these that states a port decides. Undefined if none does.
 */
export function securePortOf(context: CheckContext): number | undefined {
  const stated = [
    partOf(context, 'kubernetesEndpoints')?.subsets?.[0]?.ports?.[0]?.port,
    ownSlice(context)?.ports?.[0]?.port,
    targetPortOf(partOf(context, 'kubernetesService')),
  ].filter((port) => port !== undefined)
  return stated.find((port, index) => stated.indexOf(port) !== index) ?? stated[0]
}

/** The `targetPort` of the Service's port 443; undefined if there is none, or if it is not a number. */
export function targetPortOf(service: Service | undefined): number | undefined {
  const port = service?.spec?.ports?.find((one) => one.port === SERVICE_PORT)?.targetPort as unknown
  return typeof port === 'number' ? port : undefined
}

export function portsText(ports: Parameters<typeof portTexts>[0]): string {
  const texts = (ports ?? []).map(({ name, port, protocol, targetPort, nodePort }) => {
    const target = targetPort === undefined ? '' : ` to ${targetPort}`
    const node = nodePort === undefined || nodePort === 0 ? '' : ` at node port ${nodePort}`
    return `port ${name ?? ''} ${port}/${protocol ?? 'TCP'}${target}${node}`
  })
  return texts.length === 0 ? 'no port' : texts.join(', ')
}

/** The remedy if only a master of this cluster knows what to write. */
export function runMaster(): Command {
  return byHand(
    'run apiserver-bootstrap beside an API server, for example as a sidecar: only there are address, port and range known',
  )
}
