import { apiVersionOf } from '../kube/resources.ts'
import { keyOf } from '../kube/store.ts'
import type { Clock } from '../runtime/clock.ts'
import { equalJson } from '../runtime/equal-json.ts'
import type { Random } from '../runtime/random.ts'
import { formatTime, parseTime } from '../runtime/time-format.ts'
import { asDecoded, deepFrozen } from './decode.ts'
import type { Draft, Kind, Members, Subresource } from './kind.ts'
import {
  inStoredOrder,
  type ManagedFields,
  type Manager,
  ownedOnCreate,
  ownedOnUpdate,
  ownersBefore,
  writesStatusAlone,
} from './managed-fields.ts'
import { checkTarget, metaForCreate, metaForUpdate, validateMeta } from './object-meta.ts'
import { checkSize } from './object-size.ts'
import {
  alreadyExists,
  FieldErrors,
  forbidden,
  internalError,
  notFound,
  preconditionFailed,
  resourceVersionConflict,
  uidConflict,
} from './refusal.ts'
import { namespaceKind } from './resources/plain-kinds.ts'
import { managedFields } from './schema.ts'
import type { Collection, Objects, Store, StoredObject } from './store.ts'

export interface WriteContext {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
}

export interface Target {
  readonly kind: Kind
  readonly namespace: string | undefined
  readonly name: string
  readonly subresource: Subresource
}

export interface WriteOptions {
  readonly manager: Manager
  /** Whether the request is answered as usual, but changes nothing. */
  readonly dryRun: boolean
}

/** What an update makes of the live object. */
export interface Outcome {
  readonly draft: Draft
  /**
   * The owners after the write; `changed`: whether the write changes the object. Left out: they follow from the changed
   * fields.
   */
  readonly managers?: (changed: boolean) => ManagedFields
}

export interface DeleteRequest {
  readonly uid?: string | undefined
  readonly resourceVersion?: string | undefined
  readonly gracePeriodSeconds?: number | undefined
  /** What happens to dependents of the object. Undefined: the object's finalizers decide this. */
  readonly propagation?: 'Orphan' | 'Foreground' | 'Background' | undefined
  readonly dryRun: boolean
}

/** At most this many names are generated for an object until one is free, as in upstream's RetryGenerateName. */
const MOST_NAMES = 8

/** Stores a new object, except in a dry run, and returns it. @throws Refusal */
export function createObject(
  context: WriteContext,
  kind: Kind,
  namespace: string | undefined,
  draft: Draft,
  options: WriteOptions & { readonly managers?: ManagedFields },
): StoredObject {
  const { store } = context
  const { resource } = kind
  checkTarget(draft, namespace, undefined)
  const collection = store.objects(kind)
  let metadata = metaForCreate(draft, namespace, context)
  const isTaken = (): boolean => collection.get(keyOf({ namespace, name: metadata.name ?? '' })) !== undefined
  if (draft.metadata?.name === undefined) {
    for (let tries = 1; tries < MOST_NAMES && isTaken(); tries++) metadata = metaForCreate(draft, namespace, context)
  }
  const name = metadata.name ?? ''
  if (namespace !== undefined) admitToNamespace(context, kind, namespace, name)
  const named = { ...draft, metadata }
  const prepared = kind.forCreate?.(named) ?? named
  validate(kind, prepared, undefined)
  if (draft.metadata?.resourceVersion !== undefined) {
    throw internalError('resourceVersion should not be set on objects to be created')
  }
  const reservation = kind.reserve?.(prepared, undefined, options)
  const key = keyOf({ namespace, name })
  if (isTaken()) throw alreadyExists(resource, name)
  const managed = options.managers ?? ownedOnCreate(kind, draft, options.manager, context.clock)
  const complete = completed(kind, reservation?.object ?? prepared, managed)
  checkSize(complete)
  if (options.dryRun) return complete
  reservation?.take()
  return collection.put(key, complete)
}

