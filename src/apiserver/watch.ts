import { apiVersionOf } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { type Random, randomInteger } from '../runtime/random.ts'
import type { Kind } from './kind.ts'
import { type ListOptions, revisionOf } from './query.ts'
import { expired, internalError, type Refusal, resourceVersionTooLarge } from './refusal.ts'
import { type Change, Compacted, type Store, type StoredObject } from './store.ts'
import { type WatchEvent, WatchStream } from './watch-stream.ts'

const bookmarkPeriodMs = 60_000
/** kube-apiserver's --min-request-timeout: a watch without a timeout lasts this long to twice this long. */
const minTimeoutSeconds = 1800

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
 * @throws Refusal for a resourceVersion that is none; one that is too old, or not yet reached, is told by an ERROR event, as
 *   kube-apiserver does.
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
  const matches = (object: StoredObject): boolean => options.matches?.(object) ?? true
  const eventIn = (change: Change): WatchEvent | undefined =>
    change.revision > from.revision && change.key.startsWith(prefix) ? eventOf(change, matches) : undefined

  let first: readonly WatchEvent[]
  try {
    first = from.initialState
      ? presentState(store, kind, prefix, matches, options.allowWatchBookmarks)
      : collection.changesAfter(from.revision).flatMap((change) => eventIn(change) ?? [])
  } catch (error) {
    if (!(error instanceof Compacted)) throw error
    return refused(expired(`too old resource version: ${from.revision} (${error.oldest})`))
  }
  if (from.initialState && from.revision > store.revision) {
    return refused(resourceVersionTooLarge(String(from.revision), store.revision))
  }

  const stream = new WatchStream(first, context.bufferLimit)
  const seconds = options.timeoutSeconds ?? minTimeoutSeconds + randomInteger(random, minTimeoutSeconds)
  const onAbort = (): void => stream.close()
  const tell = (change: Change): void => {
    const event = eventIn(change)
    if (event !== undefined) stream.push(event)
  }
  stream.onEnd(collection.subscribe(tell))
  stream.onEnd(clock.schedule(seconds * 1000, () => stream.end()))
  if (options.allowWatchBookmarks) {
    stream.onEnd(everyMinute(clock, () => stream.push(bookmark(kind, store.revision, false))))
  }
  signal.addEventListener('abort', onAbort, { once: true })
  stream.onEnd(() => signal.removeEventListener('abort', onAbort))
  return stream
}

/** Where a watch begins: with the present state, or after a revision. @throws Refusal */
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
  store: Store,
  kind: Kind,
  prefix: string,
  matches: (object: StoredObject) => boolean,
  withBookmark: boolean,
): readonly WatchEvent[] {
  const collection = store.collection(kind.resource.plural)
  const objects = collection.keys(prefix).map((key) => collection.get(key) as StoredObject)
  const events = objects.filter(matches).map((object): WatchEvent => ({ type: 'ADDED', object }))
  return withBookmark ? [...events, bookmark(kind, store.revision, true)] : events
}

/** A stream that says why there is none. */
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
  // It left the selector: its last selected state, at the revision in which it left.
  const previous = change.previous as StoredObject
  const metadata = { ...previous.metadata, resourceVersion: String(change.revision) }
  return { type: 'DELETED', object: Object.freeze({ ...previous, metadata: Object.freeze(metadata) }) }
}

function bookmark(kind: Kind, revision: number, endsInitialEvents: boolean): WatchEvent {
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
