import type { Service } from '../../src/kube/resources.ts'
import type { ClusterState } from './cluster-state.ts'
import { addressesOf, isHeadless, type Member, membersOf, portsText } from './expected-members.ts'

/**
 * What the Endpoints and EndpointSlices of a Service must contain: one line for each endpoint (in Endpoints: for each
 * endpoint and port), in any order. Written from upstream's Go (endpoints_controller.go, endpointslice's reconciler.go
 * and utils.go, 1.36), without any of the code that it judges.
 */
export interface ExpectedEndpoints {
  readonly endpoints: readonly string[]
  /** By address type. A type that is missing here must have no slice. */
  readonly slices: ReadonlyMap<string, ExpectedSlices>
}

export interface ExpectedSlices {
  readonly lines: readonly string[]
  /** Whether a slice without endpoints may exist beside others. */
  readonly mayBeEmpty: boolean
  /**
   * Pods whose Node is gone. Slices may list them, in their former zone, until something else changes in their Service:
   * the deletion of a Node causes no sync of Services, so that a Node that is created again costs no endpoint.
   */
  readonly undecided: ReadonlySet<string>
}

/** Requires a Service that has endpoints. */
export function expectedEndpoints(service: Service, state: ClusterState): ExpectedEndpoints {
  const members = membersOf(service, state)
  const slices = familiesOf(service).map((family) => [family, expectedSlices(service, members, family, state)] as const)
  return { endpoints: members.flatMap((member) => inEndpoints(service, member)), slices: new Map(slices) }
}

/** One address and port in Endpoints. */
export function endpointsLine(of: {
  readonly ip: string
  readonly pod: string
  readonly node: string
  readonly hostname: string | undefined
  readonly ready: boolean
  readonly port: string
}): string {
  const state = of.ready ? 'ready' : 'not ready'
  return `${of.ip} ${of.port} ${state}, Pod ${of.pod} on ${of.node || 'no Node'}, hostname ${of.hostname ?? 'none'}`
}

/** Whether a line of Endpoints shows its address as ready. */
export function isReady(line: string): boolean {
  return !line.includes(' not ready, Pod ')
}

/** One endpoint of a slice. */
export function sliceLine(of: {
  readonly addresses: readonly string[]
  readonly ports: string
  readonly ready: boolean | undefined
  readonly serving: boolean | undefined
  readonly terminating: boolean | undefined
  readonly pod: string
  readonly node: string | undefined
  readonly zone: string | undefined
  readonly hostname: string | undefined
  readonly hints: string
}): string {
  const { addresses, ports, ready, serving, terminating, pod, node, zone, hostname, hints } = of
  const conditions = `ready ${ready}, serving ${serving}, terminating ${terminating}`
  const place = `Pod ${pod} on ${node ?? 'no Node'} in ${zone ?? 'no zone'}, hostname ${hostname ?? 'none'}`
  return `${[...addresses].sort().join()} ${ports} ${conditions}, ${place}, hints ${hints || 'none'}`
}

/** A reference to a Pod as text. */
export function podText(
  reference:
    | { readonly kind?: string; readonly namespace?: string; readonly name?: string; readonly uid?: string }
    | undefined,
): string {
  if (reference === undefined) return 'unknown'
  return `${reference.kind} ${reference.namespace}/${reference.name} ${reference.uid}`
}

function inEndpoints(service: Service, member: Member): readonly string[] {
  const { spec } = service
  const publishes = spec?.publishNotReadyAddresses === true
  const { pod, ports, isReady, isTerminating, hostname } = member
  if (isTerminating && !publishes) return []
  const [ip] = addressesOf(pod, firstFamilyOf(service, member))
  if (ip === undefined) return []
  const portless = (spec?.ports ?? []).length === 0
  const texts = portless ? (spec?.clusterIP === 'None' ? ['no-ports'] : []) : ports.map((port) => portsText([port]))
  return texts.map((port) =>
    endpointsLine({
      ip,
      pod: podText({ kind: 'Pod', ...pod.metadata }),
      node: pod.spec?.nodeName ?? '',
      hostname,
      ready: publishes || isReady,
      port,
    }),
  )
}

function expectedSlices(
  service: Service,
  members: readonly Member[],
  family: string,
  state: ClusterState,
): ExpectedSlices {
  const publishes = service.spec?.publishNotReadyAddresses === true
  const lines: string[] = []
  const undecided = new Set<string>()
  let mayBeEmpty = false
  for (const { pod, ports, isReady, isTerminating, hostname } of members) {
    if (ports.length === 0) mayBeEmpty = true
    const { nodeName } = pod.spec ?? {}
    const node = state.nodes.find(({ metadata }) => metadata?.name === nodeName)
    if (node === undefined && (nodeName || !publishes)) {
      mayBeEmpty = true
      undecided.add(podText({ kind: 'Pod', ...pod.metadata }))
      continue
    }
    const addresses = addressesOf(pod, family)
    if (addresses.length === 0) continue
    const zone = node?.metadata?.labels?.['topology.kubernetes.io/zone'] || undefined
    const ready = publishes || (isReady && !isTerminating)
    const line = {
      addresses,
      ports: portsText(ports),
      ready,
      serving: isReady,
      terminating: isTerminating,
      pod: podText({ kind: 'Pod', ...pod.metadata }),
      node: nodeName || undefined,
      zone,
      hostname,
      hints: ready ? hintsOf(service, zone, nodeName) : '',
    }
    lines.push(sliceLine(line))
  }
  return { lines, mayBeEmpty, undecided }
}

/**
 * The hints for `trafficDistribution`. Those for the topology annotation depend on all endpoints together, and are not
 * known here.
 */
function hintsOf({ spec }: Service, zone: string | undefined, node: string | undefined): string {
  const distribution = spec?.trafficDistribution
  if (distribution === undefined) return ''
  const zones = zone === undefined ? [] : [`zone ${zone}`]
  return [...zones, ...(distribution === 'PreferSameNode' && node ? [`node ${node}`] : [])].join(' ')
}

function firstFamilyOf({ spec }: Service, { pod }: Member): string {
  const [first] = spec?.ipFamilies ?? []
  if (first !== undefined) return first
  const address = spec?.clusterIP && spec.clusterIP !== 'None' ? spec.clusterIP : (pod.status?.podIP ?? '')
  return address.includes(':') ? 'IPv6' : 'IPv4'
}

function familiesOf(service: Service): readonly string[] {
  const { ipFamilies = [], clusterIP = '' } = service.spec ?? {}
  if (ipFamilies.length > 0) return ipFamilies
  if (isHeadless(service)) return ['IPv4', 'IPv6']
  return [clusterIP.includes(':') ? 'IPv6' : 'IPv4']
}
