import type { EndpointSlice, Service } from '../../src/kube/resources.ts'
import type { ClusterState } from './cluster-state.ts'
import { keyOf } from './cluster-state.ts'
import { expectedEndpoints } from './expected-endpoints.ts'
import { hasEndpoints } from './expected-members.ts'
import { endpointsFaults } from './judge-endpoints.ts'
import { mirroredKeyOf, mirrorFaults } from './judge-mirrors.ts'
import { managedBySlices, sliceFaults } from './judge-slices.ts'

export interface JudgeOptions {
  /** The kinds that are managed. @default all */
  readonly kinds?: readonly ('Endpoints' | 'EndpointSlices' | 'mirrors')[]
  /** @default 100 */
  readonly maxEndpointsPerSlice?: number
}

/**
 * What is wrong with the Endpoints and EndpointSlices of a cluster at rest, one line for each fault. Each desired
 * endpoint must exist exactly once, and no other; no slice may be too large; labels and owners must be right. Without a
 * Service there may be no endpoints, and no slice may be left of a Service that is gone.
 */
export function judge(state: ClusterState, options: JudgeOptions = {}): readonly string[] {
  const { kinds = ['Endpoints', 'EndpointSlices', 'mirrors'], maxEndpointsPerSlice = 100 } = options
  const faults: string[] = []
  const services = new Map(state.services.map((service) => [keyOf(service), service]))
  for (const [key, service] of services) {
    if (!hasEndpoints(service)) continue
    const expected = expectedEndpoints(service, state)
    const found = [
      ...(kinds.includes('Endpoints') ? endpointsFaults(service, expected, state) : []),
      ...(kinds.includes('EndpointSlices') ? sliceFaults(service, expected, state, maxEndpointsPerSlice) : []),
    ]
    faults.push(...found.map((fault) => `${key}: ${fault}`))
  }
  if (kinds.includes('Endpoints')) {
    for (const object of state.endpoints) {
      // Endpoints that another client made for an unknown Service belong to that client.
      const isOurs = object.metadata?.labels?.['endpoints.kubernetes.io/managed-by'] === 'endpoint-controller'
      if (isOurs && !services.has(keyOf(object))) faults.push(`${keyOf(object)}: Endpoints without a Service`)
    }
  }
  if (kinds.includes('EndpointSlices')) {
    for (const slice of state.slices) {
      const { namespace, labels = {} } = slice.metadata ?? {}
      if (labels['endpointslice.kubernetes.io/managed-by'] !== managedBySlices) continue
      const key = `${namespace}/${labels['kubernetes.io/service-name']}`
      const service = services.get(key)
      if (service === undefined) faults.push(`${key}: slice ${slice.metadata?.name} without a Service`)
      else if (!hasEndpoints(service) && isOfEarlier(slice, service)) {
        faults.push(`${key}: slice ${slice.metadata?.name} of an earlier Service`)
      }
    }
  }
  if (kinds.includes('mirrors')) {
    const mirrored = state.slices.map(mirroredKeyOf).filter((key) => key !== undefined)
    for (const key of new Set([...services.keys(), ...mirrored])) {
      faults.push(...mirrorFaults(key, services.get(key), state).map((fault) => `${key}: ${fault}`))
    }
  }
  return faults
}

function isOfEarlier(slice: EndpointSlice, service: Service): boolean {
  return (slice.metadata?.ownerReferences ?? []).every(({ uid }) => uid !== service.metadata?.uid)
}
