import type { EndpointSlice } from '../../kube/resources.ts'
import type { HintedSlices } from '../slice-info.ts'
import { endpointsOf, isReady, mapEndpoints, type SliceEndpoint, withHints } from './endpoint-hints.ts'

/** The values of a Service's `trafficDistribution` that hints are given for. */
export type TrafficDistribution = 'PreferClose' | 'PreferSameZone' | 'PreferSameNode'

/** What hints it asks for: the zone of the endpoint, or its zone and its node. */
type Closeness = 'zone' | 'node'

const closenesses: Readonly<Record<TrafficDistribution, Closeness>> = {
  PreferClose: 'zone',
  PreferSameZone: 'zone',
  PreferSameNode: 'node',
}

/** Slices that have the hints that they should have. */
const settled: Readonly<Record<Closeness, WeakSet<EndpointSlice>>> = { zone: new WeakSet(), node: new WeakSet() }

/**
 * Hints each ready endpoint to its own zone, with PreferSameNode to its own node too. What an endpoint that is not ready has of hints stays.
 * Upstream: k8s.io/endpointslice/trafficdist.
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

function hintedClose(endpoint: SliceEndpoint, closeness: Closeness): SliceEndpoint {
  if (!isReady(endpoint)) return endpoint
  return withHints(
    endpoint,
    endpoint.zone ?? undefined,
    closeness === 'node' ? (endpoint.nodeName ?? undefined) : undefined,
  )
}
