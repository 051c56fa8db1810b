import type { EndpointSlice, Service } from '../../src/kube/resources.ts'
import type { ClusterState } from './cluster-state.ts'
import { labelFaults, lineFaults } from './compared-lines.ts'
import { type ExpectedEndpoints, podText, sliceLine } from './expected-endpoints.ts'
import { isHeadless, portsText } from './expected-members.ts'

export const managedBySlices = 'endpointslice-controller.k8s.io'

const reserved = {
  service: 'kubernetes.io/service-name',
  managedBy: 'endpointslice.kubernetes.io/managed-by',
  headless: 'service.kubernetes.io/headless',
}

/** What is wrong with the EndpointSlices of a Service, without the slices of other managers. */
export function sliceFaults(
  service: Service,
  expected: ExpectedEndpoints,
  state: ClusterState,
  maxEndpoints: number,
): readonly string[] {
  const { namespace, name } = service.metadata ?? {}
  const slices = state.slices.filter(
    ({ metadata }) =>
      metadata?.namespace === namespace &&
      metadata?.deletionTimestamp === undefined &&
      metadata?.labels?.[reserved.service] === name &&
      metadata?.labels?.[reserved.managedBy] === managedBySlices,
  )
  const faults = slices.flatMap((slice) => ownFaults(slice, service, maxEndpoints))
  for (const { metadata, addressType } of slices) {
    if (!expected.slices.has(addressType)) faults.push(`slice ${metadata?.name} of the type ${addressType}`)
  }
  for (const [family, { lines, mayBeEmpty, undecided }] of expected.slices) {
    const ofFamily = slices.filter(({ addressType }) => addressType === family)
    faults.push(
      ...lineFaults(
        `${family} slices`,
        ofFamily.flatMap((slice) => linesOf(slice, undecided)),
        lines,
      ),
    )
    const empty = ofFamily.filter(({ endpoints }) => (endpoints ?? []).length === 0)
    const most = lines.length === 0 ? 1 : 0
    if (ofFamily.length === 0) faults.push(`no ${family} slice`)
    if (empty.length > most && !mayBeEmpty) faults.push(`${empty.length} ${family} slices without endpoints`)
    if (lines.length === 0 && empty.some(({ ports }) => (ports ?? []).length > 0) && !mayBeEmpty) {
      faults.push(`a ${family} placeholder with ports`)
    }
  }
  return faults
}

/** What is wrong with one slice, apart from its endpoints. */
function ownFaults(slice: EndpointSlice, service: Service, maxEndpoints: number): readonly string[] {
  const { name = '', labels = {}, ownerReferences = [] } = slice.metadata ?? {}
  const what = `slice ${name}`
  const faults: string[] = []
  const size = (slice.endpoints ?? []).length
  if (size > maxEndpoints) faults.push(`${what} has ${size} endpoints`)
  if (!name.startsWith(`${service.metadata?.name}-`)) faults.push(`${what} is not named after its Service`)
  const reference = {
    apiVersion: 'v1',
    kind: 'Service',
    name: service.metadata?.name,
    uid: service.metadata?.uid,
    controller: true,
    blockOwnerDeletion: true,
  }
  const owner = ownerReferences[0] as Readonly<Record<string, unknown>> | undefined
  const isOwner = Object.entries(reference).every(([field, value]) => owner?.[field] === value)
  if (ownerReferences.length !== 1 || !isOwner) faults.push(`${what} is owned by ${JSON.stringify(ownerReferences)}`)
  const own = Object.entries(service.metadata?.labels ?? {}).filter(([key]) => !Object.values(reserved).includes(key))
  const wanted = {
    ...Object.fromEntries(own),
    ...(isHeadless(service) ? { [reserved.headless]: '' } : {}),
    [reserved.service]: service.metadata?.name ?? '',
    [reserved.managedBy]: managedBySlices,
  }
  return [...faults, ...labelFaults(what, labels, wanted)]
}

function linesOf({ ports, endpoints }: EndpointSlice, undecided: ReadonlySet<string>): readonly string[] {
  const text = portsText(ports ?? [])
  const decided = (endpoints ?? []).filter(({ targetRef }) => !undecided.has(podText(targetRef)))
  return decided.map((endpoint) => {
    const { addresses, conditions = {}, targetRef, nodeName, zone, hostname, hints } = endpoint
    return sliceLine({
      addresses,
      ports: text,
      ready: conditions.ready,
      serving: conditions.serving,
      terminating: conditions.terminating,
      pod: podText(targetRef),
      node: nodeName,
      zone,
      hostname,
      hints: [
        ...(hints?.forZones ?? []).map((one) => `zone ${one.name}`),
        ...(hints?.forNodes ?? []).map((one) => `node ${one.name}`),
      ].join(' '),
    })
  })
}
