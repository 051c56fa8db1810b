import type { EndpointSlice, Endpoints, Service } from '../../kube/resources.ts'
import { lastChangeTriggerTime } from '../../workloads/trigger-times.ts'
import { isUnchanged } from '../endpoint-identity.ts'
import { namePrefixOf } from '../new-slice.ts'
import type { SliceAction } from '../slice-actions.ts'
import { type Labels, managedByLabel, serviceNameLabel } from '../slice-labels.ts'
import { groupKey, identityOf, type MirroredGroup, mirroredEndpoints } from './mirrored-endpoints.ts'
import { recycleSlices } from './recycled-slices.ts'

/** The value of the label `endpointslice.kubernetes.io/managed-by` of mirrored slices. */
export const mirroringManager = 'endpointslicemirroring-controller.k8s.io'

const skipMirrorLabel = 'endpointslice.kubernetes.io/skip-mirror'
const leaderElectionAnnotation = 'control-plane.alpha.kubernetes.io/leader'
const lastAppliedAnnotation = 'kubectl.kubernetes.io/last-applied-configuration'

/** What there is to tell of Endpoints that cannot be mirrored whole. */
export interface MirrorComplaint {
  readonly reason: 'InvalidIPAddress' | 'TooManyAddressesToMirror'
  readonly note: string
}

/** How a plan changes what is mirrored: for metrics. */
export interface MirrorTally {
  readonly added: number
  readonly updated: number
  readonly removed: number
  readonly skipped: number
  /** What slices of one address type and one list of ports there will be, and for how many endpoints. */
  readonly groups: readonly { readonly endpoints: number; readonly slices: number }[]
}

export type MirrorPlan =
  /** The Endpoints are not to be mirrored: what there is of mirrored slices goes. */
  | { readonly type: 'withdrawn'; readonly actions: readonly SliceAction[] }
  | {
      readonly type: 'mirrored'
      readonly actions: readonly SliceAction[]
      /** Slices that are right as they are. */
      readonly unchanged: readonly EndpointSlice[]
      readonly complaints: readonly MirrorComplaint[]
      readonly tally: MirrorTally
    }

/** Whether Endpoints are to be mirrored, if their Service has no selector: not where a label says so, nor where they elect a leader. */
export function mayBeMirrored(endpoints: Endpoints | undefined): endpoints is Endpoints {
  if (endpoints?.metadata?.labels?.[skipMirrorLabel] === 'true') return false
  return endpoints !== undefined && endpoints.metadata?.annotations?.[leaderElectionAnnotation] === undefined
}

export function hasSelector(service: Service): boolean {
  return service.spec?.selector !== undefined && service.spec.selector !== null
}

/**
 * Decides what must become of the mirrored slices of a Service, so that they say what its Endpoints say: one slice for each address type and list of ports, with
 * the labels and annotations of the Endpoints. Pure. `slices` are all mirrored slices that name the Service.
 *
 * Slices that are not needed become those that are missing. Of several for the same, one that is right already stays.
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
  const tally = { added: 0, updated: 0, removed: 0, skipped, groups: [] as { endpoints: number; slices: number }[] }
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
    const isRight = (slice: EndpointSlice): boolean =>
      !hasChanges(changesOf(slice, desired)) &&
      sameText(wanted.labels, slice.metadata?.labels) &&
      sameText(wanted.annotations, slice.metadata?.annotations) &&
      !belongsToFormer(slice, endpoints)
    const kept = present.find(isRight)
    const [base = undefined] = kept === undefined ? present : [kept]
    const changes = base === undefined ? { added: count, updated: 0, removed: 0 } : changesOf(base, desired)
    tally.added += changes.added
    tally.updated += changes.updated
    tally.removed += changes.removed
    remove.push(...present.filter((slice) => slice !== base))
    if (kept !== undefined) unchanged.push(kept)
    else if (base === undefined) create.push(newMirror(endpoints, desired, undefined))
    else update.push(newMirror(endpoints, desired, base))
  }
  for (const others of existing.values()) remove.push(...others)

  const writes = recycleSlices({ create, update, remove })
  // The garbage collector is about to delete the slices of Endpoints that are being deleted.
  const created = endpoints.metadata?.deletionTimestamp ? [] : writes.create
  return {
    type: 'mirrored',
    actions: [
      ...created.map((slice) => ({ type: 'create', slice }) as const),
      ...writes.update.map((slice) => ({ type: 'update', slice }) as const),
      ...writes.remove.map((slice) => ({ type: 'delete', slice }) as const),
    ],
    unchanged,
    complaints: complaintsOf(invalid, skipped, maxEndpointsPerSubset),
    tally,
  }
}

/** A slice for the Endpoints: in place of another, or to be created with a name that is left to the server. */
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

/** All but the time of the last change, which is that of the Endpoints, and what kubectl remembers of them. */
function annotationsOf(endpoints: Endpoints): Labels {
  const {
    [lastChangeTriggerTime]: _time,
    [lastAppliedAnnotation]: _applied,
    ...others
  } = endpoints.metadata?.annotations ?? {}
  return others
}

interface Changes {
  readonly added: number
  readonly updated: number
  readonly removed: number
}

/** What has to be done to the endpoints of a slice. One that is in it twice is once too often. */
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

/** Whether a slice was made for Endpoints of this name that are gone. */
function belongsToFormer(slice: EndpointSlice, endpoints: Endpoints): boolean {
  const { name, uid } = endpoints.metadata ?? {}
  return (slice.metadata?.ownerReferences ?? []).some(
    (owner) => owner.kind === 'Endpoints' && owner.name === name && (owner.uid ?? '') !== (uid ?? ''),
  )
}

function sameText(wanted: Labels, found: Labels = {}): boolean {
  const keys = Object.keys(wanted)
  return keys.length === Object.keys(found).length && keys.every((key) => wanted[key] === found[key])
}

function complaintsOf(invalid: number, skipped: number, max: number): readonly MirrorComplaint[] {
  const complaints: MirrorComplaint[] = []
  if (invalid > 0) {
    const note = `Skipped ${invalid} invalid IP addresses when mirroring to EndpointSlices`
    complaints.push({ reason: 'InvalidIPAddress', note })
  }
  if (skipped > invalid) {
    const note =
      `A max of ${max} addresses can be mirrored to EndpointSlices per Endpoints subset. ` +
      `${skipped} addresses were skipped`
    complaints.push({ reason: 'TooManyAddressesToMirror', note })
  }
  return complaints
}
