import type { KubeApi } from '../kube/api.ts'
import { ifFound } from '../kube/errors.ts'
import { type EndpointSlice, type Service, services } from '../kube/resources.ts'
import { refOfKey } from '../kube/store.ts'
import type { Clock } from '../runtime/clock.ts'
import type { SliceWriter } from './slice-writer.ts'

/**
 * How long a slice is an orphan before its deletion, in milliseconds. A garbage collector, if any, is normally faster.
 */
export const ORPHAN_GRACE_MS = 10_000

export interface OrphansInput {
  readonly serviceKey: string
  /** The uid of the Service with that key, undefined when there is none. */
  readonly serviceUid: string | undefined
  /** The controller's slices that name the Service, except those that are being deleted. */
  readonly slices: readonly EndpointSlice[]
  /** When the last plan or an earlier one first found each orphan, in monotonic time, by the uid of the slice. */
  readonly orphanedAtMs: ReadonlyMap<string, number>
  readonly nowMs: number
}

export interface OrphansPlan {
  /** Orphans whose grace period is over. */
  readonly due: readonly EndpointSlice[]
  /** All orphans, for the next plan. */
  readonly orphanedAtMs: ReadonlyMap<string, number>
  /** The milliseconds until the next grace period is over; undefined if none is running. */
  readonly waitMs: number | undefined
}

/** Decides which slices are deleted because their Service is gone. Pure. */
export function planOrphans(input: OrphansInput): OrphansPlan {
  const { nowMs } = input
  const due: EndpointSlice[] = []
  const orphanedAtMs = new Map<string, number>()
  let waitMs: number | undefined
  for (const slice of input.slices) {
    if (!isOrphan(slice, input)) continue
    const uid = slice.metadata?.uid ?? ''
    const sinceMs = input.orphanedAtMs.get(uid) ?? nowMs
    orphanedAtMs.set(uid, sinceMs)
    const leftMs = sinceMs + ORPHAN_GRACE_MS - nowMs
    if (leftMs <= 0) due.push(slice)
    else waitMs = Math.min(waitMs ?? leftMs, leftMs)
  }
  return { due, orphanedAtMs, waitMs }
}

/**
 * Whether all owners of the slice are earlier Services with this key. A slice without an owner is not an orphan. A
 * slice that has other owners too is left to a garbage collector.
 */
function isOrphan({ metadata }: EndpointSlice, { serviceKey, serviceUid }: OrphansInput): boolean {
  const owners = metadata?.ownerReferences ?? []
  const { name } = refOfKey(serviceKey)
  return (
    owners.length > 0 &&
    owners.every(
      (owner) =>
        owner.apiVersion === 'v1' && owner.kind === 'Service' && owner.name === name && owner.uid !== serviceUid,
    )
  )
}

export interface OrphanedSlicesOptions {
  readonly api: KubeApi
  readonly clock: Clock
  readonly writer: SliceWriter
}

/** Deletes the slices of deleted Services. Upstream leaves this to the garbage collector of kube-controller-manager. */
export class OrphanedSlices {
  readonly #options: OrphanedSlicesOptions
  /** When each orphan was first found, by the key of the Service, then by the uid of the slice. */
  readonly #orphanedAtMs = new Map<string, ReadonlyMap<string, number>>()

  constructor(options: OrphanedSlicesOptions) {
    this.#options = options
  }

  /**
   * Deletes the slices that have been orphans for the grace period, if a live read confirms that their owner is gone.
   * The uid and the resourceVersion of the slice guard each deletion. Returns the number of milliseconds after which to
   * call this again; undefined if no such call is needed.
   * @throws KubeError for a failed request.
   */
  async collect(
    serviceKey: string,
    { service, slices }: { readonly service: Service | undefined; readonly slices: readonly EndpointSlice[] },
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { api, clock, writer } = this.#options
    const input = {
      serviceKey,
      serviceUid: service?.metadata?.uid,
      slices,
      orphanedAtMs: this.#orphanedAtMs.get(serviceKey) ?? new Map(),
      nowMs: clock.monotonicMs(),
    }
    const plan = planOrphans(input)
    if (plan.orphanedAtMs.size === 0) this.#orphanedAtMs.delete(serviceKey)
    else this.#orphanedAtMs.set(serviceKey, plan.orphanedAtMs)
    if (plan.due.length === 0) return plan.waitMs
    const owner = await ifFound(api.get(services, refOfKey(serviceKey), { signal }))
    const live = planOrphans({ ...input, serviceUid: owner?.metadata?.uid, slices: plan.due })
    for (const slice of live.due) await writer.deleteOrphan(slice, signal)
    // If the live read found the owner, the copy of the Services is old. Orphans are then checked again: no event
    // follows if that Service is deleted before the copy receives it.
    return live.due.length < plan.due.length ? ORPHAN_GRACE_MS : plan.waitMs
  }

  /** Forgets the orphans of a Service, because its slices are planned again. */
  forget(serviceKey: string): void {
    this.#orphanedAtMs.delete(serviceKey)
  }
}
