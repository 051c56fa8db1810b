import type { EndpointSlice, Endpoints, KubeObject, Service } from '../../../src/kube/resources.ts'
import type { ClusterState } from './cluster-state.ts'
import { sliceManagers } from './steps.ts'

/** A difference between what two sides made of one history. */
export interface Difference {
  /** Such as `Endpoints a/s1`. */
  readonly what: string
  readonly left: string
  readonly right: string
}

export interface CompareOptions {
  /**
   * Whether the trigger time must be present on both sides or absent on both, on Endpoints and slices. A controller
   * that sees two changes in one sync gives the object the time of the first. One that sees them in two syncs may write
   * none in the second. So this is only for histories in which each step waits until the controllers have come to rest.
   * In these, the sizes of the slices are compared too.
   */
  readonly triggerTimes?: boolean
  /** The limit of the controllers. The number of slices that exceed it is compared. @default no limit */
  readonly maxEndpointsPerSlice?: number
}

type SliceEndpoint = NonNullable<EndpointSlice['endpoints']>[number]
type Subset = NonNullable<Endpoints['subsets']>[number]
type Address = NonNullable<Subset['addresses']>[number]
type Reference = Address['targetRef']

const triggerTime = 'endpoints.kubernetes.io/last-change-trigger-time'
const serviceName = 'kubernetes.io/service-name'
const managedBy = 'endpointslice.kubernetes.io/managed-by'
const headless = 'service.kubernetes.io/headless'

/**
 * Compares all Endpoints and EndpointSlices of two clusters. Pure. Each difference that it ignores has its reason:
 * there kube-controller-manager does not agree with itself.
 */
export function differencesBetween(
  left: ClusterState,
  right: ClusterState,
  options: CompareOptions = {},
): readonly Difference[] {
  const lefts = contentOf(left, options)
  const rights = contentOf(right, options)
  const names = [...new Set([...lefts.keys(), ...rights.keys()])].sort()
  return names.flatMap((what) => {
    const [one = 'nothing', other = 'nothing'] = [lefts.get(what), rights.get(what)]
    return one === other ? [] : [{ what, left: one, right: other }]
  })
}

/** One text for each Endpoints and for each group of slices. Equal texts mean equal content. */
function contentOf(state: ClusterState, options: CompareOptions): ReadonlyMap<string, string> {
  const { triggerTimes = false } = options
  const comparable = triggerTimes ? withAnyTriggerTime : withoutTriggerTime
  const uids = new Map<string, string>()
  const know = (kind: string, objects: readonly KubeObject[]): void => {
    for (const { metadata } of objects)
      uids.set(metadata?.uid ?? '', `${kind} ${metadata?.namespace}/${metadata?.name}`)
  }
  know('Service', state.services)
  know('Pod', state.pods)
  know('Endpoints', state.endpoints)
  const content = new Map<string, string>()
  for (const endpoints of state.endpoints)
    content.set(`Endpoints ${nameOf(endpoints)}`, endpointsText(endpoints, uids, comparable))

  const groups = new Map<string, EndpointSlice[]>()
  const withSlices = new Set(state.services.filter(hasSlices).map(nameOf))
  const services = new Set(state.services.map(nameOf))
  const filled = new Set(
    state.slices.filter((slice) => isFilled(slice) && !isGarbage(slice, { uids, services })).map(familyOf),
  )
  const waiting = new Set(state.services.filter((service) => waitsForNode(service, state)).map(nameOf))
  for (const slice of state.slices) {
    if (isDrained(slice) && waiting.has(serviceOf(slice))) continue
    const isManaged = withSlices.has(serviceOf(slice))
    if (isPlaceholder(slice) ? !isManaged : isGarbage(slice, { uids, services })) continue
    if (isPlaceholder(slice) && filled.has(familyOf(slice))) continue
    const key = groupOf(slice, uids, comparable)
    groups.set(key, [...(groups.get(key) ?? []), slice])
  }
  const auto = new Set(state.services.filter(hasAutomaticHints).map(nameOf))
  for (const [key, slices] of groups) {
    const service = `${slices[0]?.metadata?.namespace}/${slices[0]?.metadata?.labels?.[serviceName]}`
    const sizes = sizesText(slices, options)
    content.set(key, `${sizes}${sliceGroupText(slices, uids, auto.has(service))}`)
  }
  return content
}

/**
 * When a Service or Endpoints are gone, their slices are left to the garbage collector. Their controllers leave them in
 * the state of some moment, and which moment is a race. A slice without its owner reference is also left, if its
 * Service was deleted before a controller reconciled it.
 */
