import { type EndpointSlice, type Endpoints, endpointSlices, endpoints } from '../../kube/resources.ts'
import { planEndpointSlice, secondSliceName, sliceOf } from '../../kubernetes-service/endpoints-plan.ts'
import {
  addressesIn,
  addressesInSlice,
  type EndpointSubset,
  endpointPorts,
  isListable,
  KUBERNETES_SERVICE,
  SERVICE_NAME_LABEL,
  SKIP_MIRROR_LABEL,
  samePorts,
} from '../../kubernetes-service/identity.ts'
import {
  byHand,
  type Command,
  type Finding,
  kubectlCreate,
  kubectlDelete,
  kubectlPatch,
  skipped,
  type Verdict,
  verdictOf,
} from './finding.ts'
import { ownSlice, portsText, runMaster, securePortOf } from './kubernetes-objects.ts'
import { leasedAddresses, rowsOf } from './live-masters.ts'
import { type CheckContext, type Parts, partOf } from './state.ts'

export const ENDPOINTS = 'Endpoints default/kubernetes'
const SLICE = 'EndpointSlice default/kubernetes'

/** Judges addresses, ports and label of the Endpoints. Other checks judge which masters are listed. */
export function judgeEndpoints(
  { kubernetesEndpoints: current }: Pick<Parts, 'kubernetesEndpoints'>,
  context: CheckContext,
): Verdict {
  const subsets = current?.subsets ?? []
  const listed = addressesIn(current)
  const notReady = subsets.flatMap(({ notReadyAddresses }) => notReadyAddresses ?? []).map(({ ip }) => ip)
  const right = leasedAddresses(rowsOf(context))
  const alive = notReady.filter((address) => right.includes(address) && !listed.includes(address))
  const remedy = remedyOf(current, alive, context)
  const finding = (expected: string, found: string): Finding => ({ object: ENDPOINTS, expected, found, remedy })
  if (current === undefined) {
    const service = context.state.kubernetesService
    const isAlone = service?.type !== 'read' || service.value !== undefined
    return isAlone
      ? verdictOf([finding('exists', 'missing')], '')
      : skipped(`there is no Service: see kubernetes-service`)
  }
  const unusable = listed.filter((address) => !isListable(address))
  const twice = listed.filter((address, index) => listed.indexOf(address) !== index)
  const findings: Finding[] = []
  if (listed.length === 0) findings.push(finding('at least one address', 'no address'))
  else if (subsets.length > 1) findings.push(finding('one subset', `${subsets.length} subsets`))
  if (unusable.length > 0) findings.push(finding('addresses that clients can reach', unusable.join(', ')))
  if (twice.length > 0) findings.push(finding('each address once', `${twice.join(', ')} more than once`))
  if (notReady.length > 0) findings.push(finding('no notReadyAddresses', `not ready: ${notReady.join(', ')}`))
  const securePort = securePortOf(context)
  if (listed.length > 0) {
    const ports = securePort === undefined ? undefined : endpointPorts(securePort)
    const wrong = ports && subsets.find((subset) => !samePorts(subset.ports ?? [], ports))
    if (wrong !== undefined) findings.push(finding(portsText(ports), portsText(wrong.ports)))
    else if (subsets.every((subset) => !subset.ports?.length)) findings.push(finding('a port', portsText([])))
  }
  if (current.metadata?.labels?.[SKIP_MIRROR_LABEL] !== 'true') {
    findings.push(finding(`label ${SKIP_MIRROR_LABEL}=true`, 'no such label, so the Endpoints are mirrored too'))
  }
  return verdictOf(findings, `${listed.join(', ')} at ${portsText(subsets[0]?.ports)}`)
}

/** `alive`: unlisted addresses that must be listed, in the slice too. */
function remedyOf(current: Endpoints | undefined, alive: readonly string[], context: CheckContext): readonly Command[] {
  const wanted = wantedEndpoints(context, alive)
  if (wanted === undefined) return [runMaster()]
  if (current === undefined) {
    const slices = partOf(context, 'kubernetesSlices')
    const hasSlice = slices === undefined || ownSlice(context) !== undefined
    return [kubectlCreate(wanted), ...(hasSlice ? [] : [kubectlCreate(sliceOf(wanted))])]
  }
  const patch = { metadata: { labels: { [SKIP_MIRROR_LABEL]: 'true' } }, subsets: wanted.subsets }
  const slicePatch = kubectlPatch(endpointSlices, KUBERNETES_SERVICE, { endpoints: sliceOf(wanted).endpoints })
  const isSliceWrong = alive.length > 0 && ownSlice(context) !== undefined
  return [kubectlPatch(endpoints, KUBERNETES_SERVICE, patch), ...(isSliceWrong ? [slicePatch] : [])]
}

/**
 * The Endpoints as they should be, with the usable addresses of the present Endpoints or, if there are none, of the
 * slice, or else of the leases; and with the addresses `more`. Undefined if no usable address or no port is known.
 */
export function wantedEndpoints(context: CheckContext, more: readonly string[] = []): Endpoints | undefined {
  const sources = [
    () => addressesIn(partOf(context, 'kubernetesEndpoints')),
    () => addressesInSlice(ownSlice(context)),
    () => leasedAddresses(rowsOf(context)),
  ]
  for (const addresses of sources) {
    const usable = addresses().filter((one) => isListable(one))
    if (usable.length > 0) return endpointsOf([...new Set([...usable, ...more])], context)
  }
  return undefined
}