/** The answer to a POST of a kind whose objects are never stored, such as a review. @throws Refusal */
export function reviewed(context: WriteContext, kind: Kind, draft: Draft, { manager }: WriteOptions): StoredObject {
  const errors = new FieldErrors()
  kind.validate?.(draft, errors, undefined)
  // Upstream names no kind for an object that is never stored.
  errors.refuse({ kind: '', group: kind.resource.group }, '')
  return completed(kind, kind.review?.(draft) ?? draft, ownedOnCreate(kind, draft, manager, context.clock))
}

/**
 * Replaces an object by the result of `change`, and returns the new state. Writes nothing if nothing changes. Removes
 * the object if it is marked as deleted and nothing retains it. `guarded` (PUT): refuses another uid and, for kinds
 * with `requiresResourceVersion`, a missing resourceVersion.
 * @throws Refusal
 */
export function updateObject(
  context: WriteContext,
  target: Target,
  change: (live: StoredObject) => Outcome,
  options: WriteOptions & { readonly guarded?: boolean },
): StoredObject {
  const { kind, namespace, name, subresource } = target
  const collection = context.store.objects(kind)
  const key = keyOf(target)
  const live = collection.get(key)
  if (live === undefined) throw notFound(kind.resource, name)
  const { draft, managers } = change(live)
  checkTarget(draft, namespace, name)
  const given = draft.metadata?.resourceVersion
  const version = given === '0' ? undefined : given
  if (version === undefined && options.guarded === true && kind.requiresResourceVersion === true) {
    const errors = new FieldErrors()
    errors.invalid('metadata.resourceVersion', 0, 'must be specified for an update')
    errors.refuse({ kind: kind.resource.plural, group: kind.resource.group }, name)
  }
  if (version !== undefined && version !== live.metadata.resourceVersion) {
    if (!/^\d+$/.test(version))
      throw internalError(`strconv.ParseUint: parsing ${JSON.stringify(version)}: invalid syntax`)
    throw resourceVersionConflict(kind.resource, name)
  }
  const uid = draft.metadata?.uid
  if (options.guarded === true && uid !== undefined && uid !== live.metadata.uid) {
    throw uidConflict(kind.resource, name, uid, live.metadata.uid)
  }

  const metadata = metaForUpdate(writesStatusAlone(kind, subresource) ? live : draft, live)
  const merged = { ...onlyOwnPart(kind, draft, live, subresource), metadata }
  const prepared = kind.forUpdate?.(merged, live) ?? merged
  validate(kind, prepared, live)
  const reservation = subresource === undefined ? kind.reserve?.(prepared, live, options) : undefined
  const { object } = reservation ?? { object: prepared }
  const owners = ownersBefore(draft, live, subresource)
  const changed = !equalJson(completed(kind, object, owners), live)
  if (!changed && managers === undefined) return live
  const managed =
    managers?.(changed) ??
    ownedOnUpdate(kind, live, draft, { manager: options.manager, subresource, clock: context.clock, owners })
  const next = completed(kind, object, managed)
  checkSize(next)
  if (options.dryRun || (!changed && equalJson(next, live))) return next
  reservation?.take()
  if (!isGone(kind, next)) return collection.put(key, next)
  // Watches get the object as it was before its last finalizer was removed, as in upstream.
  collection.remove(key, live)
  kind.release?.(next)
  return next
}

/**
 * Deletes an object, or only marks it as deleted, if finalizers, a grace period or its kind retain it.
 * @returns the marked object or, if it is `gone`, its last state
 * @throws Refusal
 */
export function deleteObject(
  context: WriteContext,
  target: Omit<Target, 'subresource'>,
  request: DeleteRequest,
): { readonly object: StoredObject; readonly gone: boolean } {
  const { kind, name } = target
  const collection = context.store.objects(kind)
  const key = keyOf(target)
  const live = collection.get(key)
  if (live === undefined) throw notFound(kind.resource, name)
  checkPreconditions(kind, live, request)
  kind.refuseDelete?.(live)
  const marked = markDeleted(kind, live, request, context.clock)
  const gone = isGone(kind, marked)
  if (request.dryRun || (!gone && marked === live)) return { object: marked, gone }
  // As in upstream, objects of kinds with grace periods are marked first, even for a period of zero.
  const last = !gone || kind.graceSeconds !== undefined ? collection.put(key, marked) : live
  return { object: gone ? removeObject(kind, collection, key, last) : last, gone }
}

