import type { Change } from '../kube/informer.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { serviceKeyOf } from './slice-labels.ts'
import type { SliceTracker } from './slice-tracker.ts'

export interface SliceChangesOptions {
  readonly tracker: SliceTracker
  /** Whether a slice belongs to the controller. */
  readonly manages: (slice: EndpointSlice) => boolean
  /** Is called with the key of each Service whose slices somebody else has changed. */
  readonly queue: (serviceKey: string) => void
}

type Judge = () => void

/**
 * Tells changes of slices by others from the echo of this process's own writes. An echo may come before the answer to the write does: while a Service is
 * being synced what happens to its slices is kept, and judged when the answers are in. Upstream takes such an echo for somebody else's change.
 */
export class SliceChanges {
  readonly #options: SliceChangesOptions
  /** By the keys of the Services that are being synced. */
  readonly #kept = new Map<string, Judge[]>()

  constructor(options: SliceChangesOptions) {
    this.#options = options
  }

  /** A sync of the Service begins. */
  begin(serviceKey: string): void {
    this.#kept.set(serviceKey, [])
  }

  /** The sync has ended. */
  end(serviceKey: string): void {
    const kept = this.#kept.get(serviceKey) ?? []
    this.#kept.delete(serviceKey)
    for (const judge of kept) judge()
  }

  /** Takes in a change of a slice; returns the keys of the Services whose slices it is about. */
  take(change: Change<EndpointSlice>): ReadonlySet<string> {
    const keys = new Set<string>()
    for (const slice of [before(change), after(change)]) {
      const key = slice === undefined ? undefined : serviceKeyOf(slice)
      if (key !== undefined) keys.add(key)
    }
    if (change.type !== 'deleted') this.#options.tracker.saw(change.object)
    this.#judgeWhenIdle(change, keys)
    return keys
  }

  #judgeWhenIdle(change: Change<EndpointSlice>, keys: ReadonlySet<string>): void {
    for (const key of keys) {
      const kept = this.#kept.get(key)
      if (kept === undefined) continue
      kept.push(() => this.#judgeWhenIdle(change, keys))
      return
    }
    for (const key of this.#disturbed(change)) this.#options.queue(key)
  }

  /** The keys of the Services whose slices are not as this process left them. */
  #disturbed(change: Change<EndpointSlice>): readonly string[] {
    const { tracker, manages } = this.#options
    switch (change.type) {
      case 'added':
        return manages(change.object) && tracker.shouldSync(change.object) ? keysOf(change.object) : []
      case 'updated': {
        const { old, object } = change
        const taken = manages(old) && (!manages(object) || serviceKeyOf(old) !== serviceKeyOf(object))
        // Upstream goes on waiting for such a slice to come back into its copy, and never syncs the Service again.
        if (taken) tracker.handleDeletion(old)
        if (serviceKeyOf(old) !== serviceKeyOf(object)) return [...keysOf(object), ...keysOf(old)]
        const disturbed = manages(old) !== manages(object) || (manages(object) && tracker.shouldSync(object))
        return disturbed ? keysOf(object) : []
      }
      case 'deleted': {
        if (!manages(change.old)) return []
        const expected = tracker.has(change.old) && tracker.handleDeletion(change.old)
        return expected ? [] : keysOf(change.old)
      }
    }
  }
}

function before(change: Change<EndpointSlice>): EndpointSlice | undefined {
  return change.type === 'added' ? undefined : change.old
}

function after(change: Change<EndpointSlice>): EndpointSlice | undefined {
  return change.type === 'deleted' ? undefined : change.object
}

function keysOf(slice: EndpointSlice): readonly string[] {
  const key = serviceKeyOf(slice)
  return key === undefined ? [] : [key]
}