/** Undefined if no port of the API servers is known. */
function endpointsOf(own: readonly string[], context: CheckContext): Endpoints | undefined {
  const securePort = securePortOf(context)
  if (securePort === undefined) return undefined
  const found = partOf(context, 'kubernetesEndpoints')?.subsets?.flatMap(({ addresses }) => addresses ?? [])
  const subset: EndpointSubset = {
    addresses: own.map((ip) => found?.findLast((address) => address.ip === ip) ?? { ip }),
    ports: endpointPorts(securePort),
  }
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...KUBERNETES_SERVICE, labels: { [SKIP_MIRROR_LABEL]: 'true' } },
    subsets: [subset],
  }
}

/**
 * Commands that make Endpoints and slice list these addresses. If `addresses` is empty or no port is known, the only
 * remedy is to run a master: the list must never become empty.
 */
export function relist(addresses: readonly string[], context: CheckContext): readonly Command[] {
  const wanted = addresses.length === 0 ? undefined : endpointsOf(addresses, context)
  if (wanted === undefined) return [runMaster()]
  const { endpoints: listed } = sliceOf(wanted)
  return [
    kubectlPatch(endpoints, KUBERNETES_SERVICE, { subsets: wanted.subsets }),
    kubectlPatch(endpointSlices, KUBERNETES_SERVICE, { endpoints: listed }),
  ]
}

/**
 * Checks the slice against {@link wantedEndpoints}. Checks that a second slice has usable addresses and the same ports.
 */
export function judgeSlice(
  { kubernetesSlices }: Pick<Parts, 'kubernetesSlices' | 'kubernetesEndpoints'>,
  context: CheckContext,
): Verdict {
  const wanted = wantedEndpoints(context)
  if (wanted === undefined || partOf(context, 'kubernetesEndpoints') === undefined) {
    return skipped('there are no Endpoints to compare it with: see kubernetes-endpoints')
  }
  const own = ownSlice(context)
  const plan = planEndpointSlice(wanted, own)
  const findings =
    plan.type === 'create' || plan.type === 'update' || plan.type === 'replace'
      ? plan.reasons.map((reason) => sliceFinding(reason, own, plan.object, context))
      : []
  const second = kubernetesSlices.find(({ metadata }) => isSecondSlice(metadata?.name))
  const listed = addressesInSlice(own).join(', ')
  if (second === undefined) return verdictOf(findings, listed)
  return verdictOf(
    [...findings, ...secondSliceFindings(second, wanted)],
    `${listed}; ${addressesInSlice(second).join(', ')}`,
  )
}

function sliceFinding(
  reason: string,
  own: EndpointSlice | undefined,
  wanted: EndpointSlice,
  context: CheckContext,
): Finding {
  // A merge patch preserves a label that it does not name, so it must name each foreign label to remove it.
  const foreign = Object.keys(own?.metadata?.labels ?? {}).map((label) => [label, null] as const)
  const labels = { ...Object.fromEntries(foreign), ...wanted.metadata?.labels }
  const changed = { metadata: { labels }, endpoints: wanted.endpoints, ports: wanted.ports }
  const patch = kubectlPatch(endpointSlices, KUBERNETES_SERVICE, changed)
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
      return finding(
        wanted.addressType,
        `${own?.addressType}`,
        kubectlDelete(endpointSlices, KUBERNETES_SERVICE),
        kubectlCreate(wanted),
      )
    case 'labels':
      return finding(`only the label ${SERVICE_NAME_LABEL}`, JSON.stringify(own?.metadata?.labels ?? {}), patch)
    case 'ports':
      return finding(portsText(wanted.ports), portsText(own?.ports), patch)
    default:
      return finding(
        `lists ${endpointsText(wanted)}, as the Endpoints`,
        `lists ${endpointsText(own)}`,
        ...(otherAddresses(own, wanted, context) ?? [patch]),
      )
  }
}

/**
 * The remedy if Endpoints and slice list different addresses: the leases decide. Undefined if the slice is empty, or
 * lists the same addresses.
 */
function otherAddresses(
  own: EndpointSlice | undefined,
  wanted: EndpointSlice,
  context: CheckContext,
): readonly Command[] | undefined {
  const listed = addressesInSlice(own)
  const differ = listed.toSorted().join() !== addressesInSlice(wanted).toSorted().join()
  if (listed.length === 0 || !differ) return undefined
  const right = leasedAddresses(rowsOf(context))
  if (right.length > 0) return relist(right, context)
  const ask = 'find out which API servers there are, as by --probe, or by their leases with --etcd-servers'
  return [byHand(`cannot decide whether the Endpoints or the slice are right: ${ask}; then make both equal`)]
}

function secondSliceFindings(second: EndpointSlice, wanted: Endpoints): readonly Finding[] {
  const { name = '' } = second.metadata ?? {}
  const listed = addressesInSlice(second)
  const ports = wanted.subsets?.[0]?.ports ?? []
  const remedy = [kubectlDelete(endpointSlices, { ...KUBERNETES_SERVICE, name })]
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
  return name === secondSliceName('IPv4') || name === secondSliceName('IPv6')
}

function endpointsText(slice: EndpointSlice | undefined): string {
  const texts = (slice?.endpoints ?? []).map(({ addresses, conditions }) => {
    const ready = conditions?.ready === true && Object.keys(conditions).length === 1
    return `${addresses.join('+')}${ready ? '' : ` with ${JSON.stringify(conditions ?? {})}`}`
  })
  return texts.length === 0 ? 'nothing' : texts.join(', ')
}
