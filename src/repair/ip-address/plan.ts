import type { ObjectRef } from '../../kube/api.ts'
import { apiVersionOf, type IpAddress, ipAddresses, type Service } from '../../kube/resources.ts'
import { keyOf, keyOfObject, refOfObject } from '../../kube/store.ts'
import { familyOf } from '../../net/address.ts'
import type { Steps } from '../../runtime/steps.ts'
import { regardingService } from '../bitmap/claims.ts'
import { REQUEST_TIMEOUT_MS } from '../repair.ts'
import type { Finding } from '../reporter.ts'
import { clusterIpsOf } from '../service-claims.ts'
import {
  describeParent,
  hasAllocatorLabels,
  ipAddressNameOf,
  isManagedByAllocator,
  lookupNameOf,
  newIpAddress,
  refersTo,
  serviceRefOf,
} from './ip-address.ts'
import { holdsAddress } from './service-ips.ts'

/** What is known of Services and IPAddresses. Every `name` is the canonical form of an address. */
export interface ServiceIpView {
  /** The Services that hold the address, the oldest first. */
  holdersOf(name: string): readonly Service[]
  serviceOf(ref: ObjectRef): Service | undefined
  ipAddressOf(name: string): IpAddress | undefined
  /** How long an IPAddress has existed at least, in milliseconds. */
  ageMs(ipAddress: IpAddress): number
  /** How long an IPAddress has been known as an orphan, in milliseconds; 0 if it is not known as one. */
  orphanedMs(ipAddress: IpAddress): number
  /** Whether some ServiceCIDR contains the address. */
  inRange(name: string): boolean
  /** Whether writes will follow, which the notes of the findings then announce. */
  readonly repairing: boolean
}

/**
 * The actions for one address, whose canonical form is `name`. At most one of them writes: a free address goes to the
 * oldest of its Services. Pure.
 */
export function planAddress(name: string, view: ServiceIpView): readonly ServiceIpAction[] {
  const actions: ServiceIpAction[] = []
  let ipAddress = view.ipAddressOf(name)
  let parent = ipAddress === undefined ? undefined : parentOf(ipAddress, view)
  for (const service of view.holdersOf(name)) {
    const { inRange, repairing } = view
    const clusterIp = clusterIpsOf(service).find((text) => lookupNameOf(text) === name) ?? name
    const action = planServiceIp({ service, clusterIp, ipAddress, parent, inRange, repairing })
    if (action.type === 'create' || action.type === 'recreate') {
      ipAddress = action.ipAddress
      parent = service
    }
    if (action.type !== 'none') actions.push(action)
  }
  return actions
}

export function planExisting(ipAddress: IpAddress, view: ServiceIpView): IpAddressAction {
  const { repairing } = view
  return planIpAddress({ ipAddress, service: parentOf(ipAddress, view), ageMs: view.ageMs(ipAddress), repairing })
}

/** The addresses of Services that have no IPAddress or a wrong one, or that are outside all ranges. Pure. */
export function* namesToCheck(services: Iterable<Service>, view: ServiceIpView): Steps<ReadonlySet<string>> {
  const names = new Set<string>()
  for (const service of services) {
    const ref = refOfObject(service)
    for (const text of clusterIpsOf(service)) {
      // Normally the text is the name, and need not be parsed.
      const ipAddress = view.ipAddressOf(text)
      const inSync = ipAddress !== undefined && refersTo(ipAddress, ref) && hasAllocatorLabels(ipAddress)
      if (!inSync || !view.inRange(text)) names.add(lookupNameOf(text))
    }
    yield
  }
  return names
}

/**
 * The view with the Services of a live read instead of the informer's copies. `ipAddresses` must have been received
 * before that read.
 */
export function withServices(
  view: ServiceIpView,
  live: ReadonlyMap<string, Service>,
  ipAddresses: ReadonlyMap<string, IpAddress>,
): ServiceIpView {
  return {
    ...view,
    holdersOf: (name) =>
      view
        .holdersOf(name)
        .map((service) => live.get(keyOfObject(service)))
        .filter((service) => service !== undefined && holdsAddress(service, name)) as readonly Service[],
    serviceOf: (ref) => live.get(keyOf(ref)),
    ipAddressOf: (name) => ipAddresses.get(name),
  }
}

export function servicesInvolved(name: string, view: ServiceIpView): readonly ObjectRef[] {
  const ipAddress = view.ipAddressOf(name)
  const parent = ipAddress === undefined ? undefined : serviceRefOf(ipAddress)
  const holders = view.holdersOf(name).map(refOfObject)
  return parent === undefined ? holders : [...holders, parent]
}

function parentOf(ipAddress: IpAddress, view: ServiceIpView): Service | undefined {
  const ref = serviceRefOf(ipAddress)
  return ref === undefined ? undefined : view.serviceOf(ref)
}

export type IpAddressAction =
  | { readonly type: 'keep' }
  /** The IPAddress may belong to a Service that is being created: check it again after `forMs`. */
  | { readonly type: 'wait'; readonly forMs: number }
  | { readonly type: 'delete'; readonly ipAddress: IpAddress; readonly finding: Finding }

export interface IpAddressObservation extends Pick<ServiceIpView, 'repairing'> {
  readonly ipAddress: IpAddress
  /** The Service that the IPAddress refers to, if there is one. */
  readonly service: Service | undefined
  /** How long the IPAddress has existed at least, in milliseconds on a monotonic clock. */
  readonly ageMs: number
}

