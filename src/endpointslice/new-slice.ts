import type { EndpointSlice, Service } from '../kube/resources.ts'
import type { Endpoint } from './pod-endpoint.ts'
import type { AddressType } from './slice-info.ts'
import type { Labels } from './slice-labels.ts'
import type { EndpointPort } from './slice-ports.ts'

const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

/** What a slice is made of. */
export interface SliceContent {
  readonly addressType: AddressType
  readonly labels: Labels
  readonly ports: readonly EndpointPort[]
  readonly endpoints: readonly Endpoint[]
}

/** A slice of a Service, to be created: its name is left to the server. */
export function newSlice(service: Service, { addressType, labels, ports, endpoints }: SliceContent): EndpointSlice {
  const { name = '', namespace, uid = '' } = service.metadata ?? {}
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      generateName: namePrefixOf(name),
      namespace,
      labels,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    addressType,
    endpoints,
    ports,
  } as EndpointSlice
}

/** Whether a slice belongs to this very Service, not to one of the same name that was before it. */
export function isOwnedBy(slice: EndpointSlice, service: Service): boolean {
  const uid = service.metadata?.uid ?? ''
  for (const owner of slice.metadata?.ownerReferences ?? []) {
    if ((owner.uid ?? '') === uid && owner.kind === 'Service' && owner.apiVersion === 'v1') return true
  }
  return false
}

/** What the names of a Service's slices begin with: its name and a dash, where that can begin a name. */
export function namePrefixOf(serviceName: string): string {
  const prefix = `${serviceName}-`
  // Upstream asks whether the prefix without its last two characters and with an `a` instead is a name.
  const masked = `${serviceName.slice(0, -1)}a`
  return masked.length <= 253 && subdomain.test(masked) ? prefix : serviceName
}
