import type { ObjectAction } from '../kube/object-writer.ts'
import type { Endpoints } from '../kube/resources.ts'
import { type EndpointPort, type EndpointSubset, KUBERNETES_SERVICE, SKIP_MIRROR_LABEL, samePorts } from './identity.ts'

/** What must be done to Endpoints `default/kubernetes`. */
export type EndpointsAction =
  | ObjectAction<Endpoints>
  /** Nobody lives, as far as the leases tell: that is more likely a fault of the store than the truth. */
  | { readonly type: 'refuse' }

/** What a plan for Endpoints rests on. */
export interface EndpointsObservation {
  /** The addresses to list, sorted, without doubles. */
  readonly addresses: readonly string[]
  readonly current: Endpoints | undefined
  readonly ports: readonly EndpointPort[]
  /** False: other masters may want other ports, so ports are kept as they are found unless the object must be remade. */
  readonly reconcilePorts: boolean
  /** This master is going: the list may become empty, and Endpoints that are gone are not made again. */
  readonly stopping: boolean
}

/**
 * Decides what must change so that Endpoints `default/kubernetes` list exactly `addresses`.
 *
 * Pure. Only with `stopping` may the list become empty. Metadata that is not ours, and per-address fields of addresses that stay,
 * are kept. Results equal those of upstream's lease reconciler (pkg/controlplane/reconcilers/lease.go), but for damage that it
 * leaves in place: notReadyAddresses are removed.
 */
export function planEndpoints(observed: EndpointsObservation): EndpointsAction {
  const { addresses, current, ports, stopping } = observed
  if (current === undefined) {
    if (stopping) return { type: 'none' }
    if (addresses.length === 0) return { type: 'refuse' }
    return { type: 'create', object: newEndpoints(addresses, ports), reasons: ['missing'] }
  }
  if (addresses.length === 0 && !stopping) return { type: 'refuse' }

  const reasons: string[] = []
  const labelled = current.metadata?.labels?.[SKIP_MIRROR_LABEL] === 'true'
  if (!labelled) reasons.push('skip-mirror-label')
  const subsets = planSubsets(observed, current.subsets ?? [], reasons)
  if (reasons.length === 0) return { type: 'none' }
  const metadata = {
    ...current.metadata,
    labels: { ...current.metadata?.labels, [SKIP_MIRROR_LABEL]: 'true' },
  }
  return { type: 'update', object: { ...current, metadata, subsets } as Endpoints, reasons }
}

function planSubsets(
  { addresses, ports, reconcilePorts }: EndpointsObservation,
  current: readonly EndpointSubset[],
  reasons: string[],
): readonly EndpointSubset[] {
  const [subset] = current
  if (current.length !== 1 || subset === undefined) {
    if (current.length === 0 && addresses.length === 0) return current
    reasons.push('subsets')
    return subsetsOf({ ports }, addresses)
  }
  let next = subset
  if ((subset.notReadyAddresses?.length ?? 0) > 0) {
    reasons.push('not-ready-addresses')
    const { notReadyAddresses: _removed, ...rest } = next
    next = rest
  }
  if (reconcilePorts && !samePorts(subset.ports ?? [], ports)) {
    reasons.push('ports')
    next = { ...next, ports }
  }
  if (!sameAddresses(subset, addresses)) {
    reasons.push('addresses')
    return subsetsOf(next, addresses)
  }
  return [next]
}

function subsetsOf(base: EndpointSubset, addresses: readonly string[]): readonly EndpointSubset[] {
  if (addresses.length === 0) return []
  const known = new Map((base.addresses ?? []).map((address) => [address.ip, address]))
  return [{ ...base, addresses: addresses.map((ip) => known.get(ip) ?? { ip }) }]
}

function sameAddresses(subset: EndpointSubset, addresses: readonly string[]): boolean {
  const found = (subset.addresses ?? []).map((address) => address.ip)
  return (
    found.length === addresses.length &&
    new Set(found).size === found.length &&
    found.every((ip) => addresses.includes(ip))
  )
}

function newEndpoints(addresses: readonly string[], ports: readonly EndpointPort[]): Endpoints {
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...KUBERNETES_SERVICE, labels: { [SKIP_MIRROR_LABEL]: 'true' } },
    subsets: [{ addresses: addresses.map((ip) => ({ ip })), ports }],
  }
}
