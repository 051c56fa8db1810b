import { type EndpointSlice, isNewer } from '../kube/resources.ts'
import { after, before, type Change } from '../kube/store.ts'
import { getOrMake } from '../runtime/memo.ts'
import { UNSEEN_MS } from '../workloads/service-queue.ts'
import { serviceKeyOf } from './slice.ts'

const DELETION_EXPECTED = -1

interface Versioned {
  readonly metadata: { readonly resourceVersion?: string | undefined }
}

/** The server's answer to a write, and when it arrived, in monotonic time. `generation` is -1 for a deletion. */
interface Written extends Versioned {
  readonly generation: number
  readonly atMs: number
}

/**
 * The last writes of each Service's slices by this process, with the generations that the server returned. The
 * generations show whether the informer's copy is older than the writes, and whether another client has changed a
 * slice. Upstream: `EndpointSliceTracker`.
 *
 * Upstream waits for ever until its writes arrive in the copy. Here the copy also counts as current in these cases:
 *
 * - {@link UNSEEN_MS} have passed since the write;
 * - the copy comes from a list that was requested after the write;
 * - the copy lacks the written slice, and has received a change with a later resourceVersion. Then the slice was
 *   deleted while the watch was broken, and no event of the slice will follow.
 */
export class SliceTracker {
  /** By the key of the Service that a slice names, then by the uid of the slice. */
  readonly #generations = new Map<string, Map<string, Written>>()
  /** The latest resourceVersion of any slice that the copy has received. */
  #newest: Versioned | undefined
  readonly #nowMs: () => number

  /** `nowMs` reads a monotonic clock. @default one that stands still */
  constructor(nowMs = () => 0) {
    this.#nowMs = nowMs
  }

  /** Whether the generation of the slice is known, or its deletion is expected. */
  has(slice: EndpointSlice): boolean {
    return this.#of(slice)?.has(uidOf(slice)) ?? false
  }

  /** The known generation of the slice: undefined if there is none, -1 if its deletion is expected. */
  generation(slice: EndpointSlice): number | undefined {
    return this.#of(slice)?.get(uidOf(slice))?.generation
  }

  /** Whether another client has created or changed the slice: it is unknown here, or its generation is later. */
  shouldSync(slice: EndpointSlice): boolean {
    const known = this.generation(slice)
    return known === undefined || generationOf(slice) > known
  }

  /**
   * Whether `slices`, the copy of a Service's slices, is older than the recent writes of this process. A copy is older
   * if it has a slice of an older generation, has a slice that this process deleted, or lacks a slice that this process
   * wrote.
   */
  isStale(serviceKey: string, slices: readonly EndpointSlice[]): boolean {
    return this.#awaited(serviceKey, slices).next().done !== true
  }

  /**
   * When the server answered the oldest write that makes `slices` stale, in monotonic time; infinite without such a
   * write. Deletions do not count, because the server may have answered by mistake that the slice is gone.
   */
  answeredMs(serviceKey: string, slices: readonly EndpointSlice[]): number {
    let answeredMs = Number.POSITIVE_INFINITY
    for (const [written, uid] of this.#awaited(serviceKey, slices)) {
      // In a dry run a created slice has no uid.
      const isStored = written.generation !== DELETION_EXPECTED && uid !== ''
      if (isStored) answeredMs = Math.min(answeredMs, written.atMs)
    }
    return answeredMs
  }

  /**
   * Forgets the writes before `beganMs` that the copy does not show, because the copy comes from a list that was
   * requested at `beganMs`. Returns the keys of the Services of these writes, which must be synced. `copyOf` returns a
   * Service's slices.
   */
  listed(beganMs: number, copyOf: (serviceKey: string) => readonly EndpointSlice[]): ReadonlySet<string> {
    const keys = new Set<string>()
    for (const [key, known] of this.#generations) {
      for (const [, written, uid] of unseen(known, copyOf(key))) {
        if (written.atMs >= beganMs) continue
        known.delete(uid)
        keys.add(key)
      }
      if (known.size === 0) this.#generations.delete(key)
    }
    return keys
  }

