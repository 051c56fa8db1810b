import type { KubeApi } from '../../kube/api.ts'
import { answered } from '../../kube/audit.ts'
import { ifNew, isKubeError } from '../../kube/errors.ts'
import type { KubeObject, Resource } from '../../kube/resources.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Counter, Metrics } from '../../telemetry/metrics.ts'
import type { Correction, ForeignOverwrites } from './foreign-overwrites.ts'

/** An action on one object. `reasons` name the differences, in stable words. */
export type ObjectAction<T> =
  /** `forNow`: the object differs from the desired state, but is left alone for now. */
  | { readonly type: 'none'; readonly forNow?: boolean | undefined }
  | { readonly type: 'create' | 'update'; readonly object: T; readonly reasons: readonly string[] }

/**
 * An action on an object that may also be removed or, if an immutable field differs, replaced: deleted and created
 * again.
 */
export type RemovableAction<T> =
  | ObjectAction<T>
  | { readonly type: 'replace'; readonly object: T; readonly reasons: readonly string[] }
  | { readonly type: 'remove'; readonly reasons: readonly string[] }

/** This many conflicts are usual, because other masters write the same objects. */
const USUAL_CONFLICTS = 3
const CONFLICT_PAUSE_MS = 50

/**
 * Returns a function that waits before a write is repeated after a conflict: not at all after the first three, then 50
 * ms each time, because a server or its webhook may answer every write with a conflict.
 */
export function conflictPause(clock: Clock): (signal: AbortSignal) => Promise<void> {
  let conflicts = 0
  return async (signal) => {
    if (++conflicts > USUAL_CONFLICTS) await sleep(clock, CONFLICT_PAUSE_MS, signal)
  }
}

/** A write that succeeded, or one whose answer was lost. */
export interface Written {
  readonly resource: Resource<KubeObject>
  readonly verb: 'create' | 'update' | 'delete'
  /** The object before the write; undefined: none. */
  readonly found: KubeObject | undefined
  /** The object after the write, or as it was sent; undefined: none. */
  readonly stored: KubeObject | undefined
  readonly reasons: readonly string[]
  /** Set if the write corrects an overwrite by another writer. */
  readonly correction: Correction | undefined
  /** Why no answer arrived: the write may or may not have happened. Undefined: it happened. */
  readonly error?: unknown
}

/**
 * The outcome of an action.
 * - `in-sync`: there was nothing to do.
 * - `waiting`: another writer keeps overwriting the object; the controller reconciles again when the back-off is over.
 * - `written`: the object was written.
 * - `overtaken`: another client has created or removed the object meanwhile; the next reconciliation reads it.
 */
export interface Outcome<T> {
  readonly type: 'in-sync' | 'waiting' | 'written' | 'overtaken'
  /** The stored object; with `waiting`, the desired object. Undefined if there is none, or with `overtaken`. */
  readonly object: T | undefined
}

export interface ObjectWriterOptions {
  readonly api: KubeApi
  readonly metrics: Metrics
  /** Left out: writes never back off. */
  readonly overwrites?: ForeignOverwrites | undefined
  /** Called after each write, also one without an answer. A replacement is two writes: a deletion and a creation. */
  readonly onWritten?: ((written: Written) => void) | undefined
}

/** Writes the managed objects, counts the writes by object and difference, and backs off from other writers. */
export class ObjectWriter {
  readonly #options: ObjectWriterOptions
  readonly #writes: Counter<'kind' | 'verb' | 'reason'>

  constructor(options: ObjectWriterOptions) {
    this.#options = options
    this.#writes = options.metrics.counter({
      name: 'apiserver_bootstrap_writes_total',
      help: 'Writes to managed objects, by the reason of the write.',
      labels: ['kind', 'verb', 'reason'],
    })
  }

  /**
   * Lets corrections wait from now on, and calls `reconcile` when one is due, until the returned function is called.
   */
  holdBack(reconcile: () => void): () => void {
    return this.#options.overwrites?.attach(reconcile) ?? (() => {})
  }

  /**
   * Whether an action that was planned from a cached object needs no write now: the object is in sync, or must wait.
   */
  isSettled<T extends KubeObject>(resource: Resource<T>, action: RemovableAction<T>, cached: T | undefined): boolean {
    if (action.type !== 'none') {
      return this.#options.overwrites?.isWaiting(resource, wantedBy(action), cached) ?? false
    }
    this.#noteInSync(resource, action, cached)
    return true
  }

  /**
   * Carries out an action that was planned from `found`, which was just read: its uid and resourceVersion guard the
   * write. Resolves with `overtaken` if another client has already created the object, or removed one that was to be
   * removed. Resolves with `written` and no object if another client creates the object between the two writes of a
   * replacement. Rejects after every other failure.
   */
  async execute<T extends KubeObject>(
    resource: Resource<T>,
    action: RemovableAction<T>,
    found: T | undefined,
    signal?: AbortSignal,
  ): Promise<Outcome<T>> {
    if (action.type === 'none') {
      this.#noteInSync(resource, action, found)
      return { type: 'in-sync', object: found }
    }
    const { api, overwrites, onWritten } = this.#options
    const { type, reasons } = action
    const wanted = wantedBy(action)
    const object = wanted ?? found
    if (overwrites?.mustWait(resource, wanted, found)) return { type: 'waiting', object: wanted }
    const write = async (verb: Written['verb'], send: () => Promise<T | undefined>): Promise<Outcome<T>> => {
      // A created object did not exist before, even if we deleted another one right before.
      const change = { resource, verb, reasons, found: verb === 'create' ? undefined : found }
      const sent = verb === 'delete' ? undefined : wanted
      const unanswered = (error: unknown): void =>
        onWritten?.({ ...change, stored: sent, correction: undefined, error })
      const stored = await answered(send, unanswered, signal)
      for (const reason of reasons) this.#writes.add({ kind: resource.kind, verb, reason })
      const correction = overwrites?.written(resource, object, stored)
      onWritten?.({ ...change, stored, correction })
      return { type: 'written', object: stored }
    }
    /** Undefined if another client has already created the object. */
    const create = (wanted: T): Promise<Outcome<T> | undefined> =>
      ifNew(write('create', () => api.create(resource, wanted, { lingers: true, signal })))
    if (type === 'update') {
      return write('update', () => api.update(resource, action.object, { lingers: true, signal }))
    }
    if (type === 'create') return (await create(action.object)) ?? { type: 'overtaken', object: undefined }
    const { namespace, name = '', uid, resourceVersion } = found?.metadata ?? {}
    let removed: Outcome<T>
    try {
      const guarded = { uid, resourceVersion, lingers: true, signal } as const
      removed = await write('delete', () => api.delete(resource, { namespace, name }, guarded).then(() => undefined))
    } catch (error) {
      if (!isKubeError(error, 'NotFound')) throw error
      overwrites?.gone(resource, object)
      if (type === 'replace') throw error
      return { type: 'overtaken', object: undefined }
    }
    return type === 'remove' ? removed : ((await create(action.object)) ?? removed)
  }

  #noteInSync(
    resource: Resource<KubeObject>,
    { forNow }: { readonly forNow?: boolean | undefined },
    object: KubeObject | undefined,
  ): void {
    if (object !== undefined && forNow !== true) this.#options.overwrites?.inSync(resource, object)
  }
}

function wantedBy<T>(action: Exclude<RemovableAction<T>, { readonly type: 'none' }>): T | undefined {
  return action.type === 'remove' ? undefined : action.object
}
