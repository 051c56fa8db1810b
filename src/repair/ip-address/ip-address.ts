import type { ObjectRef } from '../../kube/api.ts'
import type { Packing } from '../../kube/packed-objects.ts'
import { apiVersionOf, type IpAddress, ipAddresses } from '../../kube/resources.ts'
import { picked } from '../../kube/shared-values.ts'
import { familyOf } from '../../net/address.ts'
import { canonicalAddress } from '../../net/stored-address.ts'
import { trimmedReader } from '../../protobuf/trimmed-objects.ts'

const familyLabel = 'ipaddress.kubernetes.io/ip-family'
const managedByLabel = 'ipaddress.kubernetes.io/managed-by'
const allocator = 'ipallocator.k8s.io'

/** The IPAddress that allocates an address to a Service; `name` is the address in its canonical form. */
export function newIpAddress(name: string, service: ObjectRef): IpAddress {
  return {
    apiVersion: apiVersionOf(ipAddresses),
    kind: ipAddresses.kind,
    metadata: { name, labels: { [familyLabel]: familyOf(name), [managedByLabel]: allocator } },
    spec: { parentRef: { group: '', resource: 'services', namespace: service.namespace ?? '', name: service.name } },
  }
}

/**
 * Whether kube-apiserver's allocator manages this IPAddress. The repair leaves all others alone, unless a Service holds
 * the address.
 */
export function isManagedByAllocator({ metadata }: IpAddress): boolean {
  return metadata?.labels?.[managedByLabel] === allocator
}

/** Retains the fields that the repair needs. @throws TypeError for a field of the wrong type */
export function trimIpAddress({ metadata, spec }: IpAddress): IpAddress {
  const { name, uid, resourceVersion, labels } = metadata ?? {}
  const { parentRef } = spec ?? {}
  // A foreign server may send null, which a kube-apiserver never does.
  const { group, resource, namespace, name: parentName } = parentRef ?? {}
  if (![group, resource, namespace, parentName].every((part) => typeof (part ?? '') === 'string')) {
    throw new TypeError('a part of the reference is not a string')
  }
  return {
    metadata: { name, uid, resourceVersion, labels: labels && picked(labels, allocatorLabels) },
    spec: { parentRef: parentRef ? { group, resource, namespace, name: parentName ?? undefined } : undefined },
  } as Partial<IpAddress> as IpAddress
}

const allocatorLabels = [familyLabel, managedByLabel] as const
const identity = { name: true, uid: true, resourceVersion: true, labels: true } as const

trimIpAddress.protobuf = trimmedReader('networking/v1.IPAddress', {
  metadata: identity,
  spec: { parentRef: { group: true, resource: true, namespace: true, name: true } },
})

type SharedReference = { readonly [part in 'group' | 'resource' | 'namespace']?: string }

/**
 * The Services' IPAddresses of one family in one namespace share the labels and all of the reference but the name,
 * unless somebody has changed them.
 */
trimIpAddress.packing = {
  split({ metadata, spec }) {
    const { uid, resourceVersion, labels } = metadata ?? {}
    const { name, ...parentRef } = spec?.parentRef ?? {}
    return { texts: [uid, resourceVersion, name], shared: { labels, parentRef: spec?.parentRef && parentRef } }
  },
  join({ name }, [uid, resourceVersion, parentName], shared) {
    const { labels, parentRef } = shared as { readonly labels?: object; readonly parentRef?: SharedReference }
    const { group, resource, namespace } = parentRef ?? {}
    return {
      metadata: { name, uid, resourceVersion, labels },
      spec: { parentRef: parentRef && { group, resource, namespace, name: parentName } },
    } as object as IpAddress
  },
} satisfies Packing<IpAddress>

const ofAllocator = { [managedByLabel]: allocator }

/** Retains what identifies an IPAddress, and its label `managed-by` if kube-apiserver's allocator manages it. */
export function identityOfIpAddress(ipAddress: IpAddress): IpAddress {
  const { name, uid, resourceVersion } = ipAddress.metadata ?? {}
  const labels = isManagedByAllocator(ipAddress) ? ofAllocator : undefined
  return { metadata: { name, uid, resourceVersion, labels } } as Partial<IpAddress> as IpAddress
}

identityOfIpAddress.packing = {
  split: ({ metadata }) => ({
    texts: [metadata?.uid, metadata?.resourceVersion],
    shared: { labels: metadata?.labels },
  }),
  join: ({ name }, [uid, resourceVersion], shared) =>
    identityOfIpAddress({ metadata: { ...shared, name, uid, resourceVersion } } as IpAddress),
} satisfies Packing<IpAddress>

identityOfIpAddress.protobuf = trimmedReader('networking/v1.IPAddress', { metadata: identity })

/** Whether the IPAddress has the labels that the allocator sets (`verifyIPAddressLabels`). */
export function hasAllocatorLabels(ipAddress: IpAddress): boolean {
  const { name = '', labels } = ipAddress.metadata ?? {}
  return labels?.[familyLabel] === familyOf(name) && isManagedByAllocator(ipAddress)
}

/** The IPAddress with the allocator's labels. Everything else stays, including the resourceVersion. */
export function withAllocatorLabels(ipAddress: IpAddress): IpAddress {
  const { metadata } = ipAddress
  const labels = {
    ...metadata?.labels,
    [familyLabel]: familyOf(metadata?.name ?? ''),
    [managedByLabel]: allocator,
  }
  return { ...ipAddress, metadata: { ...metadata, labels } }
}

/**
 * The Service that the IPAddress refers to; undefined if it refers to an object of another kind. The Service need not
 * exist.
 */
export function serviceRefOf({ spec }: IpAddress): (ObjectRef & { readonly namespace: string }) | undefined {
  const { group = '', resource, namespace = '', name = '' } = spec?.parentRef ?? {}
  return group === '' && resource === 'services' ? { namespace, name } : undefined
}

export function refersTo({ spec }: IpAddress, { namespace, name }: ObjectRef): boolean {
  const { parentRef } = spec ?? {}
  return (
    parentRef?.name === name &&
    (parentRef.namespace ?? '') === (namespace ?? '') &&
    parentRef.resource === 'services' &&
    (parentRef.group ?? '') === ''
  )
}

/** The reference to the parent, in the form of upstream's notes. */
export function describeParent({ spec }: IpAddress): string {
  const { group = '', resource = '', namespace = '', name = '' } = spec?.parentRef ?? {}
  return `&ParentReference{Group:${group},Resource:${resource},Namespace:${namespace},Name:${name},}`
}

/** A longer text counts as malformed, although Go would ignore any number of leading zeros. */
const LONGEST_ADDRESS = 256

/**
 * The name of the IPAddress of a ClusterIP: the address as Go writes it; undefined for a malformed address. Reads as
 * loosely as `ParseIPSloppy` in k8s.io/utils/net, which Services of old clusters need: leading zeros are ignored
 * (`010.0.0.1` is 10.0.0.1), and an IPv4 address mapped into IPv6 is an IPv4 address.
 */
export function ipAddressNameOf(clusterIp: string): string | undefined {
  return clusterIp.length > LONGEST_ADDRESS ? undefined : canonicalAddress(clusterIp)
}

/** The name of the IPAddress of a ClusterIP, or the text itself if it is malformed: a key for the address. */
export function lookupNameOf(clusterIp: string): string {
  return ipAddressNameOf(clusterIp) ?? clusterIp
}
