import type { ApiRequest, ApiResponse } from '../kube/transport.ts'
import { remembering } from '../runtime/memo.ts'
import { applyTo, ownedOnApply } from './apply.ts'
import type { Kind } from './kind.ts'
import { listObjects } from './list.ts'
import type { Manager } from './managed-fields.ts'
import { readBody, readDraft } from './object-meta.ts'
import { patched, patchTypeOf } from './patches.ts'
import { flag, parameter, parseListOptions } from './query.ts'
import {
  badRequest,
  groupVersionKind,
  invalid,
  methodNotAllowed,
  noSuchPath,
  notFound,
  resourceVersionTooLarge,
  successStatus,
  uidConflict,
} from './refusal.ts'
import type { StoredObject } from './store.ts'
import { openWatch, type WatchContext } from './watch.ts'
import {
  createObject,
  type DeleteRequest,
  deleteObject,
  keyOf,
  type Target,
  updateObject,
  type WriteContext,
} from './writes.ts'

type CollectionRoute = Extract<Route, { to: 'collection' }>
type ObjectRoute = Extract<Route, { to: 'object' }>

/** Answers requests for objects and collections: reads the request, calls what does the work, wraps what came out. */
export class Handlers {
  readonly #context: WriteContext
  readonly #watch: WatchContext

  constructor(context: WriteContext, watch: WatchContext) {
    this.#context = context
    this.#watch = watch
  }

  /** @throws Refusal */
  answer(route: Exclude<Route, { to: 'elsewhere' }>, request: ApiRequest, signal: AbortSignal): ApiResponse {
    switch (route.to) {
      case 'nothing':
        throw noSuchPath()
      case 'collection':
        return this.#collection(route, request, signal)
      case 'object':
        return this.#object(route, request)
    }
  }

