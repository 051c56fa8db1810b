import { apiVersionOf } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { type Random, randomInteger } from '../runtime/random.ts'
import type { Kind } from './kind.ts'
import { type ListOptions, revisionOf } from './query.ts'
import { expired, internalError, resourceVersionTooLarge } from './refusal.ts'
import { type Change, Compacted, type Store, type StoredObject } from './store.ts'

const bookmarkPeriodMs = 60_000
/** kube-apiserver's --min-request-timeout: a watch without a timeout lasts this long to twice this long. */
const minTimeoutSeconds = 1800

type Event = { readonly type: string; readonly object: object }

export interface WatchContext {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  /** A watcher that lets this many events pile up is disconnected. */
  readonly bufferLimit: number
}

/**
 * Opens a watch: it misses no change from the moment of the call. Events come in the order of their revisions; an object that
 * enters or leaves the selector is ADDED or DELETED.
 * @throws Refusal for a resourceVersion that cannot be; one that is too old is told by an ERROR event, as kube-apiserver does.
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
  const collection = store.collection(kind.resource.plural)
  const prefix = namespace === undefined ? '' : `${namespace}/`
  const stream = new WatchStream(context.bufferLimit)
  const matches = (object: StoredObject): boolean => options.matches?.(object) ?? true
  const tell = (change: Change): void => {
    if (change.revision <= from.revision || !change.key.startsWith(prefix)) return
    const event = eventOf(change, matches)
    if (event !== undefined) stream.push(event)
  }

  if (from.initialState) {
    for (const key of collection.keys(prefix)) {
      const object = collection.get(key) as StoredObject
      if (matches(object)) stream.push({ type: 'ADDED', object })
    }
    if (options.allowWatchBookmarks) stream.push(bookmark(kind, store.revision, true))
  } else {
    try {
      for (const change of collection.changesAfter(from.revision)) tell(change)
    } catch (error) {
      if (!(error instanceof Compacted)) throw error
      const { body } = expired(`too old resource version: ${from.revision} (${error.oldest})`)
      stream.push({ type: 'ERROR', object: body })
      stream.end()
      return stream
    }
  }

  const seconds = options.timeoutSeconds ?? minTimeoutSeconds + randomInteger(random, minTimeoutSeconds)
  const onAbort = (): void => stream.close()
  stream.onClose(collection.subscribe(tell))
  stream.onClose(clock.schedule(seconds * 1000, () => stream.end()))
  stream.onClose(() => signal.removeEventListener('abort', onAbort))
  if (options.allowWatchBookmarks)
    stream.onClose(everyMinute(clock, () => stream.push(bookmark(kind, store.revision, false))))
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) stream.close()
  return stream
}

/** Where a watch begins: with the present state, or after a revision. */
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
  if (initialState && revision > store.revision) throw resourceVersionTooLarge(wanted, store.revision)
  return { initialState, revision: initialState || revision === 0 ? store.revision : revision }
}

function eventOf(change: Change, matches: (object: StoredObject) => boolean): Event | undefined {
  const before = change.previous !== undefined && matches(change.previous)
  const after = change.type !== 'DELETED' && matches(change.object)
  if (after) return { type: before ? 'MODIFIED' : 'ADDED', object: change.object }
  if (!before) return undefined
  if (change.type === 'DELETED') return { type: 'DELETED', object: change.object }
  // It left the selector: its last selected state, at the revision in which it left.
  const previous = change.previous as StoredObject
  const metadata = { ...previous.metadata, resourceVersion: String(change.revision) }
  return { type: 'DELETED', object: Object.freeze({ ...previous, metadata: Object.freeze(metadata) }) }
}

function bookmark(kind: Kind, revision: number, endsInitialEvents: boolean): Event {
  const annotations = endsInitialEvents ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}
  const metadata = { resourceVersion: String(revision), ...annotations }
  return { type: 'BOOKMARK', object: { kind: kind.resource.kind, apiVersion: apiVersionOf(kind.resource), metadata } }
}

function everyMinute(clock: Clock, callback: () => void): () => void {
  let cancel = clock.schedule(bookmarkPeriodMs, repeat)
  function repeat(): void {
    callback()
    cancel = clock.schedule(bookmarkPeriodMs, repeat)
  }
  return () => cancel()
}

/** A queue of events with one reader. */
export class WatchStream implements AsyncIterableIterator<Event, undefined> {
  readonly #limit: number
  readonly #events: Event[] = []
  readonly #cleanups: (() => void)[] = []
  #waiting: ((result: IteratorResult<Event, undefined>) => void) | undefined
  #ended = false

  constructor(limit: number) {
    this.#limit = limit
  }

  push(event: Event): void {
    if (this.#ended) return
    if (this.#waiting !== undefined) {
      const resolve = this.#waiting
      this.#waiting = undefined
      resolve({ done: false, value: event })
    } else if (this.#events.length >= this.#limit) {
      this.close()
    } else {
      this.#events.push(event)
    }
  }

  /** Nothing more will come; what is queued is still delivered. */
  end(): void {
    if (this.#ended) return
    this.#ended = true
    for (const cleanup of this.#cleanups.splice(0)) cleanup()
    this.#waiting?.({ done: true, value: undefined })
    this.#waiting = undefined
  }

  /** Ends at once. */
  close(): void {
    this.#events.length = 0
    this.end()
  }

  /** Registers what to undo when the stream is over. */
  onClose(cleanup: () => void): void {
    if (this.#ended) cleanup()
    else this.#cleanups.push(cleanup)
  }

  next(): Promise<IteratorResult<Event, undefined>> {
    const value = this.#events.shift()
    if (value !== undefined) return Promise.resolve({ done: false, value })
    if (this.#ended) return Promise.resolve({ done: true, value: undefined })
    if (this.#waiting !== undefined) return Promise.reject(new Error('a watch has one reader'))
    return new Promise((resolve) => {
      this.#waiting = resolve
    })
  }

  return(): Promise<IteratorResult<Event, undefined>> {
    this.close()
    return Promise.resolve({ done: true, value: undefined })
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
