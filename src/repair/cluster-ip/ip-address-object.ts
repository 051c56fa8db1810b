import type { ObjectRef } from '../../kube/api.ts'
import { apiVersionOf, type IpAddress, ipAddresses } from '../../kube/resources.ts'

const familyLabel = 'ipaddress.kubernetes.io/ip-family'
const managedByLabel = 'ipaddress.kubernetes.io/managed-by'
const allocator = 'ipallocator.k8s.io'

/** The IPAddress that gives an address to a Service; `name` is the address in its canonical form. */
export function newIpAddress(name: string, service: ObjectRef): IpAddress {
  return {
    apiVersion: apiVersionOf(ipAddresses),
    kind: ipAddresses.kind,
    metadata: { name, labels: { [familyLabel]: familyOf(name), [managedByLabel]: allocator } },
    spec: { parentRef: { group: '', resource: 'services', namespace: service.namespace ?? '', name: service.name } },
  }
}

/** `IPv4` or `IPv6`, of an address in its canonical form. */
export function familyOf(name: string): 'IPv4' | 'IPv6' {
  return name.includes(':') ? 'IPv6' : 'IPv4'
}

/** Whether it was made by the allocator of ClusterIPs; all others are somebody else's, unless a Service holds the address. */
export function isManagedByAllocator({ metadata }: IpAddress): boolean {
  return metadata?.labels?.[managedByLabel] === allocator
}

/** Whether it has the labels that the allocator gives (`verifyIPAddressLabels`). */
export function hasAllocatorLabels(ipAddress: IpAddress): boolean {
  const { name = '', labels } = ipAddress.metadata ?? {}
  return labels?.[familyLabel] === familyOf(name) && isManagedByAllocator(ipAddress)
}

/** The same with the allocator's labels; everything else, its resourceVersion among it, stays. */
export function withAllocatorLabels(ipAddress: IpAddress): IpAddress {
  const { metadata } = ipAddress
  const labels = {
    ...metadata?.labels,
    [familyLabel]: familyOf(metadata?.name ?? ''),
    [managedByLabel]: allocator,
  }
  return { ...ipAddress, metadata: { ...metadata, labels } }
}

/** The Service that it refers to; undefined when that is no Service. */
export function serviceRefOf({ spec }: IpAddress): (ObjectRef & { readonly namespace: string }) | undefined {
  const { group = '', resource, namespace = '', name = '' } = spec?.parentRef ?? {}
  return group === '' && resource === 'services' ? { namespace, name } : undefined
}

/** Whether it refers to this Service. */
export function refersTo({ spec }: IpAddress, { namespace, name }: ObjectRef): boolean {
  const { parentRef } = spec ?? {}
  return (
    parentRef?.name === name &&
    (parentRef.namespace ?? '') === (namespace ?? '') &&
    parentRef.resource === 'services' &&
    (parentRef.group ?? '') === ''
  )
}

/** What it refers to, as Go writes it in upstream's notes. */
export function describeParent({ spec }: IpAddress): string {
  const { group = '', resource = '', namespace = '', name = '' } = spec?.parentRef ?? {}
  return `&ParentReference{Group:${group},Resource:${resource},Namespace:${namespace},Name:${name},}`
}