/** Removes an object from the store, and releases its addresses and ports. Returns its last state. */
export function removeObject(kind: Kind, collection: Objects, key: string, last: StoredObject): StoredObject {
  const gone = collection.remove(key, last)
  kind.release?.(gone)
  return gone
}

function checkPreconditions(kind: Kind, live: StoredObject, request: DeleteRequest): void {
  const { name, uid, resourceVersion } = live.metadata
  if (request.uid !== undefined && request.uid !== uid) {
    const why = `the UID in the precondition (${request.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`
    throw preconditionFailed(kind.resource, name, why)
  }
  if (request.resourceVersion !== undefined && request.resourceVersion !== resourceVersion) {
    const why = `the ResourceVersion in the precondition (${request.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`
    throw preconditionFailed(kind.resource, name, why)
  }
}

/**
 * The object, marked as deleted; `live` itself if the mark would not change. While a grace period runs, another
 * deletion can only shorten that period (upstream's BeforeDelete).
 */
function markDeleted(kind: Kind, live: StoredObject, request: DeleteRequest, clock: Clock): StoredObject {
  const { finalizers: before = [], ...metadata } = live.metadata
  const { deletionTimestamp, deletionGracePeriodSeconds: running = 0, generation } = metadata
  const asked = request.gracePeriodSeconds
  const isMarked = deletionTimestamp !== undefined
  const isShortened = isMarked && asked !== undefined && asked < running
  // Only the first deletion of a Namespace counts, as in upstream's storage of namespaces.
  if (isMarked && (kind === namespaceKind || (running > 0 && !isShortened))) return live
  const finalizers = finalizersAfter(before, request.propagation)
  if (isMarked && !isShortened && finalizers === before) return live
  const grace = isMarked ? (asked ?? 0) : (kind.graceSeconds?.(live, asked) ?? 0)
  const fromMs = isMarked ? parseTime(deletionTimestamp) - running * 1000 : clock.wallMs()
  const marked: StoredObject['metadata'] = {
    ...metadata,
    ...(generation === undefined || isMarked ? {} : { generation: generation + 1 }),
    ...(isMarked && !isShortened
      ? {}
      : { deletionTimestamp: formatTime(fromMs + grace * 1000), deletionGracePeriodSeconds: grace }),
    ...(finalizers.length === 0 ? {} : { finalizers }),
  }
  const object = { ...live, metadata: marked }
  return deepFrozen(kind.forDelete?.(object) ?? object)
}

/**
 * Adds the finalizer of the propagation policy, and removes those of the other policies. Without a policy, changes
 * nothing.
 */
function finalizersAfter(finalizers: readonly string[], policy: DeleteRequest['propagation']): readonly string[] {
  if (policy === undefined) return finalizers
  const own = policy === 'Orphan' ? ['orphan'] : policy === 'Foreground' ? ['foregroundDeletion'] : []
  const others = finalizers.filter((name) => name !== 'orphan' && name !== 'foregroundDeletion')
  return finalizers.length === others.length + own.length && own.every((name) => finalizers.includes(name))
    ? finalizers
    : [...others, ...own]
}

function isGone(kind: Kind, object: StoredObject): boolean {
  const { deletionTimestamp, finalizers, deletionGracePeriodSeconds } = object.metadata
  if (deletionTimestamp === undefined || (finalizers?.length ?? 0) > 0) return false
  return (deletionGracePeriodSeconds ?? 0) === 0 && kind.isRetained?.(object) !== true
}

/**
 * Refuses to create an object in a missing or terminating namespace, as upstream's NamespaceLifecycle admission does.
 */
