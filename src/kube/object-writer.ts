import type { Counter, Metrics } from '../telemetry/metrics.ts'
import type { KubeApi } from './api.ts'
import { answered } from './audit.ts'
import { isKubeError } from './errors.ts'
import type { Correction, ForeignOverwrites } from './foreign-overwrites.ts'
import type { KubeObject } from './json.ts'
import type { Resource } from './resources.ts'

/** What must be done to one object. `reasons` name what was found wrong, in stable words. */
export type ObjectAction<T> =
  /** `forNow`: it is not as it should be, but is left so for now. */
  | { readonly type: 'none'; readonly forNow?: boolean | undefined }
  | { readonly type: 'create' | 'update'; readonly object: T; readonly reasons: readonly string[] }

/** The same for an object that is wanted at times only, or has fields that cannot be changed: then it is deleted and made anew. */
export type RemovableAction<T> =
  | ObjectAction<T>
  | { readonly type: 'replace'; readonly object: T; readonly reasons: readonly string[] }
  | { readonly type: 'remove'; readonly reasons: readonly string[] }

/** A write that was made, or one whose answer was lost. */
export interface Written {
  readonly resource: Resource<KubeObject>
  readonly verb: 'create' | 'update' | 'delete'
  /** What was there before; undefined: nothing. */
  readonly found: KubeObject | undefined
  /** What is there now, or was sent; undefined: nothing. */
  readonly stored: KubeObject | undefined
  /** What was found wrong. */
  readonly reasons: readonly string[]
  /** Set where somebody else had undone what was right. */
  readonly correction: Correction | undefined
  /** What kept the answer away: whether it was written is not known. Undefined: it was. */
  readonly error?: unknown
}

/**
 * What became of an action.
 * - `right`: there was nothing to be done.
 * - `waiting`: somebody else keeps undoing it; the controller looks again when it may be written.
 * - `written`: it was written.
 * - `overtaken`: somebody else has made it meanwhile; the next look sees that one.
 */
export interface Outcome<T> {
  readonly type: 'right' | 'waiting' | 'written' | 'overtaken'
  /** What is there now, or will be when the wait is over, as far as it is known here. */
  readonly object: T | undefined
}

export interface ObjectWriterOptions {
  readonly api: KubeApi
  readonly metrics: Metrics
  /** Left out: nobody's writes are backed off from. */
  readonly overwrites?: ForeignOverwrites | undefined
  /** Called after each write; of a replacement, after the deletion and after the creation. */
  readonly onWritten?: ((written: Written) => void) | undefined
}

/** Writes the objects that are kept, counts what is written by object and by what was found wrong, and backs off from other writers. */
export class ObjectWriter {
  readonly #options: ObjectWriterOptions
  readonly #writes: Counter<'kind' | 'verb' | 'reason'>

  constructor(options: ObjectWriterOptions) {
    this.#options = options
    this.#writes = options.metrics.counter({
      name: 'apiserver_bootstrap_writes_total',
      help: 'Writes to managed objects, by the difference that was found.',
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

  /** Whether nothing is to be done now for an action that was decided on what a cache shows: all is right, or what is not must wait. */
  isSettled<T extends KubeObject>(resource: Resource<T>, action: RemovableAction<T>, cached: T | undefined): boolean {
    if (action.type !== 'none') {
      return this.#options.overwrites?.isWaiting(resource, wantedBy(action), cached) ?? false
    }
    this.#noticeRight(resource, action, cached)
    return true
  }

  /**
   * Carries out an action that was decided on `found`, as it was just read: its uid and resourceVersion guard the write. That somebody
   * else has made the same object, or has removed it, is no failure; everything else rejects.
   */
  async execute<T extends KubeObject>(
    resource: Resource<T>,
    action: RemovableAction<T>,
    found: T | undefined,
    signal?: AbortSignal,
  ): Promise<Outcome<T>> {
    if (action.type === 'none') {
      this.#noticeRight(resource, action, found)
      return { type: 'right', object: found }
    }
    const { api, overwrites, onWritten } = this.#options
    const { type, reasons } = action
    const wanted = wantedBy(action)
    const object = wanted ?? found
    if (overwrites?.mustWait(resource, wanted, found)) return { type: 'waiting', object: wanted }
    const done = (verb: Written['verb'], stored: T | undefined): Outcome<T> => {
      this.#count(resource, verb, reasons)
      const correction = overwrites?.written(resource, object, stored)
      onWritten?.({ resource, verb, found, stored, reasons, correction })
      return { type: 'written', object: stored }
    }
    const send = <A>(verb: Written['verb'], write: () => Promise<A>): Promise<A> => {
      // What is created was not there, be it that it was deleted right before.
      const change = { found: verb === 'create' ? undefined : found, stored: verb === 'delete' ? undefined : wanted }
      const unanswered = (error: unknown): void =>
        onWritten?.({ resource, verb, ...change, reasons, correction: undefined, error })
      return answered(write, unanswered, signal)
    }
    const create = (wanted: T) => unlessThere(send('create', () => api.create(resource, wanted, { signal })))
    if (type === 'update') {
      return done('update', await send('update', () => api.update(resource, action.object, { signal })))
    }
    if (type === 'create') {
      const stored = await create(action.object)
      return stored === undefined ? { type: 'overtaken', object: undefined } : done('create', stored)
    }
    const { namespace, name = '', uid, resourceVersion } = found?.metadata ?? {}
    try {
      await send('delete', () => api.delete(resource, { namespace, name }, { uid, resourceVersion, signal }))
    } catch (error) {
      if (!isKubeError(error, 'NotFound')) throw error
      overwrites?.gone(resource, object)
      if (type === 'replace') throw error
      return { type: 'overtaken', object: undefined }
    }
    const removed = done('delete', undefined)
    if (type === 'remove') return removed
    const stored = await create(action.object)
    if (stored !== undefined) {
      this.#count(resource, 'create', reasons)
      onWritten?.({ resource, verb: 'create', found: undefined, stored, reasons, correction: undefined })
    }
    return { type: 'written', object: stored }
  }

  #noticeRight(
    resource: Resource<KubeObject>,
    { forNow }: { readonly forNow?: boolean | undefined },
    object: KubeObject | undefined,
  ): void {
    if (object !== undefined && forNow !== true) this.#options.overwrites?.right(resource, object)
  }

  #count({ kind }: Resource<KubeObject>, verb: Written['verb'], reasons: readonly string[]): void {
    for (const reason of reasons) this.#writes.add({ kind, verb, reason })
  }
}

/** Undefined where the object is not to be there. */
function wantedBy<T>(action: Exclude<RemovableAction<T>, { readonly type: 'none' }>): T | undefined {
  return action.type === 'remove' ? undefined : action.object
}

/** What was made; undefined where somebody else has made it already. */
async function unlessThere<T>(made: Promise<T>): Promise<T | undefined> {
  try {
    return await made
  } catch (error) {
    if (isKubeError(error, 'AlreadyExists')) return undefined
    throw error
  }
}
