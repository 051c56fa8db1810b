import { apiVersionOf } from '../kube/resources.ts'
import { every } from '../runtime/clock.ts'
import { randomInteger } from '../runtime/random.ts'
import type { Kind } from './kind.ts'
import { bytesOf } from './object-size.ts'
import { type ListOptions, revisionOf } from './query.ts'
import { expired, internalError, type Refusal, resourceVersionTooLarge } from './refusal.ts'
import { type Change, Compacted, type Objects, type Store, type StoredObject } from './store.ts'
import type { WriteContext } from './writes.ts'

const BOOKMARK_PERIOD_MS = 60_000
/** kube-apiserver's --min-request-timeout: a watch without a timeout lasts between one and two times this long. */
const MIN_TIMEOUT_SECONDS = 1800
/**
 * The limit on the events that wait for the reader of a watch, beside the initial events. Ten thousand events of 3 MiB
 * would fill the memory.
 */
const MAX_WAITING_BYTES = 64 * 1024 * 1024

export interface WatchContext extends WriteContext {
  /** A watch is ended when more events wait for its reader than this number plus the number of initial events. */
  readonly bufferLimit: number
}

/**
 * Opens a watch, which misses no change after the call. `namespace` undefined: of all namespaces. Initial events come
 * in the order of their keys, later events in the order of their revisions. An object that begins to match the selector
 * is ADDED, and an object that no longer matches is DELETED.
 *
 * A resourceVersion that is too old causes an ERROR event, as in kube-apiserver. So does a resourceVersion above the
 * current revision, if the watch starts with the present state.
 * @throws Refusal 500 for a malformed resourceVersion
 */
export function openWatch(
  context: WatchContext,
  kind: Kind,
  namespace: string | undefined,
  options: ListOptions,
  signal: AbortSignal,
): WatchStream {
  const { store, clock, random } = context
  const from = startOf(store, options)
  const collection = store.objects(kind)
  const prefix = namespace === undefined ? '' : `${namespace}/`
  const matches = (object: StoredObject): boolean => options.matches?.(object) ?? true
  const eventIn = (change: Change): WatchEvent | undefined =>
    change.revision > from.revision && change.key.startsWith(prefix) ? eventOf(change, matches) : undefined

  const marksEnd = options.allowWatchBookmarks && options.sendInitialEvents === true
  const endOfInitialEvents = marksEnd ? [bookmark(kind, store.revision, true)] : []
  let first: readonly WatchEvent[]
  try {
    first = from.initialState
      ? [...presentState(collection, prefix, matches), ...endOfInitialEvents]
      : collection.changesAfter(from.revision).flatMap((change) => eventIn(change) ?? [])
  } catch (error) {
    if (!(error instanceof Compacted)) throw error
    return refused(expired(`too old resource version: ${from.revision} (${error.oldest})`))
  }
  if (from.initialState && from.revision > store.revision) {
    return refused(resourceVersionTooLarge(String(from.revision), store.revision))
  }

  const stream = new WatchStream(first, context.bufferLimit)
  const seconds = options.timeoutSeconds ?? MIN_TIMEOUT_SECONDS + randomInteger(random, MIN_TIMEOUT_SECONDS)
  const deliver = (change: Change): void => {
    const event = eventIn(change)
    if (event === undefined) return
    // If the previous state did not match, the watch did not send it. Then the whole object counts.
    const isNew = event.type === 'ADDED' && change.type !== 'ADDED'
    stream.push(event, isNew ? bytesOf(change.object, undefined) : change.bytes)
  }
  stream.onEnd(collection.subscribe(deliver))
  stream.onEnd(clock.schedule(seconds * 1000, () => stream.end()))
  if (options.allowWatchBookmarks) {
    stream.onEnd(every(clock, BOOKMARK_PERIOD_MS, () => stream.push(bookmark(kind, store.revision, false), 0)))
  }
  const onAbort = (cause: AbortSignal | undefined, listener: () => void): void => {
    cause?.addEventListener('abort', listener, { once: true })
    stream.onEnd(() => cause?.removeEventListener('abort', listener))
  }
  onAbort(signal, () => stream.close())
  onAbort(kind.definitionChanged, () => stream.end())
  return stream
}

/**
 * Where a watch starts. With `initialState`, the watch first sends the present state. Then it sends the changes after
 * `revision`.
 * @throws Refusal 500
 */
