import {
  apiVersionOf,
  type Endpoints,
  endpoints as endpointsResource,
  type Pod,
  type Service,
} from '../kube/resources.ts'
import { lastChangeTriggerTime } from '../workloads/trigger-times.ts'
import { endpointController, labelsAreRight, managedBy, wantedLabels } from './endpoints-labels.ts'
import { repackSubsets } from './repack.ts'
import { type EndpointSubset, sameSubsets } from './subset-equality.ts'
import { overCapacity, truncate, truncated } from './truncation.ts'
import { wantedSubsets } from './wanted-subsets.ts'

/** What must be done to the Endpoints of a Service. */
export type EndpointsAction =
  | { readonly type: 'none' }
  | { readonly type: 'create'; readonly endpoints: Endpoints }
  /** The whole object, with the resourceVersion that it replaces. */
  | { readonly type: 'update'; readonly endpoints: Endpoints }
  /** Exactly this object. */
  | { readonly type: 'delete'; readonly endpoints: Endpoints }

/** What a plan for Endpoints rests on. */
export interface EndpointsObservation {
  /** Undefined for one that is gone. */
  readonly service: Service | undefined
  /** Those that the Service selects, in any order. */
  readonly pods: readonly Pod[]
  readonly current: Endpoints | undefined
  /** When the change happened that this is for, as the annotation says it. */
  readonly triggerTime?: string | undefined
}

/**
 * Decides what must change so that the Endpoints of a Service list its Pods.
 *
 * Pure, and done when it is done: a second plan for what the first one asks for is `none`. Results equal those of upstream's Endpoints controller
 * (`syncService` in pkg/controller/endpoint/endpoints_controller.go), but that Endpoints with more addresses than there is room for are written only when
 * something in them changes, not each time.
 */
export function planEndpoints({ service, pods, current, triggerTime }: EndpointsObservation): EndpointsAction {
  if (service === undefined) return current === undefined ? { type: 'none' } : { type: 'delete', endpoints: current }
  if (!hasEndpoints(service)) return { type: 'none' }
  const whole = wantedSubsets(service, pods)
  const cut = truncate(whole)
  const subsets = cut ?? whole
  if (current !== undefined && isRight(current, service, subsets, cut !== undefined)) return { type: 'none' }

  const annotations = {
    ...current?.metadata?.annotations,
    [lastChangeTriggerTime]: triggerTime,
    [overCapacity]: cut === undefined ? undefined : truncated,
  }
  const endpoints = endpointsWith(
    current ?? newEndpointsOf(service),
    wantedLabels(service),
    presentOf(annotations),
    subsets,
  )
  return { type: current === undefined ? 'create' : 'update', endpoints }
}

/** Whether the Endpoints of a Service are made from Pods: those of one without a selector are somebody else's. */
export function hasEndpoints({ spec }: Service): boolean {
  return spec?.type !== 'ExternalName' && spec?.selector !== undefined && spec.selector !== null
}

/** Whether Endpoints are as this controller makes them: nobody has put an address of his own into them. */
export function isMadeFromPods({ metadata, subsets = [] }: Endpoints): boolean {
  if (metadata?.labels?.[managedBy] !== endpointController) return false
  return subsets.every(({ addresses = [], notReadyAddresses = [] }) =>
    [...addresses, ...notReadyAddresses].every(({ targetRef }) => targetRef?.kind === 'Pod'),
  )
}

function isRight(current: Endpoints, service: Service, subsets: readonly EndpointSubset[], cut: boolean): boolean {
  const annotation = current.metadata?.annotations?.[overCapacity]
  if (annotation !== (cut ? truncated : undefined) || !labelsAreRight(current, service)) return false
  if (sameSubsets(current.subsets, subsets)) return true
  // Somebody may have written the same in another order. What was cut off is missed by any other packing, so there it is no use to look.
  return !cut && sameSubsets(repackSubsets(current.subsets), subsets)
}

type Texts = Readonly<Record<string, string>>

function newEndpointsOf({ metadata }: Service): Endpoints {
  return { metadata: { name: metadata?.name ?? '', namespace: metadata?.namespace ?? '' } }
}

/** The object with other contents; what it has besides stays. */
function endpointsWith(
  base: Endpoints,
  labels: Texts,
  annotations: Texts | undefined,
  subsets: readonly EndpointSubset[],
): Endpoints {
  const { subsets: _subsets, metadata: { annotations: _annotations, ...metadata } = {}, ...rest } = base
  return {
    // Items of a list do not say what they are, and not every server knows it from the path.
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
