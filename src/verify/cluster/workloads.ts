import { countAddresses, isMadeFromPods, planEndpoints, withManager } from '../../endpoints/endpoints-plan.ts'
import { wantedSubsets } from '../../endpoints/wanted-subsets.ts'
import type { Endpoint } from '../../endpointslice/endpoint.ts'
import { managedByLabel, portsKey, serviceKeyOf } from '../../endpointslice/slice.ts'
import { managedByController, planSlices } from '../../endpointslice/slices-plan.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpoints as endpointsResource,
  isBeingDeleted,
  type KubeObject,
  type Pod,
  type Resource,
  type Service,
  endpointSlices as sliceResource,
} from '../../kube/resources.ts'
import { keyOf, keyOfObject, refOfObject } from '../../kube/store.ts'
import { addressesInSlice, KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { selectsPods } from '../../workloads/pod-rules.ts'
import { SelectorIndex } from '../../workloads/selector-index.ts'
import {
  byHand,
  type Command,
  type Finding,
  kubectlDelete,
  runControllers,
  type Verdict,
  verdictOf,
} from './finding.ts'
import { isSecondSlice } from './kubernetes-endpoints.ts'
import { type CheckContext, type Parts, partOf } from './state.ts'

/** kube-controller-manager's controller that mirrors Endpoints of Services without a selector into slices. */
const MIRRORING = 'endpointslicemirroring-controller.k8s.io'
/**
 * The largest value that kube-controller-manager accepts. The check does not depend on it: slices are in sync however
 * densely they are packed.
 */
const MAX_ENDPOINTS = 1_000
/** An object with this annotation is the lock of a leader election, and needs no Service. */
const LEADER = 'control-plane.alpha.kubernetes.io/leader'

export function judgeServiceEndpoints({
  services,
  pods,
  endpoints,
}: Pick<Parts, 'services' | 'pods' | 'endpoints'>): Verdict {
  const byKey = new Map(endpoints.map((one) => [keyOfObject(one), one]))
  const selected = selectedPods(services, pods)
  const findings: Finding[] = []
  for (const [service, own] of selected) {
    const key = keyOfObject(service)
    const current = byKey.get(key)
    // Before 1.33, kube-controller-manager writes no label of its own, so the comparison adds it.
    const plan = planEndpoints({
      service,
      pods: own,
      current: current === undefined ? undefined : withManager(current),
    })
    if (plan.type === 'none') continue
    const wanted = countAddresses(wantedSubsets(service, own))
    const listed = countAddresses(current?.subsets ?? [])
    const seen = listed === wanted ? `${listed} addresses, but other labels, addresses or ports` : `${listed} addresses`
    const found = current === undefined ? 'no Endpoints' : seen
    const expected = `Endpoints with ${wanted} addresses, from ${own.length} Pods`
    findings.push({ object: `Endpoints ${key}`, expected, found, remedy: runController('endpoints') })
  }
  return verdictOf(findings, `${selected.size} Services with a selector`)
}

/** Ignores copies, which {@link judgeDuplicates} reports. */
export function judgeServiceSlices(parts: Pick<Parts, 'services' | 'pods' | 'nodes' | 'endpointSlices'>): Verdict {
  const { services, pods, nodes, endpointSlices } = parts
  const copies = new Set(copiesIn(endpointSlices))
  const counted = endpointSlices.filter((slice) => isPresent(slice) && !copies.has(slice))
  const byService = Map.groupBy(counted, serviceKeyOf)
  const byName = new Map(nodes.map((node) => [node.metadata?.name ?? '', node]))
  const selected = selectedPods(services, pods)
  const findings: Finding[] = []
  for (const [service, own] of selected) {
    const key = keyOfObject(service)
    const slices = byService.get(key) ?? []
    const plan = planSlices({
      service: withoutHints(service),
      pods: own,
      nodeOf: (name) => byName.get(name),
      slices: slices.filter((slice) => isOfService(slice, service)),
      maxEndpointsPerSlice: MAX_ENDPOINTS,
      triggerTime: undefined,
      topology: undefined,
    })
    const actions = plan.addressTypes.flatMap(({ actions }) => actions)
    if (actions.length === 0 && plan.unsupported.length === 0) continue
    const added = plan.addressTypes.reduce((sum, one) => sum + one.added, 0)
    const removed = plan.addressTypes.reduce((sum, one) => sum + one.removed, 0)
    const writes = actions.length + plan.unsupported.length
    const wrong = [
      ...(added === 0 ? [] : [`${added} endpoints are missing`]),
      ...(removed === 0 ? [] : [`${removed} endpoints are wrong`]),
    ]
    const seen =
      wrong.join(', ') || `${writes} slices to be created, deleted, or given other labels, ports or conditions`
    const found = slices.length === 0 ? 'no slice of the controller' : `${slices.length} slices: ${seen}`
    const expected = `slices with the endpoints of its ${own.length} Pods`
    findings.push({ object: `EndpointSlices of ${key}`, expected, found, remedy: runController('endpointslice') })
  }
  return verdictOf(findings, `${selected.size} Services with a selector`)
}

/**
 * Whether the slice is one of the controller. A slice that is being deleted does not count: the controller replaces it
 * at once.
 */
function isPresent(slice: EndpointSlice): boolean {
  return slice.metadata?.labels?.[managedByLabel] === managedByController && !isBeingDeleted(slice)
}

/** False for a slice of an earlier Service of the same name, which is an orphan. */
function isOfService({ metadata }: EndpointSlice, service: Service): boolean {
  const owners = (metadata?.ownerReferences ?? []) as readonly { readonly uid?: string }[]
  return owners.length === 0 || owners.some(({ uid }) => uid === service.metadata?.uid)
}

function withoutHints(service: Service): Service {
  const { trafficDistribution: _hinted, ...spec } = service.spec ?? {}
  const { annotations: _annotations, ...metadata } = service.metadata ?? {}
  return { ...service, metadata, spec } as Service
}

/** No other controller may run beside ours, because both would write the same objects. */
function runController(controller: 'endpoints' | 'endpointslice'): readonly Command[] {
  const own = `${controller}-controller`
  const stop = `first stop kube-controller-manager's ${own} (--controllers=*,-${own}), or see in its log why it does not write`
  return [
    runControllers(controller, '--range-registry=none', '--leader-elect=false'),
    byHand(`${stop}; this runs until Ctrl-C: end it when verify holds`),
  ]
}

function selectedPods(services: readonly Service[], pods: readonly Pod[]): ReadonlyMap<Service, readonly Pod[]> {
  // The check kubernetes-service judges a selector of default/kubernetes.
  const selecting = services
    .filter((service) => selectsPods(service) && keyOfObject(service) !== keyOf(KUBERNETES_SERVICE))
    .map((service) => ({ service, selector: service.spec?.selector ?? {} }))
  const labelled = pods.map((pod) => ({ pod, labels: pod.metadata?.labels }))
  const podsIn = Map.groupBy(labelled, ({ pod }) => pod.metadata?.namespace)
  const selected = new Map<Service, readonly Pod[]>()
  for (const [namespace, own] of Map.groupBy(selecting, ({ service }) => service.metadata?.namespace)) {
    const index = new SelectorIndex<(typeof selecting)[number], (typeof labelled)[number]>(
      () => podsIn.get(namespace) ?? [],
    )
    for (const one of own) index.addSelector(one)
    for (const one of own) {
      selected.set(
        one.service,
        index.matching(one).map(({ pod }) => pod),
      )
    }
  }
  return selected
}

export function judgeOrphans(
  { services, endpointSlices }: Pick<Parts, 'services' | 'endpointSlices'>,
  context: CheckContext,
): Verdict {
  const byKey = new Map(services.map((service) => [keyOfObject(service), service]))
  const slices = endpointSlices.flatMap((slice): readonly Finding[] => {
    const key = serviceKeyOf(slice)
    if (key === undefined || isBeingDeleted(slice)) return []
    const managedBy = slice.metadata?.labels?.[managedByLabel] ?? ''
    const service = byKey.get(key)
    const isOrphan =
      service === undefined
        ? managedBy === managedByController || managedBy === MIRRORING
        : managedBy === managedByController && !isOfService(slice, service)
    return isOrphan ? [orphan(sliceResource, slice, key)] : []
  })
  const endpoints = (partOf(context, 'endpoints') ?? []).flatMap((one): readonly Finding[] => {
    const isLock = one.metadata?.annotations?.[LEADER] !== undefined
    const isNeeded = byKey.has(keyOfObject(one)) || isLock || isBeingDeleted(one)
    if (isNeeded || !isMadeFromPods(one)) return []
    return [orphan(endpointsResource, one, keyOfObject(one))]
  })
  return verdictOf([...slices, ...endpoints], `${endpointSlices.length} slices`)
}

function orphan(resource: Resource<KubeObject>, object: Endpoints | EndpointSlice, service: string): Finding {
  return {
    object: `${resource.kind} ${keyOfObject(object)}`,
    expected: 'the Service that it was made for',
    found: `there is no such Service: ${service}`,
    remedy: [kubectlDelete(resource, refOfObject(object))],
  }
}

export function judgeDuplicates({ endpointSlices }: Pick<Parts, 'endpointSlices'>): Verdict {
  const kubernetes = keyOf(KUBERNETES_SERVICE)
  const findings = endpointSlices.flatMap((slice): readonly Finding[] => {
    const { name = '' } = slice.metadata ?? {}
    if (serviceKeyOf(slice) !== kubernetes || name === KUBERNETES_SERVICE.name || isSecondSlice(name)) return []
    return [copyOf(slice, `only the slice ${kubernetes}`)]
  })
  const copies = copiesIn(endpointSlices).map((slice) => copyOf(slice, 'endpoints that are in no other slice'))
  return verdictOf([...findings, ...copies], `${endpointSlices.length} slices`)
}

function copyOf(slice: EndpointSlice, expected: string): Finding {
  const listed = addressesInSlice(slice).slice(0, 3).join(', ')
  return {
    object: `EndpointSlice ${keyOfObject(slice)}`,
    expected,
    found: `lists ${listed || 'nobody'}`,
    remedy: [kubectlDelete(sliceResource, refOfObject(slice))],
  }
}

/** Slices whose endpoints are all in older slices of the same Service, ports and family. */
function copiesIn(slices: readonly EndpointSlice[]): readonly EndpointSlice[] {
  const present = slices.filter((slice) => isPresent(slice) && slice.endpoints?.length)
  const groups = Map.groupBy(present, (slice) => `${serviceKeyOf(slice)} ${slice.addressType} ${portsKey(slice.ports)}`)
  return [...groups.values()].flatMap((group) => {
    if (group.length < 2) return []
    const seen = new Set<string>()
    return group.sort(byCreation).filter(({ endpoints }) => {
      const texts = (endpoints ?? []).map(endpointText)
      const isCopy = texts.every((text) => seen.has(text))
      for (const text of texts) seen.add(text)
      return isCopy
    })
  })
}

function endpointText({ addresses, targetRef }: Endpoint): string {
  return `${addresses.join()} ${targetRef?.name ?? ''}`
}

function byCreation(a: EndpointSlice, b: EndpointSlice): number {
  const rank = ({ metadata }: EndpointSlice): string => `${metadata?.creationTimestamp} ${metadata?.name}`
  return rank(a) < rank(b) ? -1 : 1
}
