import {
  apiVersionOf,
  type Endpoints,
  endpoints as endpointsResource,
  type Pod,
  type Service,
} from '../kube/resources.ts'
import { hasClusterIp, lastChangeTriggerTime, selectsPods } from '../workloads/pod-rules.ts'
import { type Labels, sameLabels } from '../workloads/selector-index.ts'
import { type EndpointSubset, MOST_OFFERS, subsetOf } from '../workloads/subsets.ts'
import { repackSubsets, sameSubsets } from './subsets.ts'
import { wantedSubsets } from './wanted-subsets.ts'

export type EndpointsAction =
  | { readonly type: 'none' }
  | { readonly type: 'create'; readonly endpoints: Endpoints }
  /** `endpoints` is the whole object, with the resourceVersion of the object that it replaces. */
  | { readonly type: 'update'; readonly endpoints: Endpoints }
  | { readonly type: 'delete'; readonly endpoints: Endpoints }

interface EndpointsObservation {
  /** Undefined if the Service was deleted. */
  readonly service: Service | undefined
  /** The Pods that the Service selects, in any order. */
  readonly pods: readonly Pod[]
  readonly current: Endpoints | undefined
  /** The time of the oldest change that the plan covers, in the form of {@link lastChangeTriggerTime}. */
  readonly triggerTime?: string | undefined
}

/**
 * Decides what must change so that the Endpoints of a Service list its Pods.
 *
 * Pure and idempotent: once a plan is carried out, the next is `none`. Results equal those of upstream's Endpoints
 * controller (`syncService` in pkg/controller/endpoint/endpoints_controller.go), with one exception: unchanged
 * Endpoints are never written. Upstream writes them in each sync if they are over capacity, or if the Service has a
 * label that the controller sets.
 */
export function planEndpoints({ service, pods, current, triggerTime }: EndpointsObservation): EndpointsAction {
  if (service === undefined) return current === undefined ? { type: 'none' } : { type: 'delete', endpoints: current }
  if (!selectsPods(service)) return { type: 'none' }
  const whole = wantedSubsets(service, pods)
  const cut = truncate(whole)
  const subsets = cut ?? whole
  if (current !== undefined && isInSync(current, service, subsets, cut !== undefined)) return { type: 'none' }

  const annotations = {
    ...current?.metadata?.annotations,
    [lastChangeTriggerTime]: triggerTime,
    [overCapacity]: cut === undefined ? undefined : truncated,
  }
  const { name = '', namespace = '' } = service.metadata ?? {}
  const base = current ?? { metadata: { name, namespace } }
  const endpoints = endpointsWith(base, wantedLabels(service), presentOf(annotations), subsets)
  return { type: current === undefined ? 'create' : 'update', endpoints }
}

/** Adds the label of this controller, unless the Endpoints already have that label, whatever its value. */
export function withManager(endpoints: Endpoints): Endpoints {
  const { metadata } = endpoints
  return { ...endpoints, metadata: { ...metadata, labels: { [managedBy]: endpointController, ...metadata?.labels } } }
}

/** Whether the Endpoints have the label of this controller, and every address refers to a Pod. */
export function isMadeFromPods({ metadata, subsets }: Endpoints): boolean {
  if (metadata?.labels?.[managedBy] !== endpointController) return false
  return (subsets ?? []).every(({ addresses, notReadyAddresses }) =>
    [...(addresses ?? []), ...(notReadyAddresses ?? [])].every(({ targetRef }) => targetRef?.kind === 'Pod'),
  )
}

/** Whether the stored Endpoints need no write. `cut`: whether `subsets` were truncated. */
function isInSync(current: Endpoints, service: Service, subsets: readonly EndpointSubset[], cut: boolean): boolean {
  const annotation = current.metadata?.annotations?.[overCapacity]
  if (annotation !== (cut ? truncated : undefined) || !labelsAreInSync(current, service)) return false
  if (sameSubsets(current.subsets, subsets)) return true
  // Another writer may have packed the same addresses differently. If the list is truncated, only equal packing counts,
  // because truncation of another packing retains other addresses.
  const offers = offersOf(current.subsets)
  if (cut || offers > MOST_OFFERS || offers !== offersOf(subsets)) return false
  return sameSubsets(repackSubsets(current.subsets), subsets)
}

