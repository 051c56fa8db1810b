import type { EndpointSlice, Node } from '../../kube/resources.ts'
import { getOrMake } from '../../runtime/memo.ts'
import type { Endpoint } from '../endpoint.ts'
import type { AddressType, HintedSlices, HintsEvent, SliceInfo } from '../slice.ts'
import {
  type CpuRatios,
  cpuRatiosOf,
  fits,
  type HintsByZone,
  isOverloaded,
  planAllocations,
  planRedistribution,
  redistribute,
} from './allocations.ts'

/**
 * Decides the hints of Services with the annotation `service.kubernetes.io/topology-mode: Auto`. Caches the
 * distribution of the cluster's CPU over zones, and how many hints each Service has for each zone. Upstream:
 * k8s.io/endpointslice/topologycache.
 *
 * Upstream assigns endpoints to zones at random. Here the order of the slices and of the zones' names decides.
 */
export class TopologyCache {
  #ratios: CpuRatios | undefined
  readonly #hints = new Map<string, Map<AddressType, HintsByZone>>()
  readonly #populated = new Set<string>()

  setNodes(nodes: Iterable<Node>): void {
    this.#ratios = cpuRatiosOf(nodes)
  }

  /** The keys of the Services whose hints no longer fit the Nodes. */
  overloadedServices(): readonly string[] {
    const services = [...this.#hints].filter(([, hintsByType]) =>
      [...hintsByType.values()].some((hints) => isOverloaded(hints, this.#ratios)),
    )
    return services.map(([serviceKey]) => serviceKey)
  }

  /** Whether the Service has hints by zone. False once the hints of one of its address types were removed. */
  hasPopulatedHints(serviceKey: string): boolean {
    return this.#populated.has(serviceKey)
  }

  removeHints(serviceKey: string, addressType: AddressType): void {
    const hintsByType = this.#hints.get(serviceKey)
    hintsByType?.delete(addressType)
    if (hintsByType?.size === 0) this.#hints.delete(serviceKey)
    this.#populated.delete(serviceKey)
  }

  /**
   * Gives each ready endpoint a hint for its own zone. Then moves hints to other zones, until each zone's share of the
   * hints is about its share of the CPU. If that is impossible, removes all hints and returns an Event with the reason.
   * Does not change slices whose hints are still valid.
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
    for (const endpoint of [...toCreate, ...toUpdate, ...outdated].flatMap(endpointsOf)) {
      if (!isReady(endpoint)) continue
      if (!endpoint.zone) return this.#disabled(info, 'One or more endpoints do not have a zone specified')
      zones.push(endpoint.zone)
      add(allocated, endpoint.zone, 1)
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
    getOrMake(this.#hints, serviceKey, () => new Map()).set(addressType, allocated)
    this.#populated.add(serviceKey)
    return { create, update, events }
  }

  #disabled(info: SliceInfo, message: string): HintedSlices {
    this.removeHints(info.serviceKey, info.addressType)
    const event = hintsEvent('TopologyAwareHintsDisabled', message, info.addressType)
    return { ...removeHintsFromSlices(info), events: [event] }
  }
}

/** An Event about hints, in upstream's words. */
export function hintsEvent(reason: HintsEvent['reason'], message: string, addressType: AddressType): HintsEvent {
  return { reason, note: `${message}, addressType: ${addressType}` }
}

function readyEndpoints({ toCreate, toUpdate, unchanged }: SliceInfo): number {
  return [...toCreate, ...toUpdate, ...unchanged].reduce((sum, slice) => sum + summaryOf(slice).readyEndpoints, 0)
}

function add(counts: Map<string, number>, zone: string, count: number): void {
  counts.set(zone, (counts.get(zone) ?? 0) + count)
}

/** The hints of a slice, counted. */
interface HintsSummary {
  readonly readyEndpoints: number
  /** How many hints of ready endpoints name each zone; undefined if a ready endpoint has none. */
  readonly hints: HintsByZone | undefined
}

const summaries = new WeakMap<EndpointSlice, HintsSummary>()
const withoutHints = new WeakSet<EndpointSlice>()

export function isReady(endpoint: Endpoint): boolean {
  return endpoint.conditions?.ready === true
}

/** The endpoints of a slice; a stored empty list may come back as null. */
export function endpointsOf(slice: EndpointSlice): readonly Endpoint[] {
  return slice.endpoints ?? []
}

/** The summary of a slice's hints, computed once for each slice object. */
export function summaryOf(slice: EndpointSlice): HintsSummary {
  return getOrMake(summaries, slice, () => summarize(slice))
}

function summarize(slice: EndpointSlice): HintsSummary {
  const hints = new Map<string, number>()
  let readyEndpoints = 0
  let complete = true
  for (const endpoint of endpointsOf(slice)) {
    if (!isReady(endpoint)) continue
    readyEndpoints++
    const zones = endpoint.hints?.forZones ?? []
    if (zones.length === 0) complete = false
    for (const { name } of zones) hints.set(name, (hints.get(name) ?? 0) + 1)
  }
  return { readyEndpoints, hints: complete ? hints : undefined }
}

/** The slice with `change` applied to each endpoint; the same object when none changes. */
export function mapEndpoints(slice: EndpointSlice, change: (endpoint: Endpoint) => Endpoint): EndpointSlice {
  const before = endpointsOf(slice)
  const endpoints = before.map(change)
  return endpoints.some((endpoint, index) => endpoint !== before[index]) ? { ...slice, endpoints } : slice
}

/** The endpoint with these hints and no others; the same object if it has them already. */
export function withHints(
  endpoint: Endpoint,
  zone: string | undefined,
  node: string | undefined = undefined,
): Endpoint {
  if (namesOnly(endpoint.hints?.forZones, zone) && namesOnly(endpoint.hints?.forNodes, node)) return endpoint
  const { hints: _hints, ...rest } = endpoint
  if (zone === undefined && node === undefined) return rest
  return {
    ...rest,
    hints: {
      ...(zone === undefined ? {} : { forZones: [{ name: zone }] }),
      ...(node === undefined ? {} : { forNodes: [{ name: node }] }),
    },
  }
}

function namesOnly(hints: readonly { readonly name: string }[] | null | undefined, name: string | undefined): boolean {
  const count = hints?.length ?? 0
  return name === undefined ? count === 0 : count === 1 && hints?.[0]?.name === name
}

export function removeHintsFromSlices(info: SliceInfo): HintedSlices {
  const bare = (slice: EndpointSlice): EndpointSlice => mapEndpoints(slice, withoutHint)
  return {
    create: info.toCreate.map(bare),
    update: [...info.toUpdate.map(bare), ...info.unchanged.filter(hasHints).map(bare)],
    events: [],
  }
}

function hasHints(slice: EndpointSlice): boolean {
  if (withoutHints.has(slice)) return false
  if (endpointsOf(slice).some((endpoint) => withoutHint(endpoint) !== endpoint)) return true
  withoutHints.add(slice)
  return false
}

function withoutHint(endpoint: Endpoint): Endpoint {
  if (endpoint.hints === undefined || endpoint.hints === null) return endpoint
  const { hints: _hints, ...rest } = endpoint
  return rest
}