function isGarbage(
  { metadata }: EndpointSlice,
  { uids, services }: { readonly uids: ReadonlyMap<string, string>; readonly services: ReadonlySet<string> },
): boolean {
  const owners = (metadata?.ownerReferences ?? []) as readonly { readonly uid: string }[]
  if (owners.length > 0) return owners.every(({ uid }) => !uids.has(uid))
  const isMade = metadata?.generateName !== undefined
  return isMade && !services.has(`${metadata?.namespace}/${metadata?.labels?.[serviceName]}`)
}

/**
 * A placeholder shows that a Service has no endpoints. Upstream checks neither its owner nor whether it has the
 * headless label, whose value is empty. So upstream leaves the placeholder of an earlier Service of the same name, if
 * it was one already when that Service was deleted, and a placeholder whose owner reference was removed. This program
 * replaces both. So if no controller makes slices for a Service any more, its placeholders belong to it with this
 * program, and are garbage with upstream.
 */
function isPlaceholder({ metadata, ports, endpoints }: EndpointSlice): boolean {
  const isTheirs = metadata?.labels?.[managedBy] === sliceManagers.selected
  return isTheirs && !ports?.length && !endpoints?.length
}

/**
 * Beside slices with endpoints, a placeholder has no meaning. Upstream leaves one if a Pod without ports, and without
 * an address of the family, is among the Pods. Whether it made the placeholder first depends on which changes came
 * together.
 */
function isFilled({ metadata, endpoints }: EndpointSlice): boolean {
  return metadata?.labels?.[managedBy] === sliceManagers.selected && (endpoints?.length ?? 0) > 0
}

/**
 * Whether a Service selects a Pod whose Node is missing. Both sides leave such a Pod out. They retain a slice with its
 * ports that was empty before the sync, but delete one that they empty themselves. Which of the two happens depends on
 * which changes came together.
 */
function waitsForNode({ metadata, spec }: Service, { pods, nodes }: ClusterState): boolean {
  const selector = Object.entries(spec?.selector ?? {})
  return pods.some(
    (pod) =>
      pod.metadata?.namespace === metadata?.namespace &&
      selector.every(([key, value]) => pod.metadata?.labels?.[key] === value) &&
      !nodes.includes(pod.spec?.nodeName ?? ''),
  )
}

function isDrained({ metadata, ports, endpoints }: EndpointSlice): boolean {
  const isTheirs = metadata?.labels?.[managedBy] === sliceManagers.selected
  return isTheirs && (ports?.length ?? 0) > 0 && !endpoints?.length
}

function serviceOf({ metadata }: EndpointSlice): string {
  return `${metadata?.namespace}/${metadata?.labels?.[serviceName]}`
}

function familyOf({ metadata, addressType }: EndpointSlice): string {
  return `${metadata?.namespace}/${metadata?.labels?.[serviceName]} ${addressType}`
}

/** Whether a controller makes slices for a Service. */
function hasSlices({ spec }: Service): boolean {
  return spec?.selector !== undefined && spec.type !== 'ExternalName'
}

/**
 * What the slices of one group have in common. Left out are the name, uid, versions and times, which are new in each
 * cluster, and generateName. A slice retains its generateName, but one that was made by hand loses it when a controller
 * takes it over. Whether the controller takes over that slice or creates a new one depends on timing.
 */
function groupOf(slice: EndpointSlice, uids: ReadonlyMap<string, string>, comparable: ComparableAnnotations): string {
  const { metadata, addressType, ports } = slice
  const { [headless]: _, ...labels } = metadata?.labels ?? {}
  const owners = ((metadata?.ownerReferences ?? []) as readonly { readonly uid: string }[]).map((owner) => ({
    ...owner,
    uid: uids.get(owner.uid) ?? 'unknown',
  }))
  return `slices of ${metadata?.namespace}/${metadata?.labels?.[serviceName]} ${text({
    addressType,
    ports,
    annotations: comparable(metadata?.annotations),
    finalizers: metadata?.finalizers,
    ...(isPlaceholder(slice) ? { labels } : { labels: metadata?.labels, owners }),
  })}`
}

/**
 * All endpoints of a group together. Upstream spreads them over slices in the order of Go's maps, and the number of
 * slices depends on which changes came together in one sync. An empty slice beside a filled one is left from before,
 * and stays until it is needed.
 */
function sliceGroupText(slices: readonly EndpointSlice[], uids: ReadonlyMap<string, string>, auto: boolean): string {
  const endpoints = slices.flatMap((slice) => slice.endpoints ?? [])
  return `${auto ? hintsText(endpoints) : ''}${lines(endpoints.map((endpoint) => endpointText(endpoint, uids, auto)))}`
}