/**
 * Decides whether an IPAddress may stay. Pure. Upstream: `syncIPAddress` in
 * pkg/registry/core/service/ipallocator/controller/repairip.go.
 *
 * An IPAddress whose Service is missing, or does not hold the address, stays for the full time of a request, 60 s.
 * Upstream waits that long only for a missing Service and an ExternalName Service. Otherwise it waits 5 s or not at
 * all, which is too short if the IPAddress was allocated for a second family, or by a create that waits while a Service
 * of the same name is deleted: the new Service would be stored with an address that counts as free.
 */
export function planIpAddress({ ipAddress, service, ageMs, repairing }: IpAddressObservation): IpAddressAction {
  if (!isManagedByAllocator(ipAddress)) return { type: 'keep' }
  const { metadata } = ipAddress
  const { name = '' } = metadata ?? {}
  const ref = serviceRefOf(ipAddress)
  const remove = (reason: 'IPAddressNotAllocated' | 'IPAddressWrongReference', fault: string): IpAddressAction => {
    const regarding = { apiVersion: apiVersionOf(ipAddresses), kind: ipAddresses.kind, metadata }
    return { type: 'delete', ipAddress, finding: { type: 'leak', reason, note: fault, regarding, item: name } }
  }
  if (ref === undefined) {
    const end = repairing ? ': cleaning up' : ''
    const fault = `IPAddress ${name} appears to have been modified, not referencing a Service ${describeParent(ipAddress)}${end}`
    return remove('IPAddressNotAllocated', fault)
  }
  if (service !== undefined && holdsAddress(service, name)) return { type: 'keep' }
  if (ageMs < REQUEST_TIMEOUT_MS) return { type: 'wait', forMs: REQUEST_TIMEOUT_MS - ageMs }
  const what = `IPAddress: ${name} for Service ${keyOf(ref)}`
  if (service === undefined) {
    return remove('IPAddressNotAllocated', `${what} appears to have leaked${repairing ? ': cleaning up' : ''}`)
  }
  return remove('IPAddressWrongReference', `${what} has a wrong reference${repairing ? '; cleaning up' : ''}`)
}

export type ServiceIpAction =
  | { readonly type: 'none' }
  /** Nothing can be written: only the Service's owner can correct the finding. */
  | { readonly type: 'report'; readonly finding: Finding }
  | { readonly type: 'create'; readonly ipAddress: IpAddress; readonly finding: Finding }
  /** The reference of an IPAddress is immutable, so the IPAddress is deleted and created again. */
  | { readonly type: 'recreate'; readonly old: IpAddress; readonly ipAddress: IpAddress; readonly finding: Finding }
  /** The IPAddress, as it is, must get the labels of the allocator; everything else stays. */
  | { readonly type: 'relabel'; readonly ipAddress: IpAddress; readonly finding: Finding }

/** What is known of one ClusterIP of a Service. */
export interface ServiceIpObservation extends Pick<ServiceIpView, 'inRange' | 'repairing'> {
  readonly service: Service
  readonly clusterIp: string
  readonly ipAddress: IpAddress | undefined
  /** The Service that the IPAddress refers to, if there is one. */
  readonly parent: Service | undefined
}

/**
 * Decides what to do for one ClusterIP of a Service. Pure. Upstream: `syncService` in
 * pkg/registry/core/service/ipallocator/controller/repairip.go. This plan differs in two cases. An IPAddress that
 * refers to another Service, which does not hold the address, is recreated at once; upstream waits, deletes it, and
 * creates it later. Wrong labels are corrected in place, so that the address is never free meanwhile.
 */
export function planServiceIp(observed: ServiceIpObservation): ServiceIpAction {
  const { service, clusterIp, ipAddress, parent, inRange } = observed
  const name = ipAddressNameOf(clusterIp)
  const finding = (type: Finding['type'], reason: Finding['reason'], note: string): Finding => {
    return { type, reason, note, regarding: regardingService(service), item: name ?? clusterIp }
  }
  if (name === undefined) {
    const note = `Cluster IP ${clusterIp} is not a valid IP; please recreate Service`
    return { type: 'report', finding: finding('invalid', 'ClusterIPNotValid', note) }
  }
  const where = `[${familyOf(name)}]`
  if (!inRange(name)) {
    const note = `Cluster IP ${where}: ${name} is not within any configured Service CIDR; please recreate service`
    return { type: 'report', finding: finding('outOfRange', 'ClusterIPOutOfRange', note) }
  }
  const end = observed.repairing ? '; repairing' : ''
  const own = newIpAddress(name, refOfObject(service))
  if (ipAddress === undefined) {
    const note = `Cluster IP ${where}: ${name} is not allocated${end}`
    return { type: 'create', ipAddress: own, finding: finding('repair', 'ClusterIPNotAllocated', note) }
  }
  const key = keyOfObject(service)
  if (!refersTo(ipAddress, refOfObject(service))) {
    if (serviceRefOf(ipAddress) !== undefined && parent !== undefined && holdsAddress(parent, name)) {
      const note = `Cluster IP ${where}:${name} was assigned to multiple services; please recreate service`
      return { type: 'report', finding: finding('duplicate', 'ClusterIPAlreadyAllocated', note) }
    }
    const note = `the ClusterIP ${where}: ${name} for Service ${key} has a wrong reference${end}`
    const why = finding('repair', 'ClusterIPNotAllocated', note)
    return { type: 'recreate', old: ipAddress, ipAddress: own, finding: why }
  }
  if (hasAllocatorLabels(ipAddress)) return { type: 'none' }
  const note = `the IPAddress of the ClusterIP ${where}: ${name} for Service ${key} has wrong labels${end}`
  // Upstream records no event for this.
  const why = { ...finding('repair', 'ClusterIPNotAllocated', note), regarding: undefined }
  return { type: 'relabel', ipAddress, finding: why }
}
