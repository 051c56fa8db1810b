import {
  type EndpointSlice,
  type Endpoints,
  endpointSlices,
  endpoints,
  namespaces,
  type Service,
  services,
} from '../../kube/resources.ts'
import { planEndpointSlice, secondSliceName } from '../../kubernetes-service/endpoints-plan.ts'
import {
  addressesIn,
  addressesInSlice,
  type EndpointSubset,
  endpointPorts,
  isListable,
  KUBERNETES_SERVICE,
  type portTexts,
  SERVICE_NAME_LABEL,
  SKIP_MIRROR_LABEL,
  samePorts,
} from '../../kubernetes-service/identity.ts'
import { planService, SERVICE_PORT, type ServiceSettings } from '../../kubernetes-service/service-plan.ts'
import { SYSTEM_NAMESPACES } from '../../namespaces/controller.ts'
import { tryParseAddress } from '../../net/address.ts'
import { serviceIpOf } from '../../net/cidr.ts'
import {
  type Command,
  type Finding,
  kubectl,
  kubectlCreate,
  kubectlPatch,
  skipped,
  type Verdict,
  verdictOf,
} from './finding.ts'
import { serviceRanges } from './ranges.ts'
import { type About, type Parts, partOf } from './state.ts'

const SERVICE = 'Service default/kubernetes'
const ENDPOINTS = 'Endpoints default/kubernetes'
const SLICE = 'EndpointSlice default/kubernetes'
const IN_DEFAULT = `--namespace=${KUBERNETES_SERVICE.namespace}`

/** The fewest addresses of a range, as a power of two: kube-apiserver has no smaller one. */
const FEWEST_ADDRESSES = 8n

/** An API server without Nodes needs no namespace for their Leases. */
export function judgeNamespaces({ namespaces: found }: Pick<Parts, 'namespaces'>, about: About): Verdict {
  const needed = SYSTEM_NAMESPACES.filter(
    (name) => name !== 'kube-node-lease' || partOf(about, 'nodesServed') !== false,
  )
  const findings = needed.flatMap((name): readonly Finding[] => {
    const object = `Namespace ${name}`
    const create = kubectl('create', namespaces.plural, name)
    const namespace = found.get(name)
    if (namespace === undefined) return [{ object, expected: 'exists', found: 'missing', remedy: [create] }]
    if (namespace.metadata?.deletionTimestamp === undefined) return []
    const gone = kubectl('wait', `${namespaces.plural}/${name}`, '--for=delete', '--timeout=5m')
    return [{ object, expected: 'exists', found: 'is being deleted', remedy: [gone, create] }]
  })
  return verdictOf(findings, needed.join(', '))
}

/** The Service against the range, where one is known, and against the port of the API servers. */
export function judgeService({ kubernetesService: service }: Pick<Parts, 'kubernetesService'>, about: About): Verdict {
  const range = serviceRanges(about)?.[0]
  const first = range === undefined ? undefined : serviceIpOf(range).text
  const securePort = securePortOf(about)
  const settings: ServiceSettings = {
    clusterIp: first ?? '',
    securePort: securePort ?? targetPortOf(service) ?? 6443,
    nodePort: service === undefined ? 0 : nodePortOf(service),
  }
  if (service === undefined) {
    const plan = planService(undefined, settings, true)
    const remedy = first === undefined || plan.type !== 'create' ? [runIt(about)] : [kubectlCreate(plan.object)]
    return verdictOf([{ object: SERVICE, expected: 'exists', found: 'missing', remedy }], '')
  }
  const findings = [
    ...clusterIpFindings(service, settings, first),
    ...specFindings(service, settings),
    ...labelFindings(service),
    ...familyFindings(service, about),
  ]
  const ports = portsText(service.spec?.ports)
  return verdictOf(findings, `ClusterIP ${service.spec?.clusterIP}, ${ports}`)
}

function clusterIpFindings(service: Service, settings: ServiceSettings, first: string | undefined): readonly Finding[] {
  const clusterIp = service.spec?.clusterIP ?? ''
  const address = tryParseAddress(clusterIp)
  const expected = first ?? 'the first address of a range'
  const isFirst = first === undefined ? isFirstOfSomeRange(address?.value) : address?.text === first
  // The plan for the type gives an address to a Service that has none.
  if (isFirst || service.spec?.type === 'ExternalName') return []
  const create = planService(undefined, settings, true)
  const again = first === undefined || create.type !== 'create' ? [] : [kubectlCreate(create.object)]
  const remedy = [kubectl('delete', services.plural, KUBERNETES_SERVICE.name, IN_DEFAULT), ...again]
  return [{ object: SERVICE, expected: `ClusterIP ${expected}`, found: `ClusterIP ${clusterIp || 'none'}`, remedy }]
}

