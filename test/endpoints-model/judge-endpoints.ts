import type { Endpoints, Service } from '../../src/kube/resources.ts'
import { type ClusterState, keyOf } from './cluster-state.ts'
import { labelFaults, lineFaults } from './compared-lines.ts'
import { type ExpectedEndpoints, endpointsLine, isReady, podText } from './expected-endpoints.ts'
import { portsText } from './expected-members.ts'

type Subset = NonNullable<Endpoints['subsets']>[number]
type Address = NonNullable<Subset['addresses']>[number]

const capacity = 1_000
const headlessLabel = 'service.kubernetes.io/headless'

/** What is wrong with the Endpoints of a Service. */
export function endpointsFaults(service: Service, expected: ExpectedEndpoints, state: ClusterState): readonly string[] {
  const object = state.endpoints.find((candidate) => keyOf(candidate) === keyOf(service))
  if (object === undefined) return ['no Endpoints']
  const { labels = {}, annotations = {} } = object.metadata ?? {}
  // Upstream does not compare the headless label: a wrong one is corrected only together with something else.
  const { [headlessLabel]: _headless, ...judged } = labels
  const { [headlessLabel]: _own, ...own } = service.metadata?.labels ?? {}
  const wanted = { ...own, 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' }
  const faults = [...labelFaults('Endpoints', judged, wanted), ...packingFaults(object)]
  const lines = (object.subsets ?? []).flatMap(linesOf)
  const size = (object.subsets ?? []).flatMap(addressesOf).length
  const truncated = annotations['endpoints.kubernetes.io/over-capacity'] !== undefined
  if (!truncated) {
    if (size > capacity) faults.push(`Endpoints have ${size} addresses`)
    return [...faults, ...lineFaults('Endpoints', lines, expected.endpoints)]
  }
  if (size !== capacity) faults.push(`Endpoints are called truncated, with ${size} addresses`)
  const known = new Set(expected.endpoints)
  const found = new Set(lines)
  // Upstream first leaves out the addresses that are not ready.
  const left = expected.endpoints.filter((line) => isReady(line) && !found.has(line))
  const notReady = lines.filter((line) => !isReady(line))
  if (left.length > 0 && notReady.length > 0) faults.push(`Endpoints leave out ${left[0]} and keep ${notReady[0]}`)
  return [...faults, ...lines.filter((line) => !known.has(line)).map((line) => `Endpoints should not have ${line}`)]
}

function addressesOf({ addresses, notReadyAddresses }: Subset): readonly Address[] {
  return [...(addresses ?? []), ...(notReadyAddresses ?? [])]
}

function linesOf(subset: Subset): readonly string[] {
  const ports = (subset.ports ?? []).map((port) => portsText([port]))
  const of = (addresses: readonly Address[] | undefined, ready: boolean): readonly string[] =>
    (addresses ?? []).flatMap(({ ip, nodeName, hostname, targetRef }) =>
      (ports.length === 0 ? ['no-ports'] : ports).map((port) =>
        endpointsLine({ ip, pod: podText(targetRef), node: nodeName ?? '', hostname, ready, port }),
      ),
    )
  return [...of(subset.addresses, true), ...of(subset.notReadyAddresses, false)]
}

/**
 * Differences from upstream's packing: each port is in one subset, no two subsets have the same addresses, no subset is
 * empty, and the addresses are in order.
 */
function packingFaults({ subsets = [] }: Endpoints): readonly string[] {
  const faults: string[] = []
  const ports = subsets.flatMap((subset) => (subset.ports ?? []).map((port) => portsText([port])))
  if (new Set(ports).size < ports.length) faults.push('Endpoints have a port in two subsets')
  const sets = subsets.map((subset) => JSON.stringify([subset.addresses ?? [], subset.notReadyAddresses ?? []]))
  if (new Set(sets).size < sets.length) faults.push('Endpoints have two subsets of the same addresses')
  for (const subset of subsets) {
    if (addressesOf(subset).length === 0) faults.push('Endpoints have an empty subset')
    for (const list of [subset.addresses ?? [], subset.notReadyAddresses ?? []]) {
      const keys = list.map(({ ip, targetRef }) => `${ip} ${targetRef?.uid}`)
      if (keys.join() !== [...keys].sort().join()) faults.push(`Endpoints have addresses out of order: ${keys}`)
    }
  }
  return faults
}
