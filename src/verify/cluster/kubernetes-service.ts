import { isBeingDeleted, namespaces, type Service, services } from '../../kube/resources.ts'
import { keyOf, keyOfObject } from '../../kube/store.ts'
import { secondSliceName } from '../../kubernetes-service/endpoints-plan.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { newService, planService, SERVICE_PORT, type ServiceSettings } from '../../kubernetes-service/service-plan.ts'
import { SYSTEM_NAMESPACES } from '../../namespaces/controller.ts'
import { familyOf, tryParseAddress } from '../../net/address.ts'
import { serviceIpOf } from '../../net/cidr.ts'
import { lookupNameOf } from '../../repair/ip-address/ip-address.ts'
import { clusterIpsOf } from '../../repair/service-claims.ts'
import { FEWEST_ADDRESSES } from '../../service-cidr/options.ts'
import { newClusterIp } from './allocations.ts'
import {
  type Command,
  type Finding,
  kubectl,
  kubectlApply,
  kubectlCreate,
  kubectlDelete,
  kubectlPatch,
  type Verdict,
  verdictOf,
} from './finding.ts'
import { wantedEndpoints } from './kubernetes-endpoints.ts'
import { portsText, runMaster, securePortOf, targetPortOf } from './kubernetes-objects.ts'
import { flagCheck, serviceRanges } from './ranges.ts'
import { type CheckContext, type Parts, partOf } from './state.ts'

const SERVICE = 'Service default/kubernetes'

/** An API server that does not serve Nodes needs no namespace for their Leases. */
export function judgeNamespaces({ namespaces: found }: Pick<Parts, 'namespaces'>, context: CheckContext): Verdict {
  const needed = SYSTEM_NAMESPACES.filter(
    (name) => name !== 'kube-node-lease' || partOf(context, 'nodesServed') !== false,
  )
  const findings = needed.flatMap((name): readonly Finding[] => {
    const object = `Namespace ${name}`
    const create = kubectl('create', 'namespace', name)
    const namespace = found.get(name)
    if (namespace === undefined) return [{ object, expected: 'exists', found: 'missing', remedy: [create] }]
    if (!isBeingDeleted(namespace)) return []
    const gone = kubectl('wait', `${namespaces.plural}/${name}`, '--for=delete', '--timeout=5m')
    return [{ object, expected: 'exists', found: 'is being deleted', remedy: [gone, create] }]
  })
  return verdictOf(findings, needed.join(', '))
}

export function judgeService(
  { kubernetesService: service }: Pick<Parts, 'kubernetesService'>,
  context: CheckContext,
): Verdict {
  const range = serviceRanges(context)?.[0]
  const first = range === undefined ? undefined : serviceIpOf(range).text
  const securePort = securePortOf(context)
  const settings: ServiceSettings = {
    clusterIp: first ?? '',
    securePort: securePort ?? targetPortOf(service) ?? 6443,
    nodePort: service === undefined ? 0 : nodePortOf(service),
  }
  if (service === undefined) {
    const isKnown = first !== undefined && securePort !== undefined
    const taken = holdersOf(first, context)
    const create = [...taken.release, kubectlCreate(newService(settings)), ...endpointsAgain(context)]
    const remedy = isKnown ? create : [runMaster()]
    return verdictOf([{ object: SERVICE, expected: 'exists', found: `missing${taken.text}`, remedy }], '')
  }
  const findings = [
    ...clusterIpFindings(service, settings, first, context),
    ...specFindings(service, settings),
    ...labelFindings(service),
    ...familyFindings(service, context),
  ]
  const ports = portsText(service.spec?.ports)
  return verdictOf(findings, `ClusterIP ${service.spec?.clusterIP}, ${ports}`)
}

function clusterIpFindings(
  service: Service,
  settings: ServiceSettings,
  first: string | undefined,
  context: CheckContext,
): readonly Finding[] {
  const clusterIp = service.spec?.clusterIP ?? ''
  const address = tryParseAddress(clusterIp)
  const expected = first ?? 'the first address of a range'
  const isFirst = first === undefined ? isFirstOfSomeRange(address?.value) : address?.text === first
  // A Service of type ExternalName has no ClusterIP. The patch that `specFindings` proposes gives it one.
  if (isFirst || service.spec?.type === 'ExternalName') return []
  const remove = kubectlDelete(services, KUBERNETES_SERVICE)
  const flagFirst = flagCheck(context, [service])
  const taken = holdersOf(first, context)
  const remedy =
    first === undefined
      ? [runMaster()]
      : flagFirst === undefined
        ? [...taken.release, remove, kubectlCreate(newService(settings)), ...endpointsAgain(context)]
        : [flagFirst]
  const found = `ClusterIP ${clusterIp || 'none'}${taken.text}`
  return [{ object: SERVICE, expected: `ClusterIP ${expected}`, found, remedy }]
}

