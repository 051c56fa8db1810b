import type { TrimmedReader } from '../protobuf/trimmed-objects.ts'
import type { Steps } from '../runtime/steps.ts'
import type { ObjectRef } from './api.ts'
import { type ObjectMap, PlainObjects } from './object-map.ts'
import { PackedObjects, type Packing } from './packed-objects.ts'
import type { KubeObject } from './resources.ts'

/** What happened to one object. `old` is the state that handlers received before. */
export type Change<T> =
  | { readonly type: 'added'; readonly object: T }
  | { readonly type: 'updated'; readonly old: T; readonly object: T }
  | { readonly type: 'deleted'; readonly old: T }

/** The state before a change; undefined if the object was added. */
export function before<T>(change: Change<T>): T | undefined {
  return change.type === 'added' ? undefined : change.old
}

/** The state after a change; undefined if the object was deleted. */
export function after<T>(change: Change<T>): T | undefined {
  return change.type === 'deleted' ? undefined : change.object
}

/** The last known state of the object that a change concerns. */
export function objectOf<T>(change: Change<T>): T {
  return change.type === 'deleted' ? change.old : change.object
}

/**
 * Reduces an object when it arrives, so that a long list is never held with all fields. Name, namespace, uid and
 * resourceVersion must stay. `protobuf`, if set, decodes all fields that the function reads. `packing`, if set, stores
 * what the function returns in less memory.
 */
export type Transform<T> = ((object: T) => T) & { readonly protobuf?: TrimmedReader; readonly packing?: Packing<T> }

/** An empty map. With `packing` it takes a fraction of the memory, and each object that it returns is a new one. */
export function objectMap<T extends KubeObject>(packing: Packing<T> | undefined): ObjectMap<T> {
  return packing === undefined ? new PlainObjects() : new PackedObjects(packing)
}

/**
 * The objects of one resource as last received, by namespace and name. Callers share these objects: do not modify them.
 *
 * Every change is reported relative to the stored state, so that an index that adds `object` and removes `old` is
 * always exact. An object with the stored uid and resourceVersion is no change.
 */
export class Store<T extends KubeObject> {
  #objects: ObjectMap<T>

  /** @param packing - how the objects are stored in less memory. @default as they are received */
  constructor(packing?: Packing<T>) {
    this.#objects = objectMap(packing)
  }

  get size(): number {
    return this.#objects.size
  }

  get(ref: ObjectRef): T | undefined {
    return this.#objects.get(ref)
  }

  /** The object with this key of {@link keyOf}. */
  at(key: string): T | undefined {
    return this.#objects.get(refOfKey(key))
  }

  /** The objects with this key of {@link Packing.keysOf}. @throws Error if the store has no packing */
  by(key: string): readonly T[] {
    return this.#objects.by(key)
  }

  /** All objects. If they are not packed, they are grouped by namespace. */
  list(): readonly T[] {
    return [...this.#objects.snapshot()]
  }

  /** As {@link list}, but packed objects are made one by one, not all in memory at the same time. */
  snapshot(): Iterable<T> {
    return this.#objects.snapshot()
  }

  /** As {@link snapshot}, without a copy. A change during the iteration may or may not show. */
  [Symbol.iterator](): Iterator<T> {
    return this.#objects[Symbol.iterator]()
  }

  /** Applies one watch event. Returns undefined if the event changes nothing. */
  apply(event: { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }): Change<T> | undefined {
    const { type, object } = event
    const ref = refOfObject(object)
    const old = this.#objects.get(ref)
    if (type === 'DELETED') {
      this.#objects.delete(ref)
      return old === undefined ? undefined : { type: 'deleted', old }
    }
    if (old !== undefined && sameVersion(old, object)) return undefined
    this.#objects.set(ref, object)
    return old === undefined ? { type: 'added', object } : { type: 'updated', old, object }
  }

  /**
   * Replaces all objects with the complete current state, and computes the changes. Deletions come first, so that a
   * name, address or port that moved is free before it is taken. An object that was deleted and created again (another
   * uid) counts as a deletion and an addition. The store changes in the last step, and nothing else may change it
   * before that. From then on `present` belongs to the store. Iterate over the result before the store changes again.
   */
  *replace(present: ObjectMap<T>): Steps<Iterable<Change<T>>> {
    // A million changes would take as much memory as a million objects that are not packed, so each change is made only
    // when it is read.
    if (this.#objects.size === 0) {
      this.#objects = present
      return additions(present)
    }
    const old = this.#objects
    const changed: { readonly type: Change<T>['type']; readonly ref: ObjectRef }[] = []
    for (const before of old) {
      const ref = refOfObject(before)
      const object = present.get(ref)
      if (object === undefined || object.metadata?.uid !== before.metadata?.uid) changed.push({ type: 'deleted', ref })
      yield
    }
    for (const object of present) {
      const ref = refOfObject(object)
      const before = old.get(ref)
      if (before === undefined || before.metadata?.uid !== object.metadata?.uid) changed.push({ type: 'added', ref })
      else if (sameVersion(before, object)) present.share?.(ref, before)
      else changed.push({ type: 'updated', ref })
      yield
    }
    this.#objects = present
    return changesOf(changed, old, present)
  }
}

function* additions<T extends KubeObject>(objects: Iterable<T>): Generator<Change<T>> {
  for (const object of objects) yield { type: 'added', object }
}

function* changesOf<T extends KubeObject>(
  changed: readonly { readonly type: Change<T>['type']; readonly ref: ObjectRef }[],
  before: ObjectMap<T>,
  present: ObjectMap<T>,
): Generator<Change<T>> {
  for (const { type, ref } of changed) {
    if (type === 'deleted') yield { type, old: before.get(ref) as T }
    else if (type === 'added') yield { type, object: present.get(ref) as T }
    else yield { type, old: before.get(ref) as T, object: present.get(ref) as T }
  }
}

/** `namespace/name`, or `name` for an object without namespace, as client-go keys its caches and queues. */
export function keyOf(ref: ObjectRef): string {
  return ref.namespace === undefined || ref.namespace === '' ? ref.name : `${ref.namespace}/${ref.name}`
}

/** The inverse of {@link keyOf}. */
export function refOfKey(key: string): { readonly namespace?: string; readonly name: string } {
  const slash = key.indexOf('/')
  return slash === -1 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

export function refOfObject({ metadata }: KubeObject): ObjectRef {
  return { namespace: metadata?.namespace, name: metadata?.name ?? '' }
}

/** The key of an object, as {@link keyOf} makes it. A missing name counts as empty. */
export function keyOfObject(object: KubeObject): string {
  return keyOf(refOfObject(object))
}

function sameVersion(a: KubeObject, b: KubeObject): boolean {
  const version = a.metadata?.resourceVersion
  return version !== undefined && version === b.metadata?.resourceVersion && a.metadata?.uid === b.metadata?.uid
}
