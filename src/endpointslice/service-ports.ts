import type { Pod, Service } from '../kube/resources.ts'
import { findPort, type ServicePort } from '../workloads/pod-rules.ts'
import { type EndpointPort, inHashOrder } from './slice-ports.ts'

/** The ports of a Service as its endpoints have them. Pods for which they are the same get the same list. */
export function portsOfPods(service: Service): (pod: Pod) => readonly EndpointPort[] {
  const ports = service.spec?.ports ?? []
  if (ports.every(({ targetPort }) => typeof targetPort !== 'string')) {
    let common: readonly EndpointPort[] | undefined
    return (pod) => {
      common ??= numbered(ports.map((port) => [port, findPort(pod, port)]))
      return common
    }
  }
  const known = new Map<string, readonly EndpointPort[]>()
  return (pod) => {
    const numbers = ports.map((port) => findPort(pod, port))
    const key = numbers.join()
    let found = known.get(key)
    if (found === undefined) {
      found = numbered(ports.map((port, index) => [port, numbers[index]]))
      known.set(key, found)
    }
    return found
  }
}

/** A port of which a Pod has no number is left out. */
function numbered(
  ports: readonly (readonly [port: ServicePort, number: number | undefined])[],
): readonly EndpointPort[] {
  const found = ports.flatMap(([{ name = '', protocol = 'TCP', appProtocol }, port]): EndpointPort[] =>
    port === undefined ? [] : [{ name, port, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) }],
  )
  return inHashOrder(found)
}
