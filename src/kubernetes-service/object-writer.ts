import type { KubeApi } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import type { KubeObject } from '../kube/json.ts'
import type { Resource } from '../kube/resources.ts'
import { keyOfObject } from '../kube/store.ts'
import type { Counter, Metrics } from '../telemetry/metrics.ts'
import type { Correction, ForeignOverwrites } from './foreign-overwrites.ts'

/** A write that was made. */
export interface Written {
  readonly resource: Resource<KubeObject>
  readonly verb: 'create' | 'update' | 'delete'
  /** What was there before, where it was looked at right before; undefined: nothing. */
  readonly found: KubeObject | undefined
  /** What is there now; undefined: nothing. */
  readonly stored: KubeObject | undefined
  /** What was found wrong. */
  readonly reasons: readonly string[]
  /** Set where somebody else had undone what was right. */
  readonly correction: Correction | undefined
}

export interface ObjectWriterOptions {
  readonly api: KubeApi
  readonly metrics: Metrics
  /** Left out: nobody's writes are backed off from. */
  readonly overwrites?: ForeignOverwrites | undefined
  /** Called after each write that {@link ObjectWriter.mustWait} was asked about. */
  readonly onWritten?: ((written: Written) => void) | undefined
}

/** Writes the objects that are kept, counts what is written by object and by what was found wrong, and backs off from other writers. */
export class ObjectWriter {
  readonly #options: ObjectWriterOptions
  readonly #writes: Counter<'kind' | 'verb' | 'reason'>
  /** What was found before the write that is about to be made, by resource and name. */
  readonly #found = new Map<string, { readonly found: KubeObject | undefined }>()

  constructor(options: ObjectWriterOptions) {
    this.#options = options
    this.#writes = options.metrics.counter({
      name: 'apiserver_bootstrap_writes_total',
      help: 'Writes to the objects that are kept, by what was found wrong.',
      labels: ['kind', 'verb', 'reason'],
    })
  }

  /**
   * From now on writes may have to wait; `look` is called when one need not any more. What is returned ends that: all writes go
   * through.
   */
  holdBack(look: () => void): () => void {
    return this.#options.overwrites?.attach(look) ?? (() => {})
  }

  /**
   * Whether a write must wait, because somebody else keeps undoing it: asked right before each, with what was just read. The
   * controller looks again when it may be made.
   *
   * @param wanted - what is about to be written; undefined: `found` is to be deleted.
   */
  mustWait<T extends KubeObject>(resource: Resource<T>, wanted: T | undefined, found: T | undefined): boolean {
    this.#found.set(keyOf(resource, wanted ?? found), { found })
    return this.#options.overwrites?.mustWait(resource, wanted, found) ?? false
  }

  /** The same, by what a cache shows: whether it is of no use to look at the live object now. */
  isWaiting<T extends KubeObject>(resource: Resource<T>, wanted: T | undefined, found: T | undefined): boolean {
    return this.#options.overwrites?.isWaiting(resource, wanted, found) ?? false
  }

  /** Whether somebody keeps undoing what is written to an object: single writes are then not worth a line in the log. */
  isFight(resource: Resource<KubeObject>, object: KubeObject): boolean {
    return this.#options.overwrites?.isFight(resource, object) ?? false
  }

  /** The object was found as it should be. */
  right<T extends KubeObject>(resource: Resource<T>, object: T | undefined): void {
    if (object !== undefined) this.#options.overwrites?.right(resource, object)
  }

  /** Makes an object. `reasons` name what was found wrong, in stable words. */
  create<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    reasons: readonly string[],
    signal?: AbortSignal,
  ): Promise<T> {
    return this.#write('create', resource, object, reasons, signal)
  }

  /** Replaces an object as it was read: its resourceVersion guards the write. */
  update<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    reasons: readonly string[],
    signal?: AbortSignal,
  ): Promise<T> {
    return this.#write('update', resource, object, reasons, signal)
  }

  /**
   * Deletes an object as it was read: its uid and resourceVersion guard the delete. Rejects with `NotFound` when another was faster;
   * that the object is gone is right all the same.
   */
  async delete<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    reasons: readonly string[],
    signal?: AbortSignal,
  ): Promise<void> {
    const { namespace, name = '', uid, resourceVersion } = object.metadata ?? {}
    try {
      await this.#options.api.delete(resource, { namespace, name }, { uid, resourceVersion, signal })
    } catch (error) {
      if (isKubeError(error, 'NotFound')) {
        this.#found.delete(keyOf(resource, object))
        this.#options.overwrites?.gone(resource, object)
      }
      throw error
    }
    this.#done(resource, 'delete', object, undefined, reasons)
  }

  async #write<T extends KubeObject>(
    verb: 'create' | 'update',
    resource: Resource<T>,
    object: T,
    reasons: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<T> {
    const stored = await this.#options.api[verb](resource, object, { signal })
    this.#done(resource, verb, object, stored, reasons)
    return stored
  }

  #done(
    resource: Resource<KubeObject>,
    verb: Written['verb'],
    object: KubeObject,
    stored: KubeObject | undefined,
    reasons: readonly string[],
  ): void {
    for (const reason of reasons) this.#writes.add({ kind: resource.kind, verb, reason })
    const key = keyOf(resource, object)
    const expected = this.#found.get(key)
    if (expected === undefined) return
    this.#found.delete(key)
    const wanted = verb === 'delete' ? undefined : object
    const correction = this.#options.overwrites?.written(resource, { wanted, object, stored, reasons })
    this.#options.onWritten?.({ resource, verb, found: expected.found, stored, reasons, correction })
  }
}

function keyOf(resource: Resource<KubeObject>, object: KubeObject | undefined): string {
  return `${resource.plural} ${object === undefined ? '' : keyOfObject(object)}`
}
