import type { EndpointSlice, Service } from '../kube/resources.ts'
import { lastChangeTriggerTime } from '../workloads/trigger-times.ts'
import { isOwnedBy } from './new-slice.ts'
import { inHashOrder } from './slice-ports.ts'

/** One write of a slice. */
export type SliceAction =
  | { readonly type: 'create'; readonly slice: EndpointSlice }
  /** Guarded by the resourceVersion of the slice that it replaces. */
  | { readonly type: 'update'; readonly slice: EndpointSlice }
  | { readonly type: 'delete'; readonly slice: EndpointSlice }

/** What shall become of the slices of one address type of a Service. */
export interface WantedWrites {
  readonly service: Service
  readonly create: readonly EndpointSlice[]
  readonly update: readonly EndpointSlice[]
  readonly remove: readonly EndpointSlice[]
  readonly triggerTime: string | undefined
}

/**
 * Puts writes in their order: creations, updates, deletions (upstream's `finalize`). A slice that would be deleted while another is created becomes the
 * other. A Service that is being deleted gets no slice more: the garbage collector is about to delete what it has.
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
    // The garbage collector may be about to delete slices of an earlier Service of the same name; an address type cannot change.
    if (last !== undefined && slice.addressType === last.addressType && isOwnedBy(slice, service)) {
      const { name, resourceVersion } = slice.metadata ?? {}
      create.pop()
      update.push({ ...last, metadata: { ...last.metadata, name, resourceVersion } } as EndpointSlice)
    } else remove.push(slice)
  }
  const creatable = service.metadata?.deletionTimestamp ? [] : create
  return {
    actions: [
      ...creatable.map((slice) => ({ type: 'create', slice: asSent(slice, triggerTime) }) as const),
      ...update.map((slice) => ({ type: 'update', slice: asSent(slice, triggerTime) }) as const),
      ...remove.map((slice) => ({ type: 'delete', slice }) as const),
    ],
    changed: create.length + update.length + remove.length,
  }
}

/** The slice as it is sent: with the time of what it is written for, or without any, and with its ports in order. */
function asSent(slice: EndpointSlice, time: string | undefined): EndpointSlice {
  const { [lastChangeTriggerTime]: _former, ...others } = slice.metadata?.annotations ?? {}
  const annotations = time === undefined ? others : { ...others, [lastChangeTriggerTime]: time }
  return {
    ...slice,
    // What a list answers has neither.
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...slice.metadata, annotations },
    ports: slice.ports && inHashOrder(slice.ports),
  } as EndpointSlice
}
