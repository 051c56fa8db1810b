import { apiVersionOf, isRecord } from '../kube/resources.ts'
import { keyOf } from '../kube/store.ts'
import type { ApiRequest, ApiResponse } from '../kube/transport.ts'
import { decodedByGoType, GoTypeError } from '../protobuf/go-decode.ts'
import { applyTo, ownedOnApply, refuseNull } from './apply.ts'
import type { Draft, Kind, ScalePaths } from './kind.ts'
import { withLastApplied } from './last-applied.ts'
import { listObjects } from './list.ts'
import { formRequested } from './media-types.ts'
import { checkTarget, readBody, readDraft } from './object-meta.ts'
import { partialResponse } from './partial-metadata.ts'
import { patched, patchTypeOf } from './patches.ts'
import { flag, parameter, parseListOptions } from './query.ts'
import {
  badRequest,
  cannotDecode,
  cutText,
  groupVersionKind,
  internalError,
  invalid,
  methodNotAllowed,
  noStrategicPatch,
  noSuchPath,
  notFound,
  notSupported,
  resourceVersionTooLarge,
  successStatus,
  uidConflict,
  uidOfNothing,
  unsupportedMediaType,
} from './refusal.ts'
import { deleteRequest, writeOptions } from './request-options.ts'
import { namespaceKind } from './resources/plain-kinds.ts'
import { scaled, scaleKind, scaleOf, scaleToPatch } from './resources/scale.ts'
import type { Route } from './routes.ts'
import type { StoredObject } from './store.ts'
import { tableResponse } from './table.ts'
import { checkPatchedType, checkTypeOfBody } from './type-meta.ts'
import { applyFaults } from './typed-fields.ts'
import { openWatch, type WatchContext } from './watch.ts'
import { createObject, deleteObject, reviewed, type Target, updateObject } from './writes.ts'

type CollectionRoute = Extract<Route, { to: 'collection' }>
type ObjectRoute = Extract<Route, { to: 'object' }>

/** Makes the refusal of an object from the paths of its unknown fields. */
type RefusalOfUnknown = (unknown: readonly string[]) => Error

export class Handlers {
  readonly #context: WatchContext
  readonly #fieldValidation: 'Warn' | undefined
  /** The warnings about the request that is being answered. */
  #warnings: string[] = []

  constructor(context: WatchContext, fieldValidation: 'Warn' | undefined) {
    this.#context = context
    this.#fieldValidation = fieldValidation
  }

  /** @throws Refusal */
  answer(route: Exclude<Route, { to: 'elsewhere' }>, asked: ApiRequest, signal: AbortSignal): ApiResponse {
    if (route.to === 'nothing') throw noSuchPath()
    // Like upstream, answers HEAD as GET for custom resources only.
    const isHead = asked.method === 'HEAD' && route.kind.isCustom === true
    const request: ApiRequest = isHead ? { ...asked, method: 'GET' } : asked
    this.#warnings = []
    if (route.to === 'object' && route.subresource === 'scale') return this.#scaleInForm(route, request)
    const response = route.to === 'collection' ? this.#collection(route, request, signal) : this.#object(route, request)
    const answer = this.#inForm(route, response, request)
    const isWrite = ['POST', 'PUT', 'PATCH'].includes(request.method)
    return this.#withWarnings(route.kind, answer, isWrite ? (response as { body?: unknown }).body : undefined)
  }

  /**
   * The answer with the warnings that kubectl prints. `written`: the object in the answer to a create, update or patch;
   * undefined for other requests.
   */
  #withWarnings(kind: Kind, answer: ApiResponse, written: unknown): ApiResponse {
    const texts = [...(kind.deprecation === undefined ? [] : [kind.deprecation]), ...this.#warnings]
    if (written !== undefined && kind.warnings !== undefined) texts.push(...kind.warnings(written as StoredObject))
    if (texts.length === 0) return answer
    return { ...answer, headers: { ...answer.headers, warning: warningHeader(texts) } }
  }

