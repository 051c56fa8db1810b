import type { EndpointSlice, KubeObject, Service } from '../kube/resources.ts'
import { lastChangeTriggerTime } from '../workloads/pod-rules.ts'
import type { Endpoint } from './endpoint.ts'
import { type AddressType, type EndpointPort, type Labels, portsInOrder, type SliceWrites } from './slice.ts'

export type SliceAction =
  | { readonly type: 'create'; readonly slice: EndpointSlice }
  /** Guarded by the resourceVersion of the slice that it replaces. */
  | { readonly type: 'update'; readonly slice: EndpointSlice }
  | { readonly type: 'delete'; readonly slice: EndpointSlice }

interface WantedWrites extends SliceWrites {
  readonly service: Service
  readonly triggerTime: string | undefined
}

/**
 * Orders the writes: creations, updates, deletions (upstream's `finalize`). Where possible, one update replaces a
 * deletion and a creation. `changed`: the number of writes, including creations that {@link actionsOf} omits.
 */
export function planWrites(wanted: WantedWrites): {
  readonly actions: readonly SliceAction[]
  readonly changed: number
} {
  const { service, triggerTime } = wanted
  const create = [...wanted.create]
  const update = [...wanted.update]
  const remove: EndpointSlice[] = []
  for (const slice of wanted.remove) {
    const last = create.at(-1)
    // Slices of an earlier Service of the same name are not reused, because the garbage collector may be about to
    // delete them. Slices of another address type are not reused, because the address type is immutable.
    if (last !== undefined && slice.addressType === last.addressType && isOwnedBy(slice, service)) {
      const { name, resourceVersion } = slice.metadata ?? {}
      create.pop()
      update.push({ ...last, metadata: { ...last.metadata, name, resourceVersion } } as EndpointSlice)
    } else remove.push(slice)
  }
  const sent = (slice: EndpointSlice): EndpointSlice => asSent(slice, triggerTime)
  return {
    actions: actionsOf({ create: create.map(sent), update: update.map(sent), remove }, service),
    changed: create.length + update.length + remove.length,
  }
}

/**
 * The writes in the order in which they are carried out. An owner that is being deleted gets no new slice, because the
 * garbage collector is about to delete its slices.
 */
export function actionsOf({ create, update, remove }: SliceWrites, owner: KubeObject): readonly SliceAction[] {
  const creatable = owner.metadata?.deletionTimestamp ? [] : create
  return [
    ...creatable.map((slice) => ({ type: 'create', slice }) as const),
    ...update.map((slice) => ({ type: 'update', slice }) as const),
    ...remove.map((slice) => ({ type: 'delete', slice }) as const),
  ]
}

/**
 * The updates that may be carried out although slices of the same plan could not be created. An update is left out if
 * it removes an address that is in a slice to create, or in another update that is left out: clients would no longer
 * find that address. `existing` are the slices from which the actions were planned.
 */
export function updatesWithoutCreations(
  actions: readonly SliceAction[],
  existing: readonly EndpointSlice[],
): readonly SliceAction[] {
  const before = new Map(existing.map((slice) => [slice.metadata?.name, slice]))
  const unlisted = new Set<string>()
  const takesAway = ({ slice }: SliceAction): boolean => {
    const after = new Set(addressesOf(slice))
    return addressesOf(before.get(slice.metadata?.name)).some((one) => unlisted.has(one) && !after.has(one))
  }
  let waiting = actions.filter(({ type }) => type === 'create')
  let updates = actions.filter(({ type }) => type === 'update')
  while (waiting.length > 0) {
    for (const { slice } of waiting) for (const address of addressesOf(slice)) unlisted.add(address)
    waiting = updates.filter(takesAway)
    updates = updates.filter((action) => !waiting.includes(action))
  }
  return updates
}

function addressesOf(slice: EndpointSlice | undefined): readonly string[] {
  return (slice?.endpoints ?? []).flatMap(({ addresses }) => addresses)
}

/** The slice as it is sent: with ordered ports, and with the trigger time as an annotation; without it if undefined. */
function asSent(slice: EndpointSlice, time: string | undefined): EndpointSlice {
  const { [lastChangeTriggerTime]: _former, ...others } = slice.metadata?.annotations ?? {}
  const annotations = time === undefined ? others : { ...others, [lastChangeTriggerTime]: time }
  return {
    ...slice,
    // Items of a list lack apiVersion and kind.
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...slice.metadata, annotations },
    ports: slice.ports && portsInOrder(slice.ports),
  } as EndpointSlice
}

const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

interface SliceContent {
  readonly addressType: AddressType
  readonly labels: Labels
  readonly ports: readonly EndpointPort[]
  readonly endpoints: readonly Endpoint[]
}

/** A new slice of a Service. The server chooses its name. */
export function newSlice(service: Service, { addressType, labels, ports, endpoints }: SliceContent): EndpointSlice {
  const { name = '', namespace, uid = '' } = service.metadata ?? {}
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      generateName: namePrefixOf(name),
      namespace,
      labels,
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    addressType,
    endpoints,
    ports,
  } as EndpointSlice
}

/** Whether a slice belongs to this very Service, not to an earlier one of the same name. */
export function isOwnedBy(slice: EndpointSlice, service: Service): boolean {
  const uid = service.metadata?.uid ?? ''
  for (const owner of slice.metadata?.ownerReferences ?? []) {
    if ((owner.uid ?? '') === uid && owner.kind === 'Service' && owner.apiVersion === 'v1') return true
  }
  return false
}

/** The prefix of the names of a Service's slices: the Service's name and, if the result is valid, a dash. */
export function namePrefixOf(serviceName: string): string {
  const prefix = `${serviceName}-`
  // Upstream validates the prefix with its last two characters replaced by `a`.
  const masked = `${serviceName.slice(0, -1)}a`
  return masked.length <= 253 && subdomain.test(masked) ? prefix : serviceName
}
