import { apiVersionOf, type IpAddress, ipAddresses, type Service } from '../../kube/resources.ts'
import { keyOf } from '../../kube/store.ts'
import type { Finding } from '../finding.ts'
import { describeParent, isManagedByAllocator, serviceRefOf } from './ip-address-object.ts'
import { holdsAddress } from './service-ip-index.ts'

/** How long kube-apiserver may take over a request: so long an IPAddress may be there before its Service has the address. */
const graceMs = 60_000

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
 * Decides whether an IPAddress that the allocator made may stay, by upstream's rules (`syncIPAddress` in
 * pkg/registry/core/service/ipallocator/controller/repairip.go). Pure.
 *
 * An IPAddress that its Service has not is given the whole time of a request, as upstream gives one of an ExternalName Service. Upstream gives
 * others 5 s or none; but it may have been taken for a second family, or by a create that waits while a Service of that name is deleted, and
 * then the Service would be stored with an address that is free.
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
  if (ageMs < graceMs) return { type: 'wait', forMs: graceMs - ageMs }
  const what = `IPAddress: ${name} for Service ${keyOf(ref)}`
  if (service === undefined) {
    return remove('IPAddressNotAllocated', `${what} appears to have leaked${repairing ? ': cleaning up' : ''}`)
  }
  return remove('IPAddressWrongReference', `${what} has a wrong reference${repairing ? '; cleaning up' : ''}`)
}