  /** Records that the copy has received this state of a slice. */
  saw(slice: EndpointSlice): void {
    if (this.#newest !== undefined && !isNewer(slice, this.#newest)) return
    this.#newest = { metadata: { resourceVersion: slice.metadata?.resourceVersion } }
  }

  /** Records the generation of a slice, from the server's answer to a write or from a copy that is in sync. */
  update(slice: EndpointSlice): void {
    this.#set(slice, generationOf(slice))
  }

  /** Records that this process has deleted the slice. The copy may still have it. */
  expectDeletion(slice: EndpointSlice): void {
    this.#set(slice, DELETION_EXPECTED)
  }

  /** Forgets a slice that is gone from the copy. Returns true if the slice was unknown or its deletion was expected. */
  handleDeletion(slice: EndpointSlice): boolean {
    const known = this.#of(slice)
    const generation = known?.get(uidOf(slice))?.generation
    known?.delete(uidOf(slice))
    if (known?.size === 0) this.#generations.delete(trackedUnder(slice))
    return generation === undefined || generation === DELETION_EXPECTED
  }

  deleteService(serviceKey: string): void {
    this.#generations.delete(serviceKey)
  }

  /** The writes that `slices`, the copy of a Service's slices, does not show yet and may still receive. */
  *#awaited(serviceKey: string, slices: readonly EndpointSlice[]): Generator<readonly [written: Written, uid: string]> {
    const known = this.#generations.get(serviceKey)
    if (known === undefined) return
    for (const [slice, written, uid] of unseen(known, slices)) {
      const isSuperseded = slice === undefined && isNewer(this.#newest, written)
      if (!isSuperseded && this.#nowMs() - written.atMs < UNSEEN_MS) yield [written, uid]
    }
  }

  #of(slice: EndpointSlice): Map<string, Written> | undefined {
    return this.#generations.get(trackedUnder(slice))
  }

  #set(slice: EndpointSlice, generation: number): void {
    const { resourceVersion } = slice.metadata ?? {}
    const known = getOrMake(this.#generations, trackedUnder(slice), () => new Map())
    known.set(uidOf(slice), { generation, atMs: this.#nowMs(), metadata: { resourceVersion } })
  }
}

/**
 * The writes of a Service's slices that `slices`, its copy, does not show, each with the copy's slice of the same uid.
 */
function* unseen(
  known: ReadonlyMap<string, Written>,
  slices: readonly EndpointSlice[],
): Generator<readonly [slice: EndpointSlice | undefined, written: Written, uid: string]> {
  const copy = new Map(slices.map((slice) => [uidOf(slice), slice]))
  for (const [uid, written] of known) {
    const slice = copy.get(uid)
    const isSeen =
      written.generation === DELETION_EXPECTED
        ? slice === undefined
        : slice !== undefined && written.generation <= generationOf(slice)
    if (!isSeen) yield [slice, written, uid]
  }
}

function trackedUnder(slice: EndpointSlice): string {
  return serviceKeyOf(slice) ?? `${slice.metadata?.namespace ?? ''}/`
}

function uidOf(slice: EndpointSlice): string {
  return slice.metadata?.uid ?? ''
}

function generationOf(slice: EndpointSlice): number {
  return slice.metadata?.generation ?? 0
}

interface SliceChangesOptions {
  readonly tracker: SliceTracker
  readonly manages: (slice: EndpointSlice) => boolean
  /** Called with the key of each Service whose slices another client has changed. */
  readonly queue: (serviceKey: string) => void
}

/**
 * Distinguishes other clients' changes of slices from the watch events of this process's own writes. Such an event may
 * arrive before the answer to the write. So changes of a Service's slices during its sync are classified when the sync
 * has ended. Upstream mistakes these early events for changes by others.
 */
export class SliceChanges {
  readonly #options: SliceChangesOptions
  /** The deferred changes, by the keys of the Services that are being synced. */
  readonly #deferred = new Map<string, (() => void)[]>()

  constructor(options: SliceChangesOptions) {
    this.#options = options
  }

  /** Defers the changes of a Service's slices, because a sync begins. */
  begin(serviceKey: string): void {
    this.#deferred.set(serviceKey, [])
  }

  /** Classifies the deferred changes, because the sync has ended. */
  end(serviceKey: string): void {
    const deferred = this.#deferred.get(serviceKey) ?? []
    this.#deferred.delete(serviceKey)
    for (const classify of deferred) classify()
  }

  /** Handles a change of a slice. Returns the keys of the Services that the slice named before and after the change. */
  take(change: Change<EndpointSlice>): ReadonlySet<string> {
    const slices = [before(change), after(change)].filter((slice) => slice !== undefined)
    const keys = new Set(slices.flatMap(keysOf))
    if (change.type !== 'deleted') this.#options.tracker.saw(change.object)
    this.#classifyWhenIdle(change, keys)
    return keys
  }

  #classifyWhenIdle(change: Change<EndpointSlice>, keys: ReadonlySet<string>): void {
    for (const key of keys) {
      const deferred = this.#deferred.get(key)
      if (deferred === undefined) continue
      deferred.push(() => this.#classifyWhenIdle(change, keys))
      return
    }
    for (const key of this.#disturbed(change)) this.#options.queue(key)
  }

  /** The keys of the Services whose slices differ from this process's last writes. */
  #disturbed(change: Change<EndpointSlice>): readonly string[] {
    const { tracker, manages } = this.#options
    switch (change.type) {
      case 'added':
        return manages(change.object) && tracker.shouldSync(change.object) ? keysOf(change.object) : []
      case 'updated': {
        const { old, object } = change
        const taken = manages(old) && (!manages(object) || serviceKeyOf(old) !== serviceKeyOf(object))
        // The old Service has lost this slice. Upstream waits for ever for the slice to return, and never syncs the old
        // Service again.
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

function keysOf(slice: EndpointSlice): readonly string[] {
  const key = serviceKeyOf(slice)
  return key === undefined ? [] : [key]
}