/** Names the other Services that have this ClusterIP, and the commands that free it for default/kubernetes. */
function holdersOf(
  clusterIp: string | undefined,
  context: CheckContext,
): { readonly text: string; readonly release: readonly Command[] } {
  if (clusterIp === undefined) return { text: '', release: [] }
  const holders = (partOf(context, 'services') ?? []).filter(
    (one) =>
      keyOfObject(one) !== keyOf(KUBERNETES_SERVICE) &&
      clusterIpsOf(one).some((text) => lookupNameOf(text) === lookupNameOf(clusterIp)),
  )
  return {
    text: holders.map((one) => `; Service ${keyOfObject(one)} has ${clusterIp}`).join(''),
    release: holders.flatMap((one) => newClusterIp(one, [], context)),
  }
}

/** Commands that create the Endpoints again, because an API server deletes them with their Service. */
function endpointsAgain(context: CheckContext): readonly Command[] {
  const wanted = wantedEndpoints(context)
  return wanted === undefined ? [] : [kubectlApply(wanted)]
}

/** Whether an address may be the first one after the network address of a range of Services. */
function isFirstOfSomeRange(value: bigint | undefined): boolean {
  return value !== undefined && (value - 1n) % FEWEST_ADDRESSES === 0n
}

/** Checks type, ports and selector, which a master would correct. */
function specFindings(service: Service, settings: ServiceSettings): readonly Finding[] {
  const plan = planService(service, settings, true)
  if (plan.type !== 'update') return []
  const { spec: wanted = {}, metadata: { annotations = {} } = {} } = plan.object
  const { type, ports, clusterIP, clusterIPs } = wanted
  const removed = removedFields(service.spec ?? {}, wanted)
  const removedAnnotations = removedFields(service.metadata?.annotations ?? {}, annotations)
  const patch = kubectlPatch(services, KUBERNETES_SERVICE, {
    ...(Object.keys(removedAnnotations).length > 0 && { metadata: { annotations: removedAnnotations } }),
    spec: { type, ports, ...((service.spec?.clusterIP ?? '') === '' && { clusterIP, clusterIPs }), ...removed },
  })
  // If the range is unknown, so is the address that the Service must get.
  const remedy = clusterIP === '' ? [runMaster()] : [patch]
  return plan.reasons.map((reason): Finding => {
    const [expected, found] = differenceOf(reason, service, plan.object)
    return { object: SERVICE, expected, found, remedy }
  })
}

/** The part of a merge patch that removes the fields which only `found` has. */
function removedFields(found: object, wanted: object): Readonly<Record<string, null>> {
  const names = Object.keys(found).filter((name) => !Object.hasOwn(wanted, name))
  return Object.fromEntries(names.map((name) => [name, null]))
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

function labelFindings({ metadata }: Service): readonly Finding[] {
  const { component, provider } = metadata?.labels ?? {}
  if (component === 'apiserver' && provider === 'kubernetes') return []
  const patch = { metadata: { labels: { component: 'apiserver', provider: 'kubernetes' } } }
  return [
    {
      object: SERVICE,
      expected: 'labels component=apiserver, provider=kubernetes',
      found: `labels component=${component ?? ''}, provider=${provider ?? ''}`,
      remedy: [kubectlPatch(services, KUBERNETES_SERVICE, patch)],
    },
  ]
}

/** Checks that a second ClusterIP has a slice of its family. Without this slice it reaches no API server. */
function familyFindings({ spec }: Service, context: CheckContext): readonly Finding[] {
  const slices = partOf(context, 'kubernetesSlices')
  const clusterIPs = spec?.clusterIPs ?? []
  const [first = '', second] = clusterIPs
  if (slices === undefined || second === undefined) return []
  const name = secondSliceName(familyOf(second))
  if (slices.some(({ metadata }) => metadata?.name === name)) return []
  const families = [familyOf(first)]
  const patch = { spec: { ipFamilyPolicy: 'SingleStack', ipFamilies: families, clusterIPs: [first] } }
  return [
    {
      object: SERVICE,
      expected: `one ClusterIP, as no slice ${name} lists API servers`,
      found: `ClusterIPs ${clusterIPs.join(', ')}`,
      remedy: [kubectlPatch(services, KUBERNETES_SERVICE, patch)],
    },
  ]
}

function nodePortOf({ spec }: Service): number {
  // Masters create NodePort Services only without session affinity.
  if (spec?.type !== 'NodePort' || (spec.sessionAffinity ?? 'None') !== 'None') return 0
  return spec.ports?.find(({ port }) => port === SERVICE_PORT)?.nodePort ?? 0
}
