import { type KubeObject, type ObjectMeta, qualifiedPlural, type Resource } from '../kube/resources.ts'
import { getOrMake } from '../runtime/memo.ts'
import { bytesOf } from './object-size.ts'

/** An object as the server stores it: frozen, with all the fields that the server sets. */
export interface StoredObject extends KubeObject {
  readonly kind: string
  readonly apiVersion: string
  readonly metadata: ObjectMeta & {
    readonly name: string
    readonly uid: string
    readonly resourceVersion: string
    readonly deletionGracePeriodSeconds?: number | undefined
  }
  readonly [field: string]: unknown
}

/** One write, as watches receive it. */
export interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly revision: number
  readonly key: string
  /** The state after the write; for `DELETED` the last state, with the revision of the deletion. */
  readonly object: StoredObject
  readonly previous: StoredObject | undefined
  /** About how many bytes the object takes, without the parts that it shares with `previous` ({@link bytesOf}). */
  readonly bytes: number
}

export class Compacted extends Error {
  override readonly name = 'Compacted'
  /** The oldest revision that is still available. */
  readonly oldest: number

  constructor(oldest: number) {
    super(`history before revision ${oldest} is compacted`)
    this.oldest = oldest
  }
}

/**
 * The state of a server: one collection per kind and one revision counter for all of them, as in etcd. Every write
 * takes the next revision and is added to the history of its collection. The listeners of the collection are called
 * before the write returns.
 */
export class Store {
  readonly #historyLimit: number
  readonly #collections = new Map<string, Collection>()
  readonly #converted = new WeakMap<Conversion, Objects>()
  #revision = 1

  /**
   * `historyLimit`: at least this many of the newest changes of each kind are retained, for watches and pages of lists
   * that start in the past; fewer if the changes take too much memory ({@link MAX_HISTORY_BYTES}).
   */
  constructor(historyLimit: number) {
    this.#historyLimit = historyLimit
  }

  get revision(): number {
    return this.#revision
  }

  /** The objects of a kind, in the form in which they are stored. */
  stored(kind: { readonly resource: Resource<KubeObject>; readonly storedAs?: Conversion }): Collection {
    return this.collection(qualifiedPlural(kind.storedAs?.resource ?? kind.resource))
  }

