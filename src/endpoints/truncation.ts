import { subsetOf } from './repack.ts'
import type { EndpointSubset } from './subset-equality.ts'

/** How many addresses Endpoints list at most. Upstream: `maxCapacity`. */
export const maxAddresses = 1_000

/** Of Endpoints: not all addresses are listed. */
export const overCapacity = 'endpoints.kubernetes.io/over-capacity'
export const truncated = 'truncated'

/** The addresses of subsets, ready or not. */
export function countAddresses(subsets: readonly EndpointSubset[]): number {
  return total(subsets, 'addresses') + total(subsets, 'notReadyAddresses')
}

/**
 * The subsets cut down to {@link maxAddresses}: first to the ready ones, then each subset to its share, rounded up, for as long as there is room. Undefined
 * where there is nothing to cut. Subsets that lose all their addresses stay, as upstream's do (`truncateEndpoints`); a server may refuse them.
 */
export function truncate(subsets: readonly EndpointSubset[]): readonly EndpointSubset[] | undefined {
  const ready = total(subsets, 'addresses')
  const notReady = total(subsets, 'notReadyAddresses')
  if (ready + notReady <= maxAddresses) return undefined
  const cutReady = ready > maxAddresses
  const of = cutReady ? ready : notReady
  const room = cutReady ? maxAddresses : maxAddresses - ready
  let left = room
  return subsets.map(({ addresses = [], notReadyAddresses = [], ports = [] }) => {
    const cut = cutReady ? addresses : notReadyAddresses
    const share = Math.min(Math.ceil((cut.length / of) * room), left)
    const kept = cut.slice(0, share)
    left -= kept.length
    return cutReady ? subsetOf(kept, [], ports) : subsetOf(addresses, kept, ports)
  })
}

function total(subsets: readonly EndpointSubset[], of: 'addresses' | 'notReadyAddresses'): number {
  return subsets.reduce((sum, subset) => sum + (subset[of]?.length ?? 0), 0)
}