  #collection(route: CollectionRoute, request: ApiRequest, signal: AbortSignal): ApiResponse {
    const { kind, namespace } = route
    switch (request.method) {
      case 'GET': {
        const options = parseListOptions(request.query, kind)
        if (!options.watch) return answered(200, listObjects(this.#context.store, kind, namespace, options))
        return { status: 200, headers: json, stream: openWatch(this.#watch, kind, namespace, options, signal) }
      }
      case 'POST':
        if (kind.resource.namespaced && namespace === undefined) throw methodNotAllowed()
        return answered(
          201,
          createObject(this.#context, kind, namespace, readDraft(kind, request.body), writeOptions(request, 'Update')),
        )
      case 'DELETE':
        return this.#deleteCollection(route, request)
      default:
        throw methodNotAllowed()
    }
  }

  #object(route: ObjectRoute, request: ApiRequest): ApiResponse {
    switch (request.method) {
      case 'GET':
        return answered(200, this.#get(route, request))
      case 'PUT':
        return this.#update(route, request)
      case 'PATCH':
        return this.#patch(route, request)
      case 'DELETE':
        if (route.subresource !== undefined) throw methodNotAllowed()
        return this.#delete(route, request)
      default:
        throw methodNotAllowed()
    }
  }

  #get(route: ObjectRoute, request: ApiRequest): StoredObject {
    const { store } = this.#context
    const wanted = parameter(request.query, 'resourceVersion') ?? '0'
    if (Number(wanted) > store.revision) throw resourceVersionTooLarge(wanted, store.revision)
    const live = this.#live(route)
    if (live === undefined) throw notFound(route.kind.resource, route.name)
    return live
  }

  #update(route: ObjectRoute, request: ApiRequest): ApiResponse {
    const { kind, namespace, name } = route
    const draft = readDraft(kind, request.body)
    const options = writeOptions(request, 'Update')
    if (draft.metadata?.name === undefined) throw nameless(name)
    if (kind.createOnUpdate && route.subresource === undefined && this.#live(route) === undefined) {
      const { resourceVersion: _version, ...metadata } = draft.metadata
      if (metadata.uid !== undefined) throw uidConflict(kind.resource, name, metadata.uid, '')
      if (metadata.name !== name) {
        throw badRequest(`the name of the object (${metadata.name}) does not match the name on the URL (${name})`)
      }
      return answered(201, createObject(this.#context, kind, namespace, { ...draft, metadata }, options))
    }
    return answered(
      200,
      updateObject(this.#context, route, () => ({ draft }), { ...options, guarded: true }),
    )
  }

  #patch(route: ObjectRoute, request: ApiRequest): ApiResponse {
    const { kind } = route
    const type = patchTypeOf(request.headers['content-type'] ?? '')
    if (type === 'apply') return this.#apply(route, request)
    const change = (live: StoredObject) => {
      const draft = readDraft(kind, patched(type, live, request.body))
      if (draft.metadata?.name === undefined) throw nameless(route.name)
      // A version that the patch does not name is the live object's own: no guard.
      return { draft }
    }
    return answered(200, updateObject(this.#context, route, change, writeOptions(request, 'Update')))
  }

  #apply(route: ObjectRoute, request: ApiRequest): ApiResponse {
    const { kind, namespace, name, subresource } = route
    const options = writeOptions(request, 'Apply')
    const manager = parameter(request.query, 'fieldManager')
    if (!manager) throw fieldManagerRequired()
    const body = request.body as { readonly apiVersion?: string; readonly kind?: string } | undefined
    if (body?.apiVersion === undefined || body.kind !== kind.resource.kind) {
      throw badRequest(`invalid object type: ${groupVersionKind(body?.apiVersion ?? '', body?.kind ?? '')}`)
    }
    const wanted = readBody(kind, body)
    if (wanted.metadata?.managedFields !== undefined) throw badRequest('metadata.managedFields must be nil')
    if (this.#live(route) === undefined) {
      if (subresource !== undefined) throw notFound(kind.resource, name)
      const draft = readDraft(kind, {
        ...wanted,
        metadata: { ...wanted.metadata, name: wanted.metadata?.name ?? name },
      })
      if (draft.metadata?.name !== name) {
        throw badRequest(
          `the name of the object (${draft.metadata?.name}) does not match the name on the URL (${name})`,
        )
      }
      const managers = ownedOnApply(kind, wanted, options.manager, this.#context.clock)
      return answered(201, createObject(this.#context, kind, namespace, draft, { ...options, managers }))
    }
    const force = flag(request.query, 'force') ?? false
    const { clock } = this.#context
    const change = (live: StoredObject) => {
      const { draft, managers } = applyTo(kind, live, wanted, { manager: options.manager, subresource, force, clock })
      return { draft: readDraft(kind, draft), ...(managers === undefined ? {} : { managers }) }
    }
    return answered(200, updateObject(this.#context, route, change, options))
  }

  #delete(route: ObjectRoute, request: ApiRequest): ApiResponse {
    const { kind, name } = route
    const { object, gone } = deleteObject(this.#context, route, deleteRequest(request))
    if (!gone || kind.answersDeleted === true) return answered(200, object)
    return answered(200, successStatus(kind.resource, name, object.metadata.uid))
  }

  #deleteCollection({ kind, namespace }: CollectionRoute, request: ApiRequest): ApiResponse {
    if (kind.resource.namespaced ? namespace === undefined : kind === this.#context.namespaceKind)
      throw methodNotAllowed()
    const list = listObjects(this.#context.store, kind, namespace, parseListOptions(request.query, kind))
    for (const { metadata } of (list as { readonly items: readonly StoredObject[] }).items) {
      deleteObject(this.#context, { kind, namespace, name: metadata.name }, deleteRequest(request))
    }
    return answered(200, list)
  }

  #live({ kind, namespace, name }: Omit<Target, 'subresource'>): StoredObject | undefined {
    return this.#context.store.collection(kind.resource.plural).get(keyOf(namespace, name))
  }
}

const json = { 'content-type': 'application/json' }

function answered(status: number, body: object): ApiResponse {
  return { status, headers: json, body }
}

function writeOptions(request: ApiRequest, operation: Manager['operation']): { manager: Manager; dryRun: boolean } {
  const agent = request.headers['user-agent']?.split('/')[0]
  const name = parameter(request.query, 'fieldManager') || agent || 'unknown'
  return { manager: { name, operation }, dryRun: parameter(request.query, 'dryRun') === 'All' }
}

/** Delete options come as the body, as parameters, or not at all. */
function deleteRequest(request: ApiRequest): DeleteRequest {
  const body = (request.body ?? {}) as {
    readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string }
    readonly gracePeriodSeconds?: number
    readonly propagationPolicy?: string
    readonly dryRun?: readonly string[]
  }
  if (typeof body !== 'object' || Array.isArray(body)) throw badRequest('the body must be DeleteOptions')
  const grace = body.gracePeriodSeconds ?? parameter(request.query, 'gracePeriodSeconds')
  if (grace !== undefined && !/^\d+$/.test(String(grace))) throw badRequest('gracePeriodSeconds must be a whole number')
  const policy = body.propagationPolicy ?? parameter(request.query, 'propagationPolicy')
  return {
    uid: body.preconditions?.uid,
    resourceVersion: body.preconditions?.resourceVersion,
    gracePeriodSeconds: grace === undefined ? undefined : Number(grace),
    finalizer: policy === 'Foreground' ? 'foregroundDeletion' : policy === 'Orphan' ? 'orphan' : undefined,
    dryRun: body.dryRun?.includes('All') === true || parameter(request.query, 'dryRun') === 'All',
  }
}

function nameless(name: string): Error {
  return badRequest(`the name of the object (${name} based on URL) was undeterminable: name must be provided`)
}

function fieldManagerRequired(): Error {
  const cause = {
    reason: 'FieldValueRequired',
    message: 'Required value: is required for apply patch',
    field: 'fieldManager',
  }
  return invalid({ kind: 'PatchOptions', group: 'meta.k8s.io' }, '', [cause])
}

/** The target of a request. */
type Route =
  | { readonly to: 'collection'; readonly kind: Kind; readonly namespace: string | undefined }
  | {
      readonly to: 'object'
      readonly kind: Kind
      readonly namespace: string | undefined
      readonly name: string
      readonly subresource: 'status' | undefined
    }
  /** Below a served group version, but nothing exists there. */
  | { readonly to: 'nothing' }
  /** Not below a served group version: discovery, health, or an unknown path. */
  | { readonly to: 'elsewhere' }

/** Finds the kinds by their paths. */
export class Routes {
  readonly #kinds = new Map<string, ReadonlyMap<string, Kind>>()

  constructor(kinds: readonly Kind[]) {
    for (const kind of kinds) {
      const { group, version, plural } = kind.resource
      const root = group === '' ? `api/${version}` : `apis/${group}/${version}`
      this.#kinds.set(root, new Map([...(this.#kinds.get(root) ?? []), [plural, kind]]))
    }
  }

  /** The same few paths are asked for again and again. */
  readonly find = remembering((path) => this.#find(path), 256)

  #find(path: ApiRequest['path']): Route {
    const parts = path.split('/')
    // The part before the leading slash is empty.
    const rootLength = parts[1] === 'api' ? 3 : 4
    if (parts.length <= rootLength) return { to: 'elsewhere' }
    const plurals = this.#kinds.get(parts.slice(1, rootLength).join('/'))
    if (plurals === undefined) return { to: 'elsewhere' }
    const rest = parts.slice(rootLength).map(decoded)
    if (rest.some((part) => part === undefined || part === '')) return { to: 'nothing' }
    return findBelow(plurals, rest as string[])
  }
}

function findBelow(plurals: ReadonlyMap<string, Kind>, parts: readonly string[]): Route {
  const inNamespace = parts[0] === 'namespaces' && parts.length > 2 && plurals.has(parts[2] as string)
  const namespace = inNamespace ? parts[1] : undefined
  const [plural = '', name, subresource, ...more] = inNamespace ? parts.slice(2) : parts
  const kind = plurals.get(plural)
  if (kind === undefined || more.length > 0) return { to: 'nothing' }
  if (inNamespace && !kind.resource.namespaced) return { to: 'nothing' }
  if (name === undefined) return { to: 'collection', kind, namespace }
  if (kind.resource.namespaced && namespace === undefined) return { to: 'nothing' }
  if (subresource === undefined) return { to: 'object', kind, namespace, name, subresource: undefined }
  if (subresource === 'status' && kind.hasStatus) return { to: 'object', kind, namespace, name, subresource }
  return { to: 'nothing' }
}

/** Undefined for broken percent-encoding. */
function decoded(part: string): string | undefined {
  if (!part.includes('%')) return part
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}
