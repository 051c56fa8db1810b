import type { EndpointSlice, Service } from '../../kube/resources.ts'
import { keyOfObject } from '../../kube/store.ts'
import type { Endpoint } from '../endpoint.ts'
import type { AddressType, HintedSlices, HintsEvent, SliceInfo, SliceWrites } from '../slice.ts'
import {
  endpointsOf,
  hintsEvent,
  isReady,
  mapEndpoints,
  removeHintsFromSlices,
  type TopologyCache,
  withHints,
} from './topology-cache.ts'

const deprecatedAnnotation = 'service.kubernetes.io/topology-aware-hints'
const annotation = 'service.kubernetes.io/topology-mode'

/** Whether a Service requests hints by zone with an annotation. The deprecated annotation has precedence. */
export function asksForTopology(service: Service): boolean {
  const annotations = service.metadata?.annotations
  const mode = annotations?.[deprecatedAnnotation] ?? annotations?.[annotation]
  return mode === 'Auto' || mode === 'auto'
}

/**
 * The traffic distribution that a Service's hints follow; undefined if missing or unknown, or if an annotation requests
 * hints by zone.
 */
export function trafficDistributionOf(service: Service): TrafficDistribution | undefined {
  const value = service.spec?.trafficDistribution
  const known = value === 'PreferClose' || value === 'PreferSameZone' || value === 'PreferSameNode'
  return known && !asksForTopology(service) ? value : undefined
}

/** Sets the desired hints on the endpoints of the slices of one address type, or removes them. */
export function decideHints(
  input: {
    readonly service: Service
    readonly slices: readonly EndpointSlice[]
    readonly addressType: AddressType
    readonly topology: TopologyCache | undefined
  },
  planned: SliceWrites,
): HintedSlices {
  const { service, slices, addressType, topology } = input
  const { create, update, remove } = planned
  const serviceKey = keyOfObject(service)
  const info: SliceInfo = {
    serviceKey,
    addressType,
    toCreate: create,
    toUpdate: update,
    unchanged: others(slices, update, remove),
  }
  if (topology !== undefined && asksForTopology(service)) return topology.addHints(info)

  const events: HintsEvent[] = []
  if (topology?.hasPopulatedHints(serviceKey)) {
    events.push(hintsEvent('TopologyAwareHintsDisabled', 'Topology Aware Hints has been disabled', addressType))
  }
  topology?.removeHints(serviceKey, addressType)
  const distribution = trafficDistributionOf(service)
  const hinted =
    distribution === undefined
      ? removeHintsFromSlices(info)
      : reconcileTrafficDistribution(distribution, create, update, info.unchanged)
  return { create: hinted.create, update: hinted.update, events }
}

function others(
  slices: readonly EndpointSlice[],
  update: readonly EndpointSlice[],
  remove: readonly EndpointSlice[],
): readonly EndpointSlice[] {
  const changed = new Set([...update, ...remove].map((slice) => slice.metadata?.name))
  return slices.filter((slice) => !changed.has(slice.metadata?.name))
}

/** The values of a Service's `trafficDistribution` that lead to hints. */
export type TrafficDistribution = 'PreferClose' | 'PreferSameZone' | 'PreferSameNode'

/** What a hint names: the zone of the endpoint; or its zone and its Node. */
type Closeness = 'zone' | 'node'

const closenesses: Readonly<Record<TrafficDistribution, Closeness>> = {
  PreferClose: 'zone',
  PreferSameZone: 'zone',
  PreferSameNode: 'node',
}

/** Slices that are known to have the desired hints. */
const settled: Readonly<Record<Closeness, WeakSet<EndpointSlice>>> = { zone: new WeakSet(), node: new WeakSet() }

/**
 * Gives each ready endpoint a hint for its own zone, and with PreferSameNode also for its own Node. Hints of endpoints
 * that are not ready stay. Upstream: k8s.io/endpointslice/trafficdist.
 */
export function reconcileTrafficDistribution(
  trafficDistribution: TrafficDistribution,
  toCreate: readonly EndpointSlice[],
  toUpdate: readonly EndpointSlice[],
  unchanged: readonly EndpointSlice[],
): HintedSlices {
  const closeness = closenesses[trafficDistribution]
  const hinted = (slice: EndpointSlice): EndpointSlice =>
    mapEndpoints(slice, (endpoint) => hintedClose(endpoint, closeness))
  const isSettled = (slice: EndpointSlice): boolean => {
    if (settled[closeness].has(slice)) return true
    if (endpointsOf(slice).some((endpoint) => hintedClose(endpoint, closeness) !== endpoint)) return false
    settled[closeness].add(slice)
    return true
  }
  return {
    create: toCreate.map(hinted),
    update: [...toUpdate.map(hinted), ...unchanged.filter((slice) => !isSettled(slice)).map(hinted)],
    events: [],
  }
}

function hintedClose(endpoint: Endpoint, closeness: Closeness): Endpoint {
  if (!isReady(endpoint)) return endpoint
  return withHints(
    endpoint,
    endpoint.zone ?? undefined,
    closeness === 'node' ? (endpoint.nodeName ?? undefined) : undefined,
  )
}
