import type { EndpointSlice, Endpoints, Service } from '../../kube/resources.ts'
import { lastChangeTriggerTime } from '../../workloads/pod-rules.ts'
import { sameLabels } from '../../workloads/selector-index.ts'
import { isUnchanged } from '../endpoint.ts'
import { type Labels, managedByLabel, type SliceWrites, serviceNameLabel } from '../slice.ts'
import { actionsOf, namePrefixOf, type SliceAction } from '../slice-actions.ts'
import type { Packing } from '../slices-plan.ts'
import { groupKey, identityOf, type MirroredGroup, mirroredEndpoints } from './mirrored-endpoints.ts'

/** The value of the label `endpointslice.kubernetes.io/managed-by` of mirrored slices. */
export const mirroringManager = 'endpointslicemirroring-controller.k8s.io'

const skipMirrorLabel = 'endpointslice.kubernetes.io/skip-mirror'
const leaderElectionAnnotation = 'control-plane.alpha.kubernetes.io/leader'
const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration'

export interface MirrorEvent {
  readonly reason: 'InvalidIPAddress' | 'TooManyAddressesToMirror'
  readonly note: string
}

/**
 * What a plan does, for metrics: how many endpoints it adds, updates and removes, and how many addresses it skips. As
 * upstream, `removed` omits the endpoints of surplus slices and of slices whose ports are not wanted any more.
 */
export interface MirrorTally {
  readonly added: number
  readonly updated: number
  readonly removed: number
  readonly skipped: number
  /** The desired numbers of endpoints and slices, for each address type and list of ports. */
  readonly groups: readonly Packing[]
}

export type MirrorPlan =
  /** The Endpoints must not be mirrored: existing mirrored slices are deleted. */
  | { readonly type: 'withdrawn'; readonly actions: readonly SliceAction[] }
  | {
      readonly type: 'mirrored'
      readonly actions: readonly SliceAction[]
      readonly unchanged: readonly EndpointSlice[]
      readonly events: readonly MirrorEvent[]
      readonly tally: MirrorTally
    }

/**
 * Whether Endpoints exist and may be mirrored: the label `skip-mirror` is not `true`, and no leader election uses them
 * as its lock.
 */
export function mayBeMirrored(endpoints: Endpoints | undefined): endpoints is Endpoints {
  if (endpoints?.metadata?.labels?.[skipMirrorLabel] === 'true') return false
  return endpoints !== undefined && endpoints.metadata?.annotations?.[leaderElectionAnnotation] === undefined
}

export function hasSelector(service: Service): boolean {
  return service.spec?.selector !== undefined && service.spec.selector !== null
}

/**
 * Decides what must change so that the mirrored slices of a Service equal its Endpoints: one slice for each address
 * type and list of ports, with the labels and most annotations of the Endpoints. Pure. `slices` are all mirrored slices
 * that name the Service, except those that are being deleted.
 *
 * A slice to delete is reused for one to create. If several slices have the same ports, one that is in sync stays.
 */
export function planMirror(observed: {
  readonly endpoints: Endpoints | undefined
  readonly service: Service | undefined
  readonly slices: readonly EndpointSlice[]
  readonly maxEndpointsPerSubset: number
}): MirrorPlan {
  const { endpoints, service, slices, maxEndpointsPerSubset } = observed
  if (!mayBeMirrored(endpoints) || service === undefined || hasSelector(service)) {
    return { type: 'withdrawn', actions: slices.map((slice) => ({ type: 'delete', slice })) }
  }
  const { groups, invalid, skipped } = mirroredEndpoints(endpoints, maxEndpointsPerSubset)
  const existing = Map.groupBy(slices, ({ addressType, ports }) => groupKey(addressType, ports))
  const wanted = { labels: labelsOf(endpoints), annotations: annotationsOf(endpoints) }

  const create: EndpointSlice[] = []
  const update: EndpointSlice[] = []
  const remove: EndpointSlice[] = []
  const unchanged: EndpointSlice[] = []
  const tally = { added: 0, updated: 0, removed: 0, skipped, groups: [] as Packing[] }
  for (const [key, group] of groups) {
    const present = existing.get(key) ?? []
    existing.delete(key)
    const count = group.endpoints.size
    tally.groups.push({ endpoints: count, slices: count === 0 ? 0 : 1 })
    if (count === 0) {
      remove.push(...present)
      for (const slice of present) tally.removed += slice.endpoints?.length ?? 0
      continue
    }
    const desired = { ...group, endpoints: new Map([...group.endpoints].slice(0, maxEndpointsPerSubset)) }
    const isInSync = (slice: EndpointSlice): boolean =>
      !hasChanges(changesOf(slice, desired)) &&
      sameLabels(wanted.labels, slice.metadata?.labels) &&
      sameLabels(wanted.annotations, slice.metadata?.annotations) &&
      !belongsToFormer(slice, endpoints)
    const retained = present.find(isInSync)
    const [base = undefined] = retained === undefined ? present : [retained]
    const changes = base === undefined ? { added: count, updated: 0, removed: 0 } : changesOf(base, desired)
    tally.added += changes.added
    tally.updated += changes.updated
    tally.removed += changes.removed
    remove.push(...present.filter((slice) => slice !== base))
    if (retained !== undefined) unchanged.push(retained)
    else if (base === undefined) create.push(newMirror(endpoints, desired, undefined))
    else update.push(newMirror(endpoints, desired, base))
  }
  for (const others of existing.values()) remove.push(...others)

  return {
    type: 'mirrored',
    actions: actionsOf(recycleSlices({ create, update, remove }), endpoints),
    unchanged,
    events: eventsOf(invalid, skipped, maxEndpointsPerSubset),
    tally,
  }
}