function startOf(store: Store, options: ListOptions): { readonly initialState: boolean; readonly revision: number } {
  const wanted = options.resourceVersion ?? '0'
  const revision = revisionOf(wanted)
  if (revision === undefined) {
    const quoted = JSON.stringify(wanted)
    throw internalError(
      `resourceVersion: Invalid value: ${quoted}: strconv.ParseUint: parsing ${quoted}: invalid syntax`,
    )
  }
  const initialState = options.sendInitialEvents ?? revision === 0
  const after = revision === 0 || (initialState && revision <= store.revision) ? store.revision : revision
  return { initialState, revision: after }
}

function presentState(
  collection: Objects,
  prefix: string,
  matches: (object: StoredObject) => boolean,
): readonly WatchEvent[] {
  const objects = collection.keys(prefix).map((key) => collection.get(key) as StoredObject)
  return objects.filter(matches).map((object) => ({ type: 'ADDED', object }))
}

function refused(refusal: Refusal): WatchStream {
  const stream = new WatchStream([{ type: 'ERROR', object: refusal.body }], 0)
  stream.end()
  return stream
}

function eventOf(change: Change, matches: (object: StoredObject) => boolean): WatchEvent | undefined {
  const before = change.previous !== undefined && matches(change.previous)
  const after = change.type !== 'DELETED' && matches(change.object)
  if (after) return { type: before ? 'MODIFIED' : 'ADDED', object: change.object }
  if (!before) return undefined
  if (change.type === 'DELETED') return { type: 'DELETED', object: change.object }
  // The object no longer matches. The event has the last state that matched, with the revision of the present change.
  const previous = change.previous as StoredObject
  const metadata = { ...previous.metadata, resourceVersion: String(change.revision) }
  return { type: 'DELETED', object: Object.freeze({ ...previous, metadata: Object.freeze(metadata) }) }
}

function bookmark(kind: Kind, revision: number, endsInitialEvents: boolean): WatchEvent {
  const annotations = endsInitialEvents ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}
  const metadata = { resourceVersion: String(revision), ...annotations }
  return { type: 'BOOKMARK', object: { kind: kind.resource.kind, apiVersion: apiVersionOf(kind.resource), metadata } }
}

/** One event of a watch, as it is on the wire. */
export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: object
}

/** The events of a watch, queued for its one reader. A reader that falls too far behind is disconnected. */
class WatchStream implements AsyncIterableIterator<WatchEvent, undefined> {
  readonly #limit: number
  /** Undefined where the reader has taken an event. */
  readonly #events: ({ readonly event: WatchEvent; readonly bytes: number } | undefined)[]
  #taken = 0
  #waitingBytes = 0
  readonly #cleanups: (() => void)[] = []
  #waiting: ((result: IteratorResult<WatchEvent, undefined>) => void) | undefined
  #ended = false

  /**
   * `first` are the initial events. At most `limit` more events than these may wait at once. The waiting events after
   * the initial ones may take about MAX_WAITING_BYTES.
   */
  constructor(first: readonly WatchEvent[], limit: number) {
    this.#events = first.map((event) => ({ event, bytes: 0 }))
    this.#limit = limit + first.length
  }

  /** `bytes`: about how much memory the event takes while it waits. */
  push(event: WatchEvent, bytes: number): void {
    if (this.#ended) return
    if (this.#waiting !== undefined) {
      const resolve = this.#waiting
      this.#waiting = undefined
      resolve({ done: false, value: event })
    } else if (this.#events.length - this.#taken >= this.#limit || this.#waitingBytes > MAX_WAITING_BYTES) {
      this.close()
    } else {
      this.#events.push({ event, bytes })
      this.#waitingBytes += bytes
    }
  }

  /** No more events will come; queued ones are still delivered. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const cleanup of this.#cleanups.splice(0)) cleanup()
    this.#waiting?.({ done: true, value: undefined })
    this.#waiting = undefined
  }

  /** Ends at once, without the queued events. */
  close(): void {
    this.#events.length = 0
    this.#taken = 0
    this.end()
  }

  onEnd(cleanup: () => void): void {
    this.#cleanups.push(cleanup)
  }

  next(): Promise<IteratorResult<WatchEvent, undefined>> {
    const waiting = this.#events[this.#taken]
    if (waiting !== undefined) {
      this.#waitingBytes -= waiting.bytes
      this.#events[this.#taken++] = undefined
      // Removes many taken events at once, because each removal moves all remaining events, perhaps a hundred thousand.
      if (2 * this.#taken > this.#events.length) {
        this.#events.splice(0, this.#taken)
        this.#taken = 0
      }
      return Promise.resolve({ done: false, value: waiting.event })
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined })
    if (this.#waiting !== undefined) return Promise.reject(new Error('a watch has one reader'))
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  return(): Promise<IteratorResult<WatchEvent, undefined>> {
    this.close()
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
