import type { EndpointSlice, Endpoints, Service } from '../../src/kube/resources.ts'
import { type ClusterState, keyOf } from './cluster-state.ts'
import { labelFaults, lineFaults } from './compared-lines.ts'
import { portsText } from './expected-members.ts'

const managedByMirroring = 'endpointslicemirroring-controller.k8s.io'
const leaderElectionRecord = 'control-plane.alpha.kubernetes.io/leader'
const notMirrored = [
  'endpoints.kubernetes.io/last-change-trigger-time',
  'kubectl.kubernetes.io/last-applied-configuration',
]

/**
 * What is wrong with the slices that mirror the Endpoints of a Service, or that should not mirror them (utils.go and
 * reconciler.go of endpointslicemirroring).
 */
export function mirrorFaults(key: string, service: Service | undefined, state: ClusterState): readonly string[] {
  const endpoints = state.endpoints.find((candidate) => keyOf(candidate) === key)
  const mirrors = state.slices.filter((slice) => mirroredKeyOf(slice) === key)
  if (endpoints === undefined || service === undefined || !isMirrored(service, endpoints)) {
    return mirrors.map(({ metadata }) => `${metadata?.name} mirrors what is not to be mirrored`)
  }
  const lines = mirrors.flatMap((slice) => linesOf(slice))
  const faults = mirrors.flatMap((slice) => ownFaults(slice, endpoints))
  const groups = mirrors.map(({ addressType, ports }) => `${addressType} ${portsText(ports ?? [])}`)
  if (new Set(groups).size < groups.length) faults.push('two mirrors of the same ports')
  for (const { metadata, endpoints: own } of mirrors) {
    if ((own ?? []).length === 0) faults.push(`${metadata?.name} mirrors nothing`)
  }
  return [...faults, ...lineFaults('mirrors', lines, expectedLines(endpoints))]
}

/** The Service whose Endpoints a slice mirrors, by `namespace/name`. */
export function mirroredKeyOf({ metadata }: EndpointSlice): string | undefined {
  const { namespace, labels = {} } = metadata ?? {}
  if (labels['endpointslice.kubernetes.io/managed-by'] !== managedByMirroring) return undefined
  return `${namespace}/${labels['kubernetes.io/service-name']}`
}

function isMirrored(service: Service, { metadata }: Endpoints): boolean {
  const { labels = {}, annotations = {} } = metadata ?? {}
  if (labels['endpointslice.kubernetes.io/skip-mirror'] === 'true') return false
  return service.spec?.selector === undefined && annotations[leaderElectionRecord] === undefined
}

function line(ip: string, ports: string, ready: boolean | undefined): string {
  return `${ip} ${ports} ready ${ready}`
}

function expectedLines({ subsets = [] }: Endpoints): readonly string[] {
  return subsets.flatMap(({ addresses = [], notReadyAddresses = [], ports = [] }) => [
    ...addresses.map(({ ip }) => line(ip, portsText(ports), true)),
    ...notReadyAddresses.map(({ ip }) => line(ip, portsText(ports), false)),
  ])
}

function linesOf({ endpoints, ports, addressType }: EndpointSlice): readonly string[] {
  return (endpoints ?? []).map(({ addresses, conditions }) => {
    const isRightFamily = addresses.every((ip) => ip.includes(':') === (addressType === 'IPv6'))
    return line(isRightFamily ? addresses.join() : `${addressType}?`, portsText(ports ?? []), conditions?.ready)
  })
}

function ownFaults(slice: EndpointSlice, endpoints: Endpoints): readonly string[] {
  const { name = '', labels = {}, annotations = {}, ownerReferences = [] } = slice.metadata ?? {}
  const wanted = {
    ...endpoints.metadata?.labels,
    'kubernetes.io/service-name': endpoints.metadata?.name ?? '',
    'endpointslice.kubernetes.io/managed-by': managedByMirroring,
  }
  const mirrored = Object.entries(endpoints.metadata?.annotations ?? {}).filter(([key]) => !notMirrored.includes(key))
  const [owner, ...others] = ownerReferences
  const isOwned = owner?.kind === 'Endpoints' && owner.uid === endpoints.metadata?.uid && others.length === 0
  return [
    ...labelFaults(name, labels, wanted),
    ...labelFaults(`${name} (annotations)`, annotations, Object.fromEntries(mirrored)),
    ...(isOwned ? [] : [`${name} is owned by ${JSON.stringify(ownerReferences)}`]),
  ]
}