  /** The objects of a kind, in the form in which the kind serves them. */
  objects(kind: { readonly resource: Resource<KubeObject>; readonly storedAs?: Conversion }): Objects {
    const collection = this.stored(kind)
    const conversion = kind.storedAs
    if (conversion === undefined) return collection
    return getOrMake(this.#converted, conversion, () => new ConvertedCollection(collection, conversion))
  }

  /** The collection of this name, which is the kind's qualified plural. It is created on first use. */
  collection(name: string): Collection {
    return getOrMake(this.#collections, name, () => new Collection(() => ++this.#revision, this.#historyLimit))
  }

  /** Discards the history of all kinds, as etcd's compaction does. */
  compact(): void {
    for (const collection of this.#collections.values()) collection.compact(this.#revision)
  }
}

/**
 * The limit on the history of a kind, in bytes as {@link bytesOf} estimates them. When a history exceeds it, the oldest
 * changes are discarded, until the others take at most half of the limit. Without the limit, a thousand changes of an
 * object of 3 MiB would fill the memory.
 */
const MAX_HISTORY_BYTES = 64 * 1024 * 1024

/** The objects of one kind, by key (`namespace/name`, or the name of a cluster-scoped object). */
export class Collection {
  readonly #nextRevision: () => number
  readonly #historyLimit: number
  readonly #objects = new Map<string, StoredObject>()
  /** The keys of `#objects`, sorted by code units. Keys are ASCII, so this is the order of etcd. */
  readonly #keys: string[] = []
  /** The changes in the order of their revisions, all of them above `#compacted`. */
  #history: Change[] = []
  #historyBytes = 0
  #compacted = 0
  readonly #listeners = new Set<(change: Change) => void>()

  constructor(nextRevision: () => number, historyLimit: number) {
    this.#nextRevision = nextRevision
    this.#historyLimit = historyLimit
  }

  get(key: string): StoredObject | undefined {
    return this.#objects.get(key)
  }

  /** The keys that begin with `prefix`, sorted. The result for an empty prefix changes with later writes. */
  keys(prefix: string): readonly string[] {
    if (prefix === '') return this.#keys
    const from = this.#indexOf(prefix)
    let to = from
    while (this.#keys[to]?.startsWith(prefix)) to++
    return this.#keys.slice(from, to)
  }

  /** Writes a whole object and gives it the next revision. Returns the stored object. */
  put(key: string, object: StoredObject): StoredObject {
    const revision = this.#nextRevision()
    const previous = this.#objects.get(key)
    const stored = stamped(object, revision)
    this.#objects.set(key, stored)
    if (previous === undefined) this.#keys.splice(this.#indexOf(key), 0, key)
    this.#record({ type: previous === undefined ? 'ADDED' : 'MODIFIED', revision, key, object: stored, previous })
    return stored
  }

  /**
   * Removes an object, which must exist. `last` is its last state. Returns that state with the revision of the removal,
   * as watches receive it.
   */
  remove(key: string, last: StoredObject): StoredObject {
    const revision = this.#nextRevision()
    const previous = this.#objects.get(key)
    this.#objects.delete(key)
    this.#keys.splice(this.#indexOf(key), 1)
    const object = stamped(last, revision)
    this.#record({ type: 'DELETED', revision, key, object, previous })
    return object
  }

  /** The changes after `revision`, oldest first. @throws Compacted if some of them have been discarded */
  changesAfter(revision: number): readonly Change[] {
    if (revision < this.#compacted) throw new Compacted(this.#compacted)
    return this.#history.slice(countOfFirst(this.#history, (change) => change.revision <= revision))
  }

  /**
   * The objects as they were at `revision`, by key. If nothing has changed since, later writes change the result.
   * @throws Compacted if changes after `revision` have been discarded
   */
  at(revision: number): ReadonlyMap<string, StoredObject> {
    const changes = this.changesAfter(revision)
    if (changes.length === 0) return this.#objects
    const objects = new Map(this.#objects)
    for (let i = changes.length - 1; i >= 0; i--) {
      const change = changes[i] as Change
      if (change.previous === undefined) objects.delete(change.key)
      else objects.set(change.key, change.previous)
    }
    return objects
  }

  /** Calls `listener` with every change from now on, before the write returns. Returns a function to unsubscribe. */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Discards the whole history. `revision` is the present one. */
  compact(revision: number): void {
    this.#drop(this.#history.length)
    this.#compacted = revision
  }

  /** The index of a key in `#keys`, or else the index at which it belongs. */
  #indexOf(key: string): number {
    return countOfFirst(this.#keys, (other) => other < key)
  }

  #record(written: Omit<Change, 'bytes'>): void {
    const change = { ...written, bytes: bytesOf(written.object, written.previous) }
    this.#history.push(change)
    this.#historyBytes += change.bytes
    // Drops changes only at twice the limit, so that the cost of the copy is spread over many writes.
    if (this.#history.length >= 2 * this.#historyLimit) this.#drop(this.#history.length - this.#historyLimit)
    if (this.#historyBytes > MAX_HISTORY_BYTES) this.#drop(this.#olderHalf())
    for (const listener of this.#listeners) listener(change)
  }

  #drop(count: number): void {
    const dropped = this.#history.slice(0, count)
    this.#history = this.#history.slice(count)
    this.#compacted = dropped.at(-1)?.revision ?? this.#compacted
    for (const { bytes } of dropped) this.#historyBytes -= bytes
  }

  /** How many of the oldest changes to discard, so that the others take at most half of {@link MAX_HISTORY_BYTES}. */
  #olderHalf(): number {
    let left = this.#historyBytes
    let count = 0
    while (left > MAX_HISTORY_BYTES / 2) left -= (this.#history[count++] as Change).bytes
    return count
  }
}

/** Converts objects between the stored form and that of another group or version. Pure; results are frozen. */
export interface Conversion {
  /** The kind whose form is stored. */
  readonly resource: Resource<KubeObject>
  readonly toStored: (object: StoredObject) => StoredObject
  readonly fromStored: (object: StoredObject) => StoredObject
}

/** The operations of a collection that requests use, with objects in the form of the requested kind. */
export type Objects = Pick<Collection, 'get' | 'keys' | 'put' | 'remove' | 'changesAfter' | 'at' | 'subscribe'>

/** The objects of a collection, in the form of a kind that is not stored in its own form. */
class ConvertedCollection implements Objects {
  readonly #stored: Collection
  readonly #conversion: Conversion
  /**
   * The converted form of each stored object. Each form is made once, because callers compare and remember forms by
   * identity.
   */
  readonly #forms = new WeakMap<StoredObject, StoredObject>()

  constructor(stored: Collection, conversion: Conversion) {
    this.#stored = stored
    this.#conversion = conversion
  }

  get(key: string): StoredObject | undefined {
    return this.#shown(this.#stored.get(key))
  }

  keys(prefix: string): readonly string[] {
    return this.#stored.keys(prefix)
  }

  put(key: string, object: StoredObject): StoredObject {
    return this.#form(this.#stored.put(key, this.#conversion.toStored(object)))
  }

  remove(key: string, last: StoredObject): StoredObject {
    return this.#form(this.#stored.remove(key, this.#conversion.toStored(last)))
  }

  changesAfter(revision: number): readonly Change[] {
    return this.#stored.changesAfter(revision).map((change) => this.#change(change))
  }

  at(revision: number): ReadonlyMap<string, StoredObject> {
    return new Map([...this.#stored.at(revision)].map(([key, object]) => [key, this.#form(object)]))
  }

  subscribe(listener: (change: Change) => void): () => void {
    return this.#stored.subscribe((change) => listener(this.#change(change)))
  }

  #change(change: Change): Change {
    return { ...change, object: this.#form(change.object), previous: this.#shown(change.previous) }
  }

  #shown(object: StoredObject | undefined): StoredObject | undefined {
    return object === undefined ? undefined : this.#form(object)
  }

  #form(object: StoredObject): StoredObject {
    return getOrMake(this.#forms, object, () => this.#conversion.fromStored(object))
  }
}

function stamped(object: StoredObject, revision: number): StoredObject {
  const metadata = Object.freeze({ ...object.metadata, resourceVersion: String(revision) })
  return Object.freeze({ ...object, metadata })
}

/** How many items meet a condition. They must come before all items that do not meet it. */
function countOfFirst<T>(items: readonly T[], isMet: (item: T) => boolean): number {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isMet(items[middle] as T)) low = middle + 1
    else high = middle
  }
  return low
}
