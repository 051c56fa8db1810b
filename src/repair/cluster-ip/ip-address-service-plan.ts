import type { IpAddress, Service } from '../../kube/resources.ts'
import { keyOfObject } from '../../kube/store.ts'
import type { Finding } from '../finding.ts'
import { regardingService } from '../range-claims.ts'
import { ipAddressNameOf } from './ip-address-name.ts'
import {
  familyOf,
  hasAllocatorLabels,
  newIpAddress,
  refersTo,
  serviceRefOf,
  withAllocatorLabels,
} from './ip-address-object.ts'
import { holdsAddress } from './service-ip-index.ts'

/** What one ClusterIP of a Service needs. */
export type ServiceIpAction =
  | { readonly type: 'none' }
  /** Nobody but the Service's owner can put it right. */
  | { readonly type: 'tell'; readonly finding: Finding }
  | { readonly type: 'create'; readonly ipAddress: IpAddress; readonly finding: Finding }
  /** What an IPAddress refers to cannot be changed. */
  | { readonly type: 'recreate'; readonly old: IpAddress; readonly ipAddress: IpAddress; readonly finding: Finding }
  | { readonly type: 'relabel'; readonly ipAddress: IpAddress; readonly finding: Finding }

/** What is known of one ClusterIP of a Service. */
export interface ServiceIpObservation {
  readonly service: Service
  readonly clusterIp: string
  /** The IPAddress with that name. */
  readonly ipAddress: IpAddress | undefined
  /** The Service that the IPAddress refers to, if there is one. */
  readonly parent: Service | undefined
  /** Whether a Service may have the address of that canonical name. */
  readonly inRange: (name: string) => boolean
  /** Whether it will be put right: so the notes say. */
  readonly repairing: boolean
}

/**
 * Decides what to do for one ClusterIP of a Service, in upstream's order (`syncService` in
 * pkg/registry/core/service/ipallocator/controller/repairip.go). Pure. It differs in two cases:
 * an IPAddress whose Service lives but has another address is made anew for the Service that has this one, where upstream waits until it
 * has deleted it as wrong; and wrong labels are put right in place, so that the address is never free meanwhile.
 */
export function planServiceIp(observed: ServiceIpObservation): ServiceIpAction {
  const { service, clusterIp, ipAddress, parent, inRange } = observed
  const name = ipAddressNameOf(clusterIp)
  const finding = (type: Finding['type'], reason: Finding['reason'], note: string): Finding => {
    return { type, reason, note, regarding: regardingService(service), item: name ?? clusterIp }
  }
  if (name === undefined) {
    const note = `Cluster IP ${clusterIp} is not a valid IP; please recreate Service`
    return { type: 'tell', finding: finding('invalid', 'ClusterIPNotValid', note) }
  }
  const where = `[${familyOf(name)}]`
  if (!inRange(name)) {
    const note = `Cluster IP ${where}: ${name} is not within any configured Service CIDR; please recreate service`
    return { type: 'tell', finding: finding('outOfRange', 'ClusterIPOutOfRange', note) }
  }
  const end = observed.repairing ? '; repairing' : ''
  const own = newIpAddress(name, { namespace: service.metadata?.namespace, name: service.metadata?.name ?? '' })
  if (ipAddress === undefined) {
    const note = `Cluster IP ${where}: ${name} is not allocated${end}`
    return { type: 'create', ipAddress: own, finding: finding('repair', 'ClusterIPNotAllocated', note) }
  }
  const key = keyOfObject(service)
  if (!refersTo(ipAddress, { namespace: service.metadata?.namespace, name: service.metadata?.name ?? '' })) {
    if (serviceRefOf(ipAddress) !== undefined && parent !== undefined && holdsAddress(parent, name)) {
      const note = `Cluster IP ${where}:${name} was assigned to multiple services; please recreate service`
      return { type: 'tell', finding: finding('duplicate', 'ClusterIPAlreadyAllocated', note) }
    }
    const note = `the ClusterIP ${where}: ${name} for Service ${key} has a wrong reference${end}`
    const why = finding('repair', 'ClusterIPNotAllocated', note)
    return { type: 'recreate', old: ipAddress, ipAddress: own, finding: why }
  }
  if (hasAllocatorLabels(ipAddress)) return { type: 'none' }
  const note = `the IPAddress of the ClusterIP ${where}: ${name} for Service ${key} has wrong labels${end}`
  // Upstream gives no event of this.
  const why = { ...finding('repair', 'ClusterIPNotAllocated', note), regarding: undefined }
  return { type: 'relabel', ipAddress: withAllocatorLabels(ipAddress), finding: why }
}