/** Whether an address is the one after the network address of some range that a server may have. */
function isFirstOfSomeRange(value: bigint | undefined): boolean {
  return value !== undefined && (value - 1n) % FEWEST_ADDRESSES === 0n
}

/** Type, ports and selector: what the plan of a master would correct. */
function specFindings(service: Service, settings: ServiceSettings): readonly Finding[] {
  const plan = planService(service, settings, true)
  if (plan.type !== 'update') return []
  const { type, ports, clusterIP, clusterIPs } = plan.object.spec ?? {}
  const released = (service.spec?.clusterIP ?? '') === '' ? { clusterIP, clusterIPs, externalName: null } : {}
  const patch = kubectlPatch(
    { plural: services.plural, ...KUBERNETES_SERVICE },
    {
      spec: { type, ports, selector: null, ...released },
    },
  )
  return plan.reasons.map((reason): Finding => {
    const [expected, found] = differenceOf(reason, service, plan.object)
    return { object: SERVICE, expected, found, remedy: [patch] }
  })
}

function differenceOf(reason: string, { spec: found }: Service, { spec: wanted }: Service): readonly [string, string] {
  switch (reason) {
    case 'type':
      return [`type ${wanted?.type}`, `type ${found?.type}`]
    case 'ports':
      return [portsText(wanted?.ports), portsText(found?.ports)]
    default:
      return ['no selector', `selector ${JSON.stringify(found?.selector)}`]
  }
}

const wantedLabels = { component: 'apiserver', provider: 'kubernetes' } as const

function labelFindings({ metadata }: Service): readonly Finding[] {
  const { component, provider } = metadata?.labels ?? {}
  if (component === wantedLabels.component && provider === wantedLabels.provider) return []
  const patch = { metadata: { labels: wantedLabels } }
  return [
    {
      object: SERVICE,
      expected: 'labels component=apiserver, provider=kubernetes',
      found: `labels component=${component ?? ''}, provider=${provider ?? ''}`,
      remedy: [kubectlPatch({ plural: services.plural, ...KUBERNETES_SERVICE }, patch)],
    },
  ]
}

/** A second ClusterIP leads somewhere only with a second slice, and the other way round. */
function familyFindings({ spec }: Service, about: About): readonly Finding[] {
  const slices = partOf(about, 'kubernetesSlices')
  const clusterIPs = spec?.clusterIPs ?? []
  if (slices === undefined || clusterIPs.length < 2) return []
  const second = clusterIPs[1]?.includes(':') ? 6 : 4
  if (slices.some(({ metadata }) => metadata?.name === secondSliceName(second))) return []
  const [first = ''] = clusterIPs
  const families = [first.includes(':') ? 'IPv6' : 'IPv4']
  const patch = { spec: { ipFamilyPolicy: 'SingleStack', ipFamilies: families, clusterIPs: [first] } }
  return [
    {
      object: SERVICE,
      expected: `one ClusterIP, as no slice ${secondSliceName(second)} lists API servers`,
      found: `ClusterIPs ${clusterIPs.join(', ')}`,
      remedy: [kubectlPatch({ plural: services.plural, ...KUBERNETES_SERVICE }, patch)],
    },
  ]
}

/** The Endpoints themselves: what clients could use of them. Who is listed is another check's. */
export function judgeEndpoints({ kubernetesEndpoints }: Pick<Parts, 'kubernetesEndpoints'>, about: About): Verdict {
  const current = kubernetesEndpoints
  const wanted = wantedEndpoints(about)
  const remedy = [remedyOf(current, wanted, about)]
  const finding = (expected: string, found: string): Finding => ({ object: ENDPOINTS, expected, found, remedy })
  if (current === undefined) return verdictOf([finding('exists', 'missing')], '')
  const subsets = current.subsets ?? []
  const listed = addressesIn(current)
  const notReady = subsets.flatMap(({ notReadyAddresses }) => notReadyAddresses ?? []).map(({ ip }) => ip)
  const unusable = listed.filter((address) => !isListable(address))
  const twice = listed.filter((address, index) => listed.indexOf(address) !== index)
  const findings: Finding[] = []
  if (listed.length === 0) findings.push(finding('at least one address', 'no address'))
  else if (subsets.length > 1) findings.push(finding('one subset', `${subsets.length} subsets`))
  if (unusable.length > 0) findings.push(finding('addresses that clients can reach', unusable.join(', ')))
  if (twice.length > 0) findings.push(finding('each address once', `${twice.join(', ')} more than once`))
  if (notReady.length > 0) findings.push(finding('no notReadyAddresses', `not ready: ${notReady.join(', ')}`))
  const ports = wanted?.subsets?.[0]?.ports ?? []
  const wrong = subsets.find((subset) => !samePorts(subset.ports ?? [], ports))
  if (listed.length > 0 && wrong !== undefined) findings.push(finding(portsText(ports), portsText(wrong.ports)))
  if (current.metadata?.labels?.[SKIP_MIRROR_LABEL] !== 'true') {
    findings.push(finding(`label ${SKIP_MIRROR_LABEL}=true`, 'no such label, so the Endpoints are mirrored too'))
  }
  return verdictOf(findings, `${listed.join(', ')} at ${portsText(subsets[0]?.ports)}`)
}

