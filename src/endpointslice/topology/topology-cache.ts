import type { EndpointSlice, Node } from '../../kube/resources.ts'
import type { AddressType, HintedSlices, HintsEvent, SliceInfo } from '../slice-info.ts'
import { fits, type HintsByZone, isOverloaded, planAllocations } from './allocations.ts'
import { endpointsOf, isReady, mapEndpoints, removeHintsFromSlices, summaryOf, withHints } from './endpoint-hints.ts'
import { planRedistribution, redistribute } from './redistribution.ts'
import { type CpuRatios, cpuRatiosOf } from './zone-capacity.ts'

export { removeHintsFromSlices } from './endpoint-hints.ts'

/**
 * Hints by the annotation `service.kubernetes.io/topology-mode: Auto`: how the CPU of the cluster is spread over zones, and which Services have which hints.
 * Upstream: k8s.io/endpointslice/topologycache.
 *
 * Where upstream leaves to chance which endpoint goes to which zone, here it is the order of the slices and of the zones' names that decides.
 */
export class TopologyCache {
  #ratios: CpuRatios | undefined
  readonly #hints = new Map<string, Map<AddressType, HintsByZone>>()
  readonly #populated = new Set<string>()

  /** Takes in all Nodes. */
  setNodes(nodes: Iterable<Node>): void {
    this.#ratios = cpuRatiosOf(nodes)
  }

  /** The keys of the Services whose hints do not fit the Nodes any more. */
  overloadedServices(): readonly string[] {
    const overloaded: string[] = []
    for (const [serviceKey, hintsByType] of this.#hints) {
      for (const hints of hintsByType.values()) {
        if (!isOverloaded(hints, this.#ratios)) continue
        overloaded.push(serviceKey)
        break
      }
    }
    return overloaded
  }

  /** Whether the Service has had hints since they were last removed for one of its address types. */
  hasPopulatedHints(serviceKey: string): boolean {
    return this.#populated.has(serviceKey)
  }

  /** Forgets what hints a Service has. */
  removeHints(serviceKey: string, addressType: AddressType): void {
    const hintsByType = this.#hints.get(serviceKey)
    hintsByType?.delete(addressType)
    if (hintsByType?.size === 0) this.#hints.delete(serviceKey)
    this.#populated.delete(serviceKey)
  }

  /**
   * Hints each ready endpoint to a zone, so that each zone has about the part of the endpoints that it has of the CPU: to its own wherever that will do. Where
   * it cannot be done all hints are taken away, and an event says why. Slices whose hints are still good are left alone.
   */
  addHints(info: SliceInfo): HintedSlices {
    const { serviceKey, addressType, toCreate, toUpdate, unchanged } = info
    const plan = planAllocations(this.#ratios, readyEndpoints(info))
    if (plan.type === 'refused') return this.#disabled(info, plan.message)

    const allocated = new Map<string, number>()
    const outdated: EndpointSlice[] = []
    for (const slice of unchanged) {
      const { hints } = summaryOf(slice)
      if (hints === undefined || !fits(hints, allocated, plan.allocations)) outdated.push(slice)
      else for (const [zone, count] of hints) add(allocated, zone, count)
    }

    const zones: string[] = []
    for (const slices of [toCreate, toUpdate, outdated]) {
      for (const slice of slices) {
        for (const endpoint of endpointsOf(slice)) {
          if (!isReady(endpoint)) continue
          if (!endpoint.zone) return this.#disabled(info, 'One or more endpoints do not have a zone specified')
          zones.push(endpoint.zone)
          add(allocated, endpoint.zone, 1)
        }
      }
    }

    const elsewhere = redistribute(zones, planRedistribution(plan.allocations, allocated))
    for (const [index, zone] of elsewhere) {
      add(allocated, zones[index] ?? '', -1)
      add(allocated, zone, 1)
    }
    let next = 0
    const hinted = (slice: EndpointSlice): EndpointSlice =>
      mapEndpoints(slice, (endpoint) => {
        if (!isReady(endpoint)) return endpoint
        const index = next++
        return withHints(endpoint, elsewhere.get(index) ?? zones[index])
      })
    const create = toCreate.map(hinted)
    const update = toUpdate.map(hinted)
    for (const slice of outdated) {
      const changed = hinted(slice)
      if (changed !== slice) update.push(changed)
    }

    const events = this.#populated.has(serviceKey)
      ? []
      : [hintsEvent('TopologyAwareHintsEnabled', 'Topology Aware Hints has been enabled', addressType)]
    const hintsByType = this.#hints.get(serviceKey) ?? new Map<AddressType, HintsByZone>()
    this.#hints.set(serviceKey, hintsByType.set(addressType, allocated))
    this.#populated.add(serviceKey)
    return { create, update, events }
  }

  #disabled(info: SliceInfo, message: string): HintedSlices {
    this.removeHints(info.serviceKey, info.addressType)
    const event = hintsEvent('TopologyAwareHintsDisabled', message, info.addressType)
    return { ...removeHintsFromSlices(info), events: [event] }
  }
}

/** What is told when a Service does not ask for hints any more. */
export function hintsDisabledNote(addressType: AddressType): string {
  return noteOf('Topology Aware Hints has been disabled', addressType)
}

/** As upstream words what is told of hints. */
function noteOf(message: string, addressType: AddressType): string {
  return `${message}, addressType: ${addressType}`
}

function hintsEvent(reason: HintsEvent['reason'], message: string, addressType: AddressType): HintsEvent {
  return { reason, note: noteOf(message, addressType) }
}

function readyEndpoints({ toCreate, toUpdate, unchanged }: SliceInfo): number {
  let count = 0
  for (const slices of [toCreate, toUpdate, unchanged]) {
    for (const slice of slices) count += summaryOf(slice).readyEndpoints
  }
  return count
}

function add(counts: Map<string, number>, zone: string, count: number): void {
  counts.set(zone, (counts.get(zone) ?? 0) + count)
}
