import type { EndpointSlice, Service } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import type { AddressType, HintedSlices, HintsEvent, SliceInfo } from './slice-info.ts'
import { hintsDisabledNote, removeHintsFromSlices, type TopologyCache } from './topology/topology-cache.ts'
import { reconcileTrafficDistribution, type TrafficDistribution } from './topology/traffic-distribution.ts'

const deprecatedAnnotation = 'service.kubernetes.io/topology-aware-hints'
const annotation = 'service.kubernetes.io/topology-mode'

/** Whether a Service asks by its annotation for hints by zone; the former of the two names has precedence. */
export function asksForTopology(service: Service): boolean {
  const annotations = service.metadata?.annotations
  const mode = annotations?.[deprecatedAnnotation] ?? annotations?.[annotation]
  return mode === 'Auto' || mode === 'auto'
}

/** The traffic distribution by which a Service's hints are made; undefined where it has none that is known, or the annotation has precedence. */
export function trafficDistributionOf(service: Service): TrafficDistribution | undefined {
  const value = service.spec?.trafficDistribution
  const known = value === 'PreferClose' || value === 'PreferSameZone' || value === 'PreferSameNode'
  return known && !asksForTopology(service) ? value : undefined
}

/** Gives the endpoints of the slices of one address type the hints that they shall have, or takes them away. */
export function decideHints(
  question: {
    readonly service: Service
    readonly slices: readonly EndpointSlice[]
    readonly addressType: AddressType
    readonly topology: TopologyCache | undefined
  },
  planned: {
    readonly create: readonly EndpointSlice[]
    readonly update: readonly EndpointSlice[]
    readonly remove: readonly EndpointSlice[]
  },
): HintedSlices {
  const { service, slices, addressType, topology } = question
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
    events.push({ reason: 'TopologyAwareHintsDisabled', note: hintsDisabledNote(addressType) })
  }
  topology?.removeHints(serviceKey, addressType)
  const distribution = trafficDistributionOf(service)
  const hinted =
    distribution === undefined
      ? removeHintsFromSlices(info)
      : reconcileTrafficDistribution(distribution, create, update, info.unchanged)
  return { create: hinted.create, update: hinted.update, events }
}

/** The slices that stay as they are. */
function others(
  slices: readonly EndpointSlice[],
  update: readonly EndpointSlice[],
  remove: readonly EndpointSlice[],
): readonly EndpointSlice[] {
  const changed = new Set([...update, ...remove].map((slice) => slice.metadata?.name))
  return slices.filter((slice) => !changed.has(slice.metadata?.name))
}