/** A slice for the Endpoints: a new version of `replaced`, or else a new slice whose name the server chooses. */
export function newMirror(
  endpoints: Endpoints,
  group: MirroredGroup,
  replaced: EndpointSlice | undefined,
): EndpointSlice {
  const { name = '', namespace, uid = '' } = endpoints.metadata ?? {}
  const identity =
    replaced === undefined
      ? { generateName: namePrefixOf(name) }
      : { name: replaced.metadata?.name, resourceVersion: replaced.metadata?.resourceVersion }
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      ...identity,
      namespace,
      labels: labelsOf(endpoints),
      annotations: annotationsOf(endpoints),
      ownerReferences: [{ apiVersion: 'v1', kind: 'Endpoints', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    addressType: group.addressType,
    endpoints: [...group.endpoints.values()],
    ports: group.ports,
  } as EndpointSlice
}

function labelsOf(endpoints: Endpoints): Labels {
  const { labels, name = '' } = endpoints.metadata ?? {}
  return { ...labels, [serviceNameLabel]: name, [managedByLabel]: mirroringManager }
}

/** The annotations to mirror: all but two, which describe the Endpoints alone. */
function annotationsOf(endpoints: Endpoints): Labels {
  const {
    [lastChangeTriggerTime]: _time,
    [lastAppliedAnnotation]: _applied,
    ...others
  } = endpoints.metadata?.annotations ?? {}
  return others
}

type Changes = Pick<MirrorTally, 'added' | 'updated' | 'removed'>

/** How many endpoints of a slice must change. A duplicate endpoint counts as removed. */
function changesOf(slice: EndpointSlice, { endpoints }: MirroredGroup): Changes {
  const found = new Set<string>()
  let updated = 0
  let removed = 0
  for (const endpoint of slice.endpoints ?? []) {
    const identity = identityOf(endpoint)
    const desired = endpoints.get(identity)
    if (desired === undefined || found.has(identity)) {
      removed++
      continue
    }
    found.add(identity)
    if (!isUnchanged(desired, endpoint)) updated++
  }
  return { added: endpoints.size - found.size, updated, removed }
}

function hasChanges({ added, updated, removed }: Changes): boolean {
  return added > 0 || updated > 0 || removed > 0
}

/** Whether the owner of a slice is earlier Endpoints of this name, which were deleted. */
function belongsToFormer(slice: EndpointSlice, endpoints: Endpoints): boolean {
  const { name, uid } = endpoints.metadata ?? {}
  return (slice.metadata?.ownerReferences ?? []).some(
    (owner) => owner.kind === 'Endpoints' && owner.name === name && (owner.uid ?? '') !== (uid ?? ''),
  )
}

function eventsOf(invalid: number, skipped: number, max: number): readonly MirrorEvent[] {
  const events: MirrorEvent[] = []
  if (invalid > 0) {
    const note = `Skipped ${invalid} invalid IP addresses when mirroring to EndpointSlices`
    events.push({ reason: 'InvalidIPAddress', note })
  }
  if (skipped > invalid) {
    const note =
      `A max of ${max} addresses can be mirrored to EndpointSlices per Endpoints subset. ` +
      `${skipped} addresses were skipped`
    events.push({ reason: 'TooManyAddressesToMirror', note })
  }
  return events
}

/**
 * Replaces a deletion and a creation of the same address type by one update. This saves a write, and clients always see
 * the old slice or the new one.
 */
export function recycleSlices({ create, update, remove }: SliceWrites): SliceWrites {
  const removable = Map.groupBy(remove, ({ addressType }) => addressType)
  const recycled = new Set<EndpointSlice>()
  const created: EndpointSlice[] = []
  const updated = [...update]
  for (const slice of create) {
    const former = removable.get(slice.addressType)?.shift()
    if (former === undefined) {
      created.push(slice)
      continue
    }
    recycled.add(former)
    const { name, resourceVersion } = former.metadata ?? {}
    updated.push({ ...slice, metadata: { ...slice.metadata, name, resourceVersion } } as EndpointSlice)
  }
  return { create: created, update: updated, remove: remove.filter((slice) => !recycled.has(slice)) }
}