/**
 * If each step waits for the one before, upstream comes to the same sizes again. Otherwise only the number of too large
 * slices is compared.
 */
function sizesText(
  slices: readonly EndpointSlice[],
  { triggerTimes = false, maxEndpointsPerSlice = Number.POSITIVE_INFINITY }: CompareOptions,
): string {
  const sizes = slices.map(({ endpoints }) => endpoints?.length ?? 0).sort((a, b) => a - b)
  if (triggerTimes) return `slices of ${sizes.join(', ')} endpoints\n`
  const large = sizes.filter((size) => size > maxEndpointsPerSlice).length
  return large === 0 ? '' : `${large} slices of more than ${maxEndpointsPerSlice} endpoints\n`
}

function endpointText(endpoint: SliceEndpoint, uids: ReadonlyMap<string, string>, auto: boolean): string {
  const { hints, targetRef, ...rest } = endpoint
  return text({ ...rest, ...(!auto && { hints }), targetRef: referenceOf(targetRef, uids) })
}

/**
 * With the annotation, all ready endpoints get hints, or none does. The order of Go's maps decides which endpoint gets
 * a hint for another zone, and for which of the zones that need equally many. Hints that are good enough stay as they
 * were before the last changes.
 */
function hintsText(endpoints: readonly SliceEndpoint[]): string {
  const ready = endpoints.filter(({ conditions }) => conditions?.ready === true)
  const hinted = ready.filter(({ hints }) => (hints?.forZones?.length ?? 0) > 0)
  const notReady = endpoints.filter((endpoint) => !ready.includes(endpoint) && endpoint.hints !== undefined)
  const share = hinted.length === 0 ? 'none' : hinted.length === ready.length ? 'all' : 'some'
  return `hints for ${share} of the ready${notReady.length === 0 ? '' : `, and for ${notReady.length} that are not`}\n`
}

/**
 * The controllers sort subsets by a hash over uids, which are new in each cluster, and addresses with the same IP by
 * uid.
 */
function endpointsText(
  { metadata, subsets }: Endpoints,
  uids: ReadonlyMap<string, string>,
  comparable: ComparableAnnotations,
): string {
  const addressesOf = (addresses: readonly Address[] | undefined): readonly string[] | undefined =>
    addresses?.map((address) => text({ ...address, targetRef: referenceOf(address.targetRef, uids) })).sort()
  const all = (subsets ?? []).map(({ addresses, notReadyAddresses, ports, ...rest }) =>
    text({ ...rest, ports, ready: addressesOf(addresses), notReady: addressesOf(notReadyAddresses) }),
  )
  const { labels, annotations, ownerReferences, finalizers } = metadata ?? {}
  const compared = { labels, annotations: comparable(annotations), ownerReferences, finalizers }
  return `${text(compared)}\n${lines(all)}`
}

/** A uid is right if it is the uid of the object that the reference names. */
function referenceOf(reference: Reference, uids: ReadonlyMap<string, string>): unknown {
  if (reference?.uid === undefined) return reference
  const { kind, namespace, name } = reference
  const found = uids.get(reference.uid)
  const isRight = found === `${kind} ${namespace}/${name}`
  return { ...reference, uid: isRight ? 'its own' : (found ?? 'unknown') }
}

function hasAutomaticHints({ metadata }: Service): boolean {
  const { annotations = {} } = metadata ?? {}
  const names = ['service.kubernetes.io/topology-aware-hints', 'service.kubernetes.io/topology-mode']
  return names.some((name) => /^[Aa]uto$/.test(annotations[name] ?? ''))
}

type Annotations = Readonly<Record<string, string>>
type ComparableAnnotations = (annotations: Annotations | undefined) => unknown

/** The two sides have different trigger times. */
function withAnyTriggerTime(annotations: Annotations = {}): unknown {
  return triggerTime in annotations ? { ...annotations, [triggerTime]: 'some time' } : withoutTriggerTime(annotations)
}

/** None and no annotations are the same. */
function withoutTriggerTime(annotations: Annotations = {}): unknown {
  const { [triggerTime]: _, ...rest } = annotations
  return Object.keys(rest).length === 0 ? undefined : rest
}

function nameOf({ metadata }: Service | Endpoints): string {
  return `${metadata?.namespace}/${metadata?.name}`
}

function lines(texts: readonly string[]): string {
  return [...texts].sort().join('\n')
}

/** JSON with sorted keys. */
function text(value: unknown): string {
  return JSON.stringify(value, (_, found: unknown) => {
    if (typeof found !== 'object' || found === null || Array.isArray(found)) return found
    return Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)))
  })
}