function remedyOf(current: Endpoints | undefined, wanted: Endpoints | undefined, about: About): Command {
  if (wanted === undefined) return runIt(about)
  if (current === undefined) return kubectlCreate(wanted)
  const patch = { metadata: { labels: { [SKIP_MIRROR_LABEL]: 'true' } }, subsets: wanted.subsets }
  return kubectlPatch({ plural: endpoints.plural, ...KUBERNETES_SERVICE }, patch)
}

/**
 * The Endpoints without their faults: their usable addresses, else those of the slice, at the port of the API servers.
 * Undefined if no address is known.
 */
export function wantedEndpoints(about: About): Endpoints | undefined {
  const current = partOf(about, 'kubernetesEndpoints')
  const usable = [...new Set(addressesIn(current).filter((address) => isListable(address)))]
  const own = usable.length > 0 ? usable : addressesInSlice(ownSlice(about)).filter((address) => isListable(address))
  const securePort = securePortOf(about)
  if (own.length === 0 || securePort === undefined) return undefined
  const found = new Map(
    (current?.subsets ?? []).flatMap(({ addresses = [] }) => addresses).map((address) => [address.ip, address]),
  )
  const subset: EndpointSubset = {
    addresses: own.map((ip) => found.get(ip) ?? { ip }),
    ports: endpointPorts(securePort),
  }
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...KUBERNETES_SERVICE, labels: { [SKIP_MIRROR_LABEL]: 'true' } },
    subsets: [subset],
  }
}

/** The slice against the Endpoints as they should be, and the slice of the second family for itself. */
export function judgeSlice(
  { kubernetesSlices }: Pick<Parts, 'kubernetesSlices' | 'kubernetesEndpoints'>,
  about: About,
): Verdict {
  const wanted = wantedEndpoints(about)
  if (wanted === undefined || partOf(about, 'kubernetesEndpoints') === undefined) {
    return skipped('there are no Endpoints to compare it with: see kubernetes-endpoints')
  }
  const own = ownSlice(about)
  const plan = planEndpointSlice(wanted, own)
  const findings =
    plan.type === 'create' || plan.type === 'update' || plan.type === 'replace'
      ? plan.reasons.map((reason) => sliceFinding(reason, own, plan.object))
      : []
  const second = kubernetesSlices.find(({ metadata }) => isSecondSlice(metadata?.name))
  const secondFindings = second === undefined ? [] : secondSliceFindings(second, wanted)
  const listed = addressesInSlice(own).join(', ')
  return verdictOf(
    [...findings, ...secondFindings],
    second === undefined ? listed : `${listed}; ${addressesInSlice(second).join(', ')}`,
  )
}

function sliceFinding(reason: string, own: EndpointSlice | undefined, wanted: EndpointSlice): Finding {
  const target = { plural: endpointSlices.plural, ...KUBERNETES_SERVICE }
  const remove = kubectl('delete', target.plural, target.name, IN_DEFAULT)
  // A merge patch preserves labels that it does not name.
  const foreign = Object.keys(own?.metadata?.labels ?? {}).map((label) => [label, null] as const)
  const labels = { ...Object.fromEntries(foreign), ...wanted.metadata?.labels }
  const patch = kubectlPatch(target, { metadata: { labels }, endpoints: wanted.endpoints, ports: wanted.ports })
  const finding = (expected: string, found: string, ...remedy: readonly Command[]): Finding => ({
    object: SLICE,
    expected,
    found,
    remedy,
  })
  switch (reason) {
    case 'missing':
      return finding('exists', 'missing', kubectlCreate(wanted))
    case 'address-type':
      return finding(wanted.addressType, `${own?.addressType}`, remove, kubectlCreate(wanted))
    case 'labels':
      return finding(`only the label ${SERVICE_NAME_LABEL}`, JSON.stringify(own?.metadata?.labels ?? {}), patch)
    case 'ports':
      return finding(portsText(wanted.ports), portsText(own?.ports), patch)
    default:
      return finding(`lists ${endpointsText(wanted)}, as the Endpoints`, `lists ${endpointsText(own)}`, patch)
  }
}