function admitToNamespace(context: WriteContext, kind: Kind, namespace: string, name: string): void {
  const live = context.store.objects(namespaceKind).get(namespace)
  if (live === undefined) throw notFound(namespaceKind.resource, namespace)
  if (live.metadata.deletionTimestamp === undefined) return
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`
  const message = `namespace ${namespace} is being terminated`
  throw forbidden(kind.resource, name, why, [{ reason: 'NamespaceTerminating', message, field: 'metadata.namespace' }])
}

/**
 * The parts of `draft` that a write may change, and the others from `live`. If the kind has `/status`, a write to the
 * object does not change its status, and a write to the status changes only status and metadata.
 */
function onlyOwnPart(kind: Kind, draft: Draft, live: StoredObject, subresource: Subresource): Draft {
  if (!kind.hasStatus) return draft
  if (subresource !== 'status') return { ...draft, status: live.status }
  // In Go the status of a built-in kind is a struct, which is never absent.
  const status = draft.status ?? (kind.isCustom ? undefined : {})
  return { ...live, metadata: draft.metadata, status }
}

function validate(kind: Kind, draft: Draft, live: StoredObject | undefined): void {
  const errors = new FieldErrors()
  validateMeta(kind, draft, errors, live)
  kind.validate?.(draft, errors, live)
  const { kind: name, group } = kind.resource
  errors.refuse({ kind: name, group: kind.refusalGroup ?? group }, draft.metadata?.name ?? '')
}

/** The object as it will be stored, except for its resourceVersion. */
function completed(kind: Kind, draft: Draft, managers: ManagedFields): StoredObject {
  const { kind: _kind, apiVersion: _apiVersion, metadata, ...rest } = draft
  const managed = managers.length === 0 ? {} : { managedFields: asDecoded(inStoredOrder(managers), managedFields) }
  return deepFrozen({
    kind: kind.resource.kind,
    apiVersion: apiVersionOf(kind.resource),
    metadata: { ...metadata, ...managed },
    ...definedOnly(rest),
  } as StoredObject)
}

function definedOnly(members: Members): Members {
  return Object.values(members).includes(undefined)
    ? Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
    : members
}

/**
 * Empties namespaces that are being deleted, and then removes them. In a cluster, the namespace controller of
 * kube-controller-manager does this. An object with finalizers retains its namespace until the object is removed.
 */
export class NamespaceContents {
  readonly #context: WriteContext
  readonly #namespaces: Collection
  readonly #pending = new Set<string>()
  readonly #kinds = new Map<Objects, Kind>()

  constructor(context: WriteContext) {
    this.#context = context
    this.#namespaces = context.store.stored(namespaceKind)
    this.#namespaces.subscribe(({ object }) => this.#schedule(object.metadata.name))
  }

  /** From now on, a deletion of a namespace also deletes its objects of these kinds. */
  include(kinds: readonly Kind[]): void {
    for (const kind of kinds) {
      const collection = this.#context.store.stored(kind)
      if (!kind.resource.namespaced || this.#kinds.has(collection)) continue
      this.#kinds.set(collection, kind)
      collection.subscribe((change) => {
        if (change.type === 'DELETED') this.#schedule(change.object.metadata.namespace ?? '')
      })
    }
  }

  /** Defers the work with the clock, so that a write is never nested in another. */
  #schedule(name: string): void {
    if (this.#pending.has(name) || !isTerminating(this.#namespaces.get(name))) return
    this.#pending.add(name)
    this.#context.clock.schedule(0, () => {
      this.#pending.delete(name)
      this.#empty(name)
    })
  }

  #empty(namespace: string): void {
    const live = this.#namespaces.get(namespace)
    if (live === undefined || !isTerminating(live)) return
    let left = 0
    for (const [collection, kind] of this.#kinds) {
      for (const key of [...collection.keys(`${namespace}/`)]) {
        const name = key.slice(namespace.length + 1)
        const { gone } = deleteObject(
          this.#context,
          { kind, namespace, name },
          { gracePeriodSeconds: 0, propagation: 'Background', dryRun: false },
        )
        if (!gone) left++
      }
    }
    // The finalizers of propagation policies do not count: no garbage collector would remove them.
    if (left > 0 || finalizersAfter(live.metadata.finalizers ?? [], 'Background').length > 0) return
    removeObject(namespaceKind, this.#namespaces, namespace, { ...live, spec: {} })
  }
}

function isTerminating(namespace: StoredObject | undefined): boolean {
  return namespace?.metadata.deletionTimestamp !== undefined
}