/**
 * How many pairs of an address and a port the subsets have. Another client may store an object with millions of pairs,
 * too many to repack.
 */
function offersOf(subsets: readonly EndpointSubset[] | null | undefined): number {
  return (subsets ?? []).reduce((sum, subset) => sum + countAddresses([subset]) * (subset.ports?.length || 1), 0)
}

type Texts = Readonly<Record<string, string>>

function endpointsWith(
  base: Endpoints,
  labels: Texts,
  annotations: Texts | undefined,
  subsets: readonly EndpointSubset[],
): Endpoints {
  const { subsets: _subsets, metadata: { annotations: _annotations, ...metadata } = {}, ...rest } = base
  return {
    // Items of a list have no kind, and not every server derives it from the path.
    apiVersion: apiVersionOf(endpointsResource),
    kind: endpointsResource.kind,
    ...rest,
    metadata: { ...metadata, labels, ...(annotations === undefined ? {} : { annotations }) },
    ...(subsets.length === 0 ? {} : { subsets }),
  }
}

function presentOf(texts: Readonly<Record<string, string | undefined>>): Texts | undefined {
  const present = Object.entries(texts).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return present.length === 0 ? undefined : Object.fromEntries(present)
}

const managedBy = 'endpoints.kubernetes.io/managed-by'
/** kube-controller-manager's value, because readers conclude from this value that the Service has a selector. */
const endpointController = 'endpoint-controller'
const headless = 'service.kubernetes.io/headless'

function wantedLabels(service: Service): Labels {
  const { [headless]: _, ...labels } = service.metadata?.labels ?? {}
  return { ...labels, ...(hasClusterIp(service) ? {} : { [headless]: '' }), [managedBy]: endpointController }
}

/**
 * Upstream: `labelsCorrectForEndpoints`. A wrong label `headless` alone causes no write. If the Service itself has the
 * label `headless` or `managedBy`, all labels are compared; upstream writes the Endpoints of such a Service in each
 * sync.
 */
function labelsAreInSync(endpoints: Endpoints, service: Service): boolean {
  const labels = endpoints.metadata?.labels ?? {}
  const own = service.metadata?.labels ?? {}
  if (headless in own || managedBy in own) return sameLabels(labels, wantedLabels(service))
  if (labels[managedBy] !== endpointController) return false
  let copied = 0
  for (const key in labels) {
    if (key === headless || key === managedBy) continue
    if (labels[key] !== own[key]) return false
    copied++
  }
  return Object.keys(own).length === copied
}

/** Upstream: `maxCapacity`. */
const MAX_ADDRESSES = 1_000

const overCapacity = 'endpoints.kubernetes.io/over-capacity'
const truncated = 'truncated'

export function countAddresses(subsets: readonly EndpointSubset[]): number {
  return total(subsets, 'addresses') + total(subsets, 'notReadyAddresses')
}

/**
 * The subsets, cut down to {@link MAX_ADDRESSES}; undefined if they have no more than that. Addresses that are not
 * ready are cut first. Ready ones are cut only if they alone exceed the limit. Each subset retains its share of the
 * addresses that are cut, rounded up, until the limit is reached. As upstream (`truncateEndpoints`), a subset without
 * addresses stays, though a server may refuse it.
 */
export function truncate(subsets: readonly EndpointSubset[]): readonly EndpointSubset[] | undefined {
  const ready = total(subsets, 'addresses')
  const notReady = total(subsets, 'notReadyAddresses')
  if (ready + notReady <= MAX_ADDRESSES) return undefined
  const cutReady = ready > MAX_ADDRESSES
  const of = cutReady ? ready : notReady
  const free = cutReady ? MAX_ADDRESSES : MAX_ADDRESSES - ready
  let left = free
  return subsets.map(({ addresses = [], notReadyAddresses = [], ports = [] }) => {
    const cut = cutReady ? addresses : notReadyAddresses
    const share = Math.min(Math.ceil((cut.length / of) * free), left)
    const retained = cut.slice(0, share)
    left -= retained.length
    return cutReady ? subsetOf(retained, [], ports) : subsetOf(addresses, retained, ports)
  })
}

function total(subsets: readonly EndpointSubset[], of: 'addresses' | 'notReadyAddresses'): number {
  return subsets.reduce((sum, subset) => sum + (subset[of]?.length ?? 0), 0)
}