function secondSliceFindings(second: EndpointSlice, wanted: Endpoints): readonly Finding[] {
  const { name = '' } = second.metadata ?? {}
  const listed = addressesInSlice(second)
  const ports = wanted.subsets?.[0]?.ports ?? []
  const remedy = [kubectl('delete', endpointSlices.plural, name, IN_DEFAULT)]
  const finding = (expected: string, found: string): Finding => ({
    object: `EndpointSlice default/${name}`,
    expected,
    found,
    remedy,
  })
  const unusable = listed.filter((address) => !isListable(address))
  return [
    ...(listed.length === 0 ? [finding('at least one address', 'no address')] : []),
    ...(unusable.length === 0 ? [] : [finding('addresses that clients can reach', unusable.join(', '))]),
    ...(portsText(second.ports) === portsText(ports) ? [] : [finding(portsText(ports), portsText(second.ports))]),
  ]
}

/** Whether a slice of that name lists the API servers' addresses of the second family. */
export function isSecondSlice(name: string | undefined): boolean {
  return name === secondSliceName(4) || name === secondSliceName(6)
}

function ownSlice(about: About): EndpointSlice | undefined {
  return partOf(about, 'kubernetesSlices')?.find(({ metadata }) => metadata?.name === KUBERNETES_SERVICE.name)
}

/**
 * The port of the API servers: what most of Service, Endpoints and slice state, the Endpoints where all differ. So a
 * single wrong one is recognised. Undefined if none states any.
 */
function securePortOf(about: About): number | undefined {
  const stated = [
    partOf(about, 'kubernetesEndpoints')?.subsets?.[0]?.ports?.[0]?.port,
    ownSlice(about)?.ports?.[0]?.port,
    targetPortOf(partOf(about, 'kubernetesService')),
  ].filter((port) => port !== undefined)
  return stated.find((port, index) => stated.indexOf(port) !== index) ?? stated[0]
}

function targetPortOf(service: Service | undefined): number | undefined {
  const port = service?.spec?.ports?.find((one) => one.port === SERVICE_PORT)?.targetPort as unknown
  return typeof port === 'number' ? port : undefined
}

function nodePortOf({ spec }: Service): number {
  if (spec?.type !== 'NodePort') return 0
  return spec.ports?.find(({ port }) => port === SERVICE_PORT)?.nodePort ?? 0
}

function portsText(ports: Parameters<typeof portTexts>[0]): string {
  const texts = (ports ?? []).map(({ name, port, protocol, targetPort, nodePort }) => {
    const target = targetPort === undefined ? '' : ` to ${targetPort}`
    const node = nodePort === undefined || nodePort === 0 ? '' : ` at node port ${nodePort}`
    return `port ${name ?? ''} ${port}/${protocol ?? 'TCP'}${target}${node}`
  })
  return texts.length === 0 ? 'no port' : texts.join(', ')
}

function endpointsText(slice: EndpointSlice | undefined): string {
  const texts = (slice?.endpoints ?? []).map(({ addresses, conditions }) => {
    const ready = conditions?.ready === true && Object.keys(conditions).length === 1
    return `${addresses.join('+')}${ready ? '' : ` with ${JSON.stringify(conditions ?? {})}`}`
  })
  return texts.length === 0 ? 'nothing' : texts.join(', ')
}

/** The master itself, where only it knows what to write. */
export function runIt({ expect }: About, controllers?: string): Command {
  const range = expect.serviceClusterIpRange?.map(({ text }) => text).join(',') ?? 'CIDR'
  const which = controllers === undefined ? ['--advertise-address=ADDRESS'] : ['--endpoint-reconciler-type=none']
  const only = controllers === undefined ? [] : [`--controllers=${controllers}`]
  return {
    tool: 'apiserver-bootstrap',
    args: ['run', ...which, ...only, `--service-cluster-ip-range=${range}`],
  }
}
