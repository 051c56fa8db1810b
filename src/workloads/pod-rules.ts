import type { Pod, Service } from '../kube/resources.ts'

export type ServicePort = NonNullable<NonNullable<Service['spec']>['ports']>[number]

/** Whether the condition Ready of a Pod is True. */
export function isPodReady(_pod: Pod): boolean {
  throw new Error('not yet')
}

/**
 * Whether a Pod is an endpoint of a Service that selects it, ready or not (upstream's `ShouldPodBeInEndpoints`): it has an address and has not ended;
 * one that is being deleted only with `includeTerminating`.
 */
export function isEndpoint(_pod: Pod, _includeTerminating: boolean): boolean {
  throw new Error('not yet')
}

/** Whether the endpoint bears the hostname of the Pod (upstream's `ShouldSetHostname`). */
export function hasHostname(_pod: Pod, _service: Service): boolean {
  throw new Error('not yet')
}

/** The number of the port of a Pod that a port of a Service means; undefined where the Pod has none of that name (upstream's `FindPort`). */
export function findPort(_pod: Pod, _port: ServicePort): number | undefined {
  throw new Error('not yet')
}

/** The Pod's addresses of a family, in its order and in Go's form; malformed ones are read loosely, as Go's ParseIPSloppy does, or left out. */
export function podAddresses(_pod: Pod, _family: 'IPv4' | 'IPv6'): readonly string[] {
  throw new Error('not yet')
}

/** Whether a Service has a ClusterIP (upstream's `IsServiceIPSet`): headless ones have not. */
export function hasClusterIp(_service: Service): boolean {
  throw new Error('not yet')
}