  /**
   * Removes the unknown fields of an object, with warnings unless `fieldValidation` is `Ignore`. Unknown fields of a
   * custom resource are only found here; `withDefaults` removes them later. With `Strict`, throws the error of
   * `refusal` if there are unknown fields. If neither the request nor the server sets `fieldValidation`, returns the
   * object unchanged.
   * @throws Refusal 400 for a value of the wrong type
   */
  #known(kind: Kind, object: unknown, { query }: Pick<ApiRequest, 'query'>, refusal: RefusalOfUnknown): unknown {
    const level = parameter(query, 'fieldValidation') || this.#fieldValidation
    if (level === undefined || !isRecord(object)) return object
    const { known, unknown } = kind.withoutUnknown?.(object) ?? decodedAsGo(kind, object)
    if (level === 'Strict' && unknown.length > 0)
      throw refusal(unknown.slice(0, MAX_STRICT_ERRORS).map((path) => cutText(path)))
    if (level !== 'Ignore') {
      this.#warnings.push(...unknown.slice(0, MAX_WARNINGS).map((path) => unknownField(cutText(path))))
    }
    return known
  }

  /**
   * Refuses undeclared fields of an applied object, whatever `fieldValidation` the request sets. If neither the request
   * nor the server sets `fieldValidation`, returns the object unchanged.
   */
  #declared(kind: Kind, object: unknown, { query }: ApiRequest, refusal: RefusalOfUnknown): unknown {
    if (!parameter(query, 'fieldValidation') && this.#fieldValidation === undefined) return object
    return this.#known(kind, object, { query: [['fieldValidation', 'Strict']] }, refusal)
  }

  #draft(kind: Kind, request: ApiRequest): Draft {
    checkTypeOfBody(kind, request.body)
    const refusal: RefusalOfUnknown = (unknown) => cannotDecode(kind.resource, strictError(unknown))
    return readDraft(kind, this.#known(kind, request.body, request, refusal))
  }

  #inForm({ to, kind }: CollectionRoute | ObjectRoute, response: ApiResponse, request: ApiRequest): ApiResponse {
    const form = formRequested(request)
    if (form === undefined) return response
    // Decided by the route, because a single custom resource may have a member `items` too.
    const isList = to === 'collection' && request.method !== 'POST'
    if (form.as === 'Table') return tableResponse(kind, response, form, isList, this.#context.clock)
    return partialResponse(response, form, isList)
  }

  #collection(route: CollectionRoute, request: ApiRequest, signal: AbortSignal): ApiResponse {
    const { kind, namespace } = route
    if (kind.review !== undefined && request.method !== 'POST') throw methodNotAllowed()
    switch (request.method) {
      case 'GET': {
        const options = parseListOptions(request.query, kind)
        if (!options.watch) return answered(200, listObjects(this.#context.store, kind, namespace, options))
        return { status: 200, headers: json, stream: openWatch(this.#context, kind, namespace, options, signal) }
      }
      case 'POST':
        if (kind.resource.namespaced && namespace === undefined) throw methodNotAllowed()
        return answered(201, this.#create(route, request))
      case 'DELETE':
        return this.#deleteCollection(route, request)
      default:
        throw methodNotAllowed()
    }
  }

  #create({ kind, namespace }: CollectionRoute, request: ApiRequest): StoredObject {
    const options = writeOptions(request, 'Update')
    const draft = this.#draft(kind, request)
    if (kind.review !== undefined) return reviewed(this.#context, kind, draft, options)
    return createObject(this.#context, kind, namespace, draft, options)
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

  #scaleInForm(route: ObjectRoute, request: ApiRequest): ApiResponse {
    const answer = this.#inForm({ ...route, kind: scaleKind }, answered(200, this.#scale(route, request)), request)
    return this.#withWarnings(route.kind, answer, undefined)
  }

  #scale(route: ObjectRoute, request: ApiRequest): StoredObject {
    const { kind, name } = route
    const paths = kind.scale as ScalePaths
    const update = (change: (live: StoredObject) => Draft, guarded: boolean): StoredObject => {
      const options = { ...writeOptions(request, 'Update'), guarded }
      const changed = (live: StoredObject) => ({ draft: scaled(paths, live, change(live)) })
      return scaleOf(paths, updateObject(this.#context, route, changed, options))
    }
    switch (request.method) {
      case 'GET':
        return scaleOf(paths, this.#get(route, request))
      case 'PUT':
        return update(() => {
          const draft = this.#draft(scaleKind, request)
          if (draft.metadata?.name === undefined) throw nameless(name)
          return draft
        }, true)
      case 'PATCH': {
        const type = patchTypeOf(request.headers['content-type'] ?? '')
        if (type === 'strategic') throw noStrategicPatch()
        if (type === 'apply') throw unsupportedMediaType()
        const patch = (live: StoredObject): unknown =>
          patched(type, scaleToPatch(paths, live), request.body, scaleKind.schema)
        const refusal: RefusalOfUnknown = (unknown) => badRequest(strictError(unknown))
        return update((live) => readDraft(scaleKind, this.#known(scaleKind, patch(live), request, refusal)), false)
      }
      default:
        throw notSupported(kind.resource, request.method === 'POST' ? 'create' : 'delete')
    }
  }

  #update(route: ObjectRoute, request: ApiRequest): ApiResponse {
    const { kind, namespace, name } = route
    const options = writeOptions(request, 'Update')
    const draft = this.#draft(kind, request)
    if (draft.metadata?.name === undefined) throw nameless(name)
    if (kind.createOnUpdate && route.subresource === undefined && this.#live(route) === undefined) {
      const { resourceVersion: _version, ...metadata } = draft.metadata
      if (metadata.uid !== undefined) throw uidConflict(kind.resource, name, metadata.uid, '')
      checkTarget(draft, namespace, name)
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
    if (type === 'strategic' && kind.isCustom) throw noStrategicPatch()
    const options = writeOptions(request, 'Update')
    const refusal: RefusalOfUnknown = (unknown) => {
      const message = `Invalid value: ${JSON.stringify(cutText(JSON.stringify(request.body)))}: ${strictError(unknown)}`
      // Like upstream, names neither the kind nor the object.
      return invalid({ kind: '', group: '' }, '', [{ reason: 'FieldValueInvalid', message, field: 'patch' }])
    }
    const change = (live: StoredObject) => {
      const whole = patched(type, live, request.body, kind.schema)
      checkPatchedType(kind, whole)
      const draft = readDraft(kind, this.#known(kind, whole, request, refusal))
      if (draft.metadata?.name === undefined) throw nameless(route.name)
      // If the patch names no resourceVersion, the draft has that of the live object, which always matches.
      return { draft }
    }
    return answered(200, updateObject(this.#context, route, change, options))
  }

  #apply(route: ObjectRoute, request: ApiRequest): ApiResponse {
    const { kind, namespace, name, subresource } = route
    const options = writeOptions(request, 'Apply')
    const body = isRecord(request.body) ? request.body : {}
    const apiVersion = textOf(body.apiVersion)
    if (apiVersion === '' || body.kind !== kind.resource.kind) {
      throw badRequest(`invalid object type: ${groupVersionKind(apiVersion, textOf(body.kind))}`)
    }
    const metadata = isRecord(body.metadata) ? body.metadata : {}
    const given = textOf(metadata.namespace)
    const givenName = textOf(metadata.name)
    const type = `${kind.resource.group}/${kind.resource.version}, Kind=${kind.resource.kind}`
    const untyped = (faults: readonly string[]): Error => {
      const list = faults.length === 1 ? faults[0] : `errors:\n  ${faults.join('\n  ')}`
      return internalError(`failed to create typed patch object (${given}/${givenName}; ${type}): ${list}`)
    }
    const undeclared: RefusalOfUnknown = (unknown) =>
      untyped(unknown.map((path) => `.${path}: field not declared in schema`))
    const sent = this.#declared(kind, body, request, undeclared) as Draft
    const wanted = readBody(kind, sent)
    if (wanted.metadata?.managedFields !== undefined) throw badRequest('metadata.managedFields must be nil')
    const faults = applyFaults(wanted, kind.schema)
    if (faults.length > 0) throw untyped(faults)
    const { clock } = this.#context
    if (this.#live(route) === undefined) {
      if (subresource !== undefined) throw notFound(kind.resource, name)
      const { resourceVersion: _version, ...metadata } = wanted.metadata ?? {}
      if (metadata.uid !== undefined) throw uidOfNothing(kind.resource, name, metadata.uid)
      const applied = readDraft(kind, { ...wanted, metadata })
      checkTarget(applied, namespace, name)
      if (applied.metadata?.name === undefined) throw nameless(name)
      refuseNull(kind, name, sent)
      const draft = withLastApplied(applied, sent, options.manager)
      const managers = ownedOnApply(kind, sent, options.manager, clock)
      return answered(201, createObject(this.#context, kind, namespace, draft, { ...options, managers }))
    }
    const force = flag(request.query, 'force') ?? false
    const change = (live: StoredObject) => {
      const write = { manager: options.manager, subresource, force, clock }
      const { draft, managers } = applyTo(kind, live, { wanted, sent }, write)
      checkTarget(wanted, namespace, name)
      if (sent.metadata?.name === '') throw nameless(name)
      return { draft: readDraft(kind, draft), managers }
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
    if (kind.resource.namespaced ? namespace === undefined : kind === namespaceKind) throw methodNotAllowed()
    const list = listObjects(this.#context.store, kind, namespace, parseListOptions(request.query, kind))
    const options = deleteRequest(request)
    for (const { metadata } of (list as { readonly items: readonly StoredObject[] }).items) {
      const target = { kind, namespace, name: metadata.name }
      // The list may be of an older state.
      if (this.#live(target) !== undefined) deleteObject(this.#context, target, options)
    }
    return answered(200, list)
  }

  #live(target: Omit<Target, 'subresource'>): StoredObject | undefined {
    return this.#context.store.objects(target.kind).get(keyOf(target))
  }
}

/** The text; empty for a value of another type, as in upstream's unstructured objects. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function unknownField(path: string): string {
  return `unknown field ${JSON.stringify(path)}`
}

function strictError(unknown: readonly string[]): string {
  return `strict decoding error: ${unknown.map(unknownField).join(', ')}`
}

/** Upstream's decoder collects at most this many errors. */
const MAX_STRICT_ERRORS = 100

/** At most this many unknown fields are named in warnings, to keep the header short. */
const MAX_WARNINGS = 20

const json = { 'content-type': 'application/json' }

export function answered(status: number, body: object): ApiResponse {
  return { status, headers: json, body }
}

/** @throws Refusal 400 */
function decodedAsGo({ resource }: Kind, object: Draft): ReturnType<typeof decodedByGoType> {
  try {
    return decodedByGoType(apiVersionOf(resource), resource.kind, object)
  } catch (error) {
    throw error instanceof GoTypeError ? cannotDecode(resource, error.message) : error
  }
}

/**
 * kube-apiserver's limits, in characters. If all warnings together exceed the first limit, each is cut to the second
 * one, and no warnings follow after those that reach the first limit.
 */
const MAX_WARNINGS_LENGTH = 4096
const MAX_CUT_WARNING_LENGTH = 256

function warningHeader(texts: readonly string[]): string {
  const whole = [...new Set(texts.map((text) => text.replaceAll(/\p{Cc}/gu, ' ')))]
  const isTooLong = whole.reduce((length, text) => length + [...text].length, 0) > MAX_WARNINGS_LENGTH
  return (isTooLong ? cutWarnings(whole) : whole)
    .map((text) => `299 - "${text.replaceAll(/["\\]/g, '\\$&')}"`)
    .join(', ')
}

function cutWarnings(texts: readonly string[]): readonly string[] {
  const sent: string[] = []
  let length = 0
  for (const text of texts) {
    if (length >= MAX_WARNINGS_LENGTH) break
    const characters = [...text].slice(0, MAX_CUT_WARNING_LENGTH)
    length += characters.length
    sent.push(characters.join(''))
  }
  return sent
}

function nameless(name: string): Error {
  return badRequest(`the name of the object (${name} based on URL) was undeterminable: name must be provided`)
}
