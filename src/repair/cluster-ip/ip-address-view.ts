import type { ObjectRef } from '../../kube/api.ts'
import type { IpAddress, Service } from '../../kube/resources.ts'
import { keyOf, keyOfObject } from '../../kube/store.ts'
import { clusterIpsOf } from '../service-claims.ts'
import { hasAllocatorLabels, refersTo, serviceRefOf } from './ip-address-object.ts'
import { type IpAddressAction, planIpAddress } from './ip-address-plan.ts'
import { planServiceIp, type ServiceIpAction } from './ip-address-service-plan.ts'
import { holdsAddress, lookupNameOf } from './service-ip-index.ts'

/** What the plans are made from. */
export interface ServiceIpView {
  /** The Services that have the address, the oldest first. */
  holdersOf(name: string): readonly Service[]
  serviceOf(ref: ObjectRef): Service | undefined
  ipAddressOf(name: string): IpAddress | undefined
  /** How long an IPAddress has been here, in milliseconds. */
  ageMs(ipAddress: IpAddress): number
  /** How long an IPAddress has been known to be no Service's, in milliseconds; 0 when it was not. */
  strayMs(ipAddress: IpAddress): number
  /** Whether a Service may have the address. */
  inRange(name: string): boolean
  /** Whether what is wrong will be put right. */
  readonly repairing: boolean
}

/** What every Service that has the address needs. At most one of the actions writes: the oldest Service gets what is nobody's. Pure. */
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

/** Whether an IPAddress may stay. Pure. */
export function planExisting(ipAddress: IpAddress, view: ServiceIpView): IpAddressAction {
  const { repairing } = view
  return planIpAddress({ ipAddress, service: parentOf(ipAddress, view), ageMs: view.ageMs(ipAddress), repairing })
}

/** The addresses of all Services of which it does not show at first sight that all is right. Pure. */
export function doubtfulNames(services: readonly Service[], view: ServiceIpView): ReadonlySet<string> {
  const names = new Set<string>()
  for (const service of services) {
    const ref = { namespace: service.metadata?.namespace, name: service.metadata?.name ?? '' }
    for (const text of clusterIpsOf(service)) {
      // As a rule the text is the name, and nothing needs to be read from it.
      const ipAddress = view.ipAddressOf(text)
      const right = ipAddress !== undefined && refersTo(ipAddress, ref) && hasAllocatorLabels(ipAddress)
      if (!right || !view.inRange(text)) names.add(lookupNameOf(text))
    }
  }
  return names
}

/** The same view with the Services as they were read, for addresses and Services that were looked up; IPAddresses stay as they were before. */
export function withServices(
  view: ServiceIpView,
  live: ReadonlyMap<string, Service>,
  ipAddresses: ReadonlyMap<string, IpAddress>,
): ServiceIpView {
  return {
    holdersOf: (name) =>
      view
        .holdersOf(name)
        .map((service) => live.get(keyOfObject(service)))
        .filter((service) => service !== undefined && holdsAddress(service, name)) as readonly Service[],
    serviceOf: (ref) => live.get(keyOf(ref)),
    ipAddressOf: (name) => ipAddresses.get(name),
    ageMs: view.ageMs,
    strayMs: view.strayMs,
    inRange: view.inRange,
    repairing: view.repairing,
  }
}

/** The Services that decide what becomes of an address. */
export function servicesInvolved(name: string, view: ServiceIpView): readonly ObjectRef[] {
  const ipAddress = view.ipAddressOf(name)
  const parent = ipAddress === undefined ? undefined : serviceRefOf(ipAddress)
  const holders = view.holdersOf(name).map(({ metadata }) => {
    return { namespace: metadata?.namespace, name: metadata?.name ?? '' }
  })
  return parent === undefined ? holders : [...holders, parent]
}

function parentOf(ipAddress: IpAddress, view: ServiceIpView): Service | undefined {
  const ref = serviceRefOf(ipAddress)
  return ref === undefined ? undefined : view.serviceOf(ref)
}
