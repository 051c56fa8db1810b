import { apiVersionOf, type IpAddress, ipAddresses, type Service } from '../../kube/resources.ts'
import { keyOf } from '../../kube/store.ts'
import type { Finding } from '../finding.ts'
import { clusterIpsOf } from '../service-claims.ts'
import { describeParent, familyOf, isManagedByAllocator, serviceRefOf } from './ip-address-object.ts'
import { holdsAddress } from './service-ip-index.ts'

/** How long kube-apiserver may take over a request: so long an IPAddress may be there before its Service has the address. */
const requestGraceMs = 60_000
/** So long a create that failed, because there is a Service of that name, may take to give its address back. */
const failedCreateGraceMs = 5_000

/** What becomes of an IPAddress. */
export type IpAddressAction =
  | { readonly type: 'keep' }
  /** It may belong to a Service in the making: look again then. */
  | { readonly type: 'wait'; readonly forMs: number }
  | { readonly type: 'delete'; readonly ipAddress: IpAddress; readonly finding: Finding }

/** What is known of an IPAddress. */
export interface IpAddressObservation {
  readonly ipAddress: IpAddress
  /** The Service that it refers to, if there is one. */
  readonly service: Service | undefined
  /** How long it has been there at least, by a clock that cannot be set. */
  readonly ageMs: number
  /** Whether it will be put right: so the notes say. */
  readonly repairing: boolean
}

/**
 * Decides whether an IPAddress that the allocator made may stay, by upstream's rules and graces (`syncIPAddress` in
 * pkg/registry/core/service/ipallocator/controller/repairip.go). Pure. It is more patient where a Service may be getting the address by an
 * update: as the first after ExternalName, as upstream, and also as one of a second family.
 */
export function planIpAddress({ ipAddress, service, ageMs, repairing }: IpAddressObservation): IpAddressAction {
  if (!isManagedByAllocator(ipAddress)) return { type: 'keep' }
  const { name = '' } = ipAddress.metadata ?? {}
  const ref = serviceRefOf(ipAddress)
  const remove = (reason: 'IPAddressNotAllocated' | 'IPAddressWrongReference', fault: string): IpAddressAction => {
    const regarding = { apiVersion: apiVersionOf(ipAddresses), kind: ipAddresses.kind, ...ipAddress }
    return { type: 'delete', ipAddress, finding: { type: 'leak', reason, note: fault, regarding, item: name } }
  }
  if (ref === undefined) {
    const end = repairing ? ': cleaning up' : ''
    const fault = `IPAddress ${name} appears to have been modified, not referencing a Service ${describeParent(ipAddress)}${end}`
    return remove('IPAddressNotAllocated', fault)
  }
  if (service !== undefined && holdsAddress(service, name)) return { type: 'keep' }
  const graceMs = service === undefined ? requestGraceMs : graceOf(ipAddress, service)
  if (ageMs < graceMs) return { type: 'wait', forMs: graceMs - ageMs }
  const what = `IPAddress: ${name} for Service ${keyOf(ref)}`
  if (service === undefined) {
    return remove('IPAddressNotAllocated', `${what} appears to have leaked${repairing ? ': cleaning up' : ''}`)
  }
  return remove('IPAddressWrongReference', `${what} has a wrong reference${repairing ? '; cleaning up' : ''}`)
}

/** How old an IPAddress must be before it is wrong that its Service has not the address. */
function graceOf(ipAddress: IpAddress, service: Service): number {
  if (service.spec?.type === 'ExternalName' || mayGetFamily(service, familyOf(ipAddress.metadata?.name ?? ''))) {
    return requestGraceMs
  }
  // Times of one second may have any order; both are the servers' own.
  const [made = '', serviceMade = ''] = [ipAddress, service].map(({ metadata }) => metadata?.creationTimestamp)
  return made >= serviceMade ? failedCreateGraceMs : 0
}

/** Whether an update may give the Service an address of the family: it has one address, of the other family. */
function mayGetFamily(service: Service, family: 'IPv4' | 'IPv6'): boolean {
  const [only, second] = clusterIpsOf(service)
  return only !== undefined && second === undefined && familyOf(only) !== family
}
