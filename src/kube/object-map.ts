import { getOrMake } from '../runtime/memo.ts'
import type { ObjectRef } from './api.ts'
import type { KubeObject } from './resources.ts'

/** Objects of one resource by namespace and name. */
export interface ObjectMap<T extends KubeObject> extends Iterable<T> {
  readonly size: number
  get(ref: ObjectRef): T | undefined
  set(ref: ObjectRef, object: T): void
  delete(ref: ObjectRef): void
  /**
   * Replaces an object by an equal one of another map, so that both maps share it. Undefined if this map packs its
   * objects.
   */
  share?(ref: ObjectRef, object: T): void
  /** All objects. A change during the iteration may or may not show; an object that does not change is visited once. */
  [Symbol.iterator](): Iterator<T>
  /** The objects as they are now, also if they change during the iteration. */
  snapshot(): Iterable<T>
  /** The objects with this key of `Packing.keysOf`. @throws Error if the map does not pack its objects */
  by(key: string): readonly T[]
}

/**
 * Stores the objects as they are. One map with a key for namespace and name would take 64 bytes more for each object.
 */
export class PlainObjects<T extends KubeObject> implements ObjectMap<T> {
  readonly #namespaces = new Map<string, Map<string, T>>()

  get size(): number {
    let size = 0
    for (const objects of this.#namespaces.values()) size += objects.size
    return size
  }

  get({ namespace, name }: ObjectRef): T | undefined {
    return this.#namespaces.get(namespace ?? '')?.get(name)
  }

  set({ namespace, name }: ObjectRef, object: T): void {
    getOrMake(this.#namespaces, namespace ?? '', () => new Map<string, T>()).set(name, object)
  }

  delete({ namespace, name }: ObjectRef): void {
    const objects = this.#namespaces.get(namespace ?? '')
    objects?.delete(name)
    if (objects?.size === 0) this.#namespaces.delete(namespace ?? '')
  }

  share(ref: ObjectRef, object: T): void {
    this.set(ref, object)
  }

  *[Symbol.iterator](): Generator<T> {
    for (const objects of this.#namespaces.values()) for (const object of objects.values()) yield object
  }

  snapshot(): readonly T[] {
    // An array that grows would take four times as long.
    const all = new Array<T>(this.size)
    let next = 0
    for (const objects of this.#namespaces.values()) for (const object of objects.values()) all[next++] = object
    return all
  }

  by(): never {
    throw new Error('these objects have no keys beside their names')
  }
}
