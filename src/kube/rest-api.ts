import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type {
  CallOptions,
  DeleteOptions,
  KubeApi,
  ListQuery,
  ObjectRef,
  Patch,
  WatchEvent,
  WatchQuery,
  WriteOptions,
} from './api.ts'
import { isKubeError, KubeError } from './errors.ts'
import { type KubeList, type KubeObject, pathOf, type Resource } from './resources.ts'
import {
  asList,
  asObject,
  asWatchEvent,
  badResponse,
  type CallName,
  defaultRetryPolicy,
  named,
  planRetry,
  type RestMetrics,
  type RetryPolicy,
  refusal,
  restMetrics,
  warnOnce,
} from './rest-answer.ts'
import { type ApiRequest, type ApiResponse, answerLimits, type Transport } from './transport.ts'

export interface RestKubeApiOptions {
  readonly transport: Transport
  readonly clock: Clock
  readonly random: Random
  /** The field manager that owns the written fields. @default 'apiserver-bootstrap' */
  readonly fieldManager?: string | undefined
  readonly retry?: Partial<RetryPolicy> | undefined
  /** Logs each warning of the server once, and each switch from protobuf to JSON. @default none */
  readonly logger?: Logger | undefined
  readonly metrics?: Metrics | undefined
}

/** How long each attempt of a call on one object, or to start a watch, may take, in milliseconds. */
const TIMEOUT_MS = 10_000
/**
 * When a request that `lingers` is cancelled, in milliseconds: an admission webhook may take 30 s, and the default is
 * the same 10 s as {@link TIMEOUT_MS}.
 */
const LINGERING_MS = 35_000
/** The next request of a caller that was rejected after {@link TIMEOUT_MS} uses a new connection. */
const RECONNECT_MS = TIMEOUT_MS - 100
/** How long each attempt of a list may take, in milliseconds: the server's own limit. */
const LIST_TIMEOUT_MS = 60_000

interface Call extends ApiRequest {
  readonly name: CallName
  readonly urgent?: boolean | undefined
  /** Whether the caller has been rejected already, so that the request must not be repeated. */
  readonly isOver?: (() => boolean) | undefined
}

const waiting = new KubeError('Timeout', `no answer within ${TIMEOUT_MS} ms; the server may still carry it out`)

type Target = Pick<Call, 'name' | 'path'>

/**
 * A KubeApi over any Transport: HTTP, or the in-process API server. It has no connection and no cache of its own, so
 * several KubeApis may share one transport. The creator of the transport closes it.
 */
export function restKubeApi(options: RestKubeApiOptions): KubeApi {
  return new RestKubeApi(options)
}

class RestKubeApi implements KubeApi {
  readonly #options: RestKubeApiOptions
  readonly #fieldManager: string
  readonly #retry: RetryPolicy
  readonly #metrics: RestMetrics | undefined
  readonly #warn: (header: string | undefined) => void
  /** The paths of resources that are read as JSON, because a server or a proxy refused or damaged their protobuf. */
  readonly #jsonOnly = new Set<string>()

  constructor(options: RestKubeApiOptions) {
    this.#options = options
    this.#fieldManager = options.fieldManager ?? 'apiserver-bootstrap'
    this.#retry = { ...defaultRetryPolicy, ...options.retry }
    this.#metrics = options.metrics === undefined ? undefined : restMetrics(options.metrics)
    this.#warn = warnOnce(options.logger ?? silentLogger)
  }

  async get<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, options: CallOptions = {}): Promise<T> {
    const call = this.#call('GET', onObject('get', resource, ref))
    return asObject(call.name, resource, await this.#unary(call, options))
  }

  async list<T extends KubeObject>(resource: Resource<T>, query: ListQuery & CallOptions = {}): Promise<KubeList<T>> {
    return this.#inProtobuf(resource, query, async (format) => {
      const call = this.#call('GET', targetOf('list', resource, query), {
        query: queryOf(query),
        timeoutMs: LIST_TIMEOUT_MS,
        ...(query.dropsManagedFields && { dropsManagedFields: true }),
        maxBytes: query.limit === undefined ? answerLimits.list : answerLimits.page,
        ...format,
      })
      return asList(call.name, resource, await this.#unary(call, query))
    })
  }

  async create<T extends KubeObject>(resource: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    const { namespace, name } = object.metadata ?? {}
    if (resource.namespaced) requireSegment('create', resource, 'namespace', namespace)
    const target = { name: callName('create', resource, { namespace, name }), path: pathOf(resource, { namespace }) }
    return this.#write('POST', target, resource, options, { body: object })
  }

  async update<T extends KubeObject>(resource: Resource<T>, object: T, options: WriteOptions = {}): Promise<T> {
    const target = onObject('update', resource, object.metadata ?? {}, options.subresource)
    return this.#write('PUT', target, resource, options, { body: object })
  }

  async patch<T extends KubeObject>(
    resource: Resource<T>,
    ref: ObjectRef,
    patch: Patch,
    options: WriteOptions = {},
  ): Promise<T> {
    const verb = patch.type === 'apply' ? 'apply' : 'patch'
    return this.#write('PATCH', onObject(verb, resource, ref, options.subresource), resource, options, {
      body: patch.body,
      contentType: patchContentTypes[patch.type],
      query: patch.type === 'apply' && patch.force === true ? [['force', 'true']] : [],
    })
  }

  async delete(resource: Resource<KubeObject>, ref: ObjectRef, options: DeleteOptions = {}): Promise<void> {
    const { uid, resourceVersion } = options
    const body =
      uid === undefined && resourceVersion === undefined
        ? undefined
        : { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } }
    const call = this.#call('DELETE', onObject('delete', resource, ref), {
      ...(body === undefined ? {} : { body, headers: { ...acceptJson, 'content-type': 'application/json' } }),
    })
    await this.#unary(call, options)
  }

  async *watch<T extends KubeObject>(
    resource: Resource<T>,
    query: WatchQuery & { readonly signal: AbortSignal },
  ): AsyncGenerator<WatchEvent<T>, void, undefined> {
    const { signal } = query
    const target = targetOf('watch', resource, query)
    const { name } = target
    let response: ApiResponse
    try {
      response = await this.#inProtobuf(resource, query, (format) => {
        const more = {
          query: [['watch', 'true'], ...queryOf(query)],
          stream: true,
          maxBytes: answerLimits.event,
        } as const
        return this.#exchange(this.#call('GET', target, { ...more, ...format }), signal)
      })
    } catch (error) {
      if (signal.aborted) return
      throw error
    }
    if (!('stream' in response)) throw badResponse(name, 'the answer is not a stream')
    try {
      query.onOpen?.()
      for await (const frame of response.stream) {
        if (signal.aborted) return
        yield asWatchEvent(resource, frame)
      }
    } catch (error) {
      if (signal.aborted) return
      if (query.protobuf !== undefined && refusesProtobuf(error)) this.#giveUpProtobuf(resource, error)
      throw named(name, error)
    }
  }

  /**
   * Makes a call, which accepts protobuf if the query has a reader for it. If the server refuses protobuf or sends
   * invalid protobuf, repeats the call with JSON, and uses JSON for the resource from then on.
   */
  async #inProtobuf<R>(
    resource: Resource<KubeObject>,
    { protobuf }: Pick<ListQuery, 'protobuf'>,
    make: (format: Partial<ApiRequest>) => Promise<R>,
  ): Promise<R> {
    const key = pathOf(resource)
    if (protobuf === undefined || this.#jsonOnly.has(key)) return make({})
    try {
      return await make({ protobuf, headers: acceptProtobuf })
    } catch (error) {
      if (!refusesProtobuf(error)) throw error
      this.#giveUpProtobuf(resource, error)
      return make({})
    }
  }

  #giveUpProtobuf(resource: Resource<KubeObject>, error: unknown): void {
    this.#jsonOnly.add(pathOf(resource))
    const fields = { resource: resource.plural, error }
    this.#options.logger?.info(
      fields,
      'switched to JSON for a resource: the server refused protobuf, or its protobuf was invalid',
    )
  }

  #call(method: ApiRequest['method'], target: Target, more: Partial<ApiRequest> = {}): Call {
    return { method, ...target, query: [], headers: acceptJson, timeoutMs: TIMEOUT_MS, ...more }
  }

  async #write<T extends KubeObject>(
    method: 'POST' | 'PUT' | 'PATCH',
    target: Target,
    resource: Resource<T>,
    options: WriteOptions,
    content: { body: unknown; contentType?: string; query?: readonly (readonly [string, string])[] },
  ): Promise<T> {
    const call = this.#call(method, target, {
      query: [
        ['fieldManager', options.fieldManager ?? this.#fieldManager],
        ...(options.dryRun === true ? [['dryRun', 'All'] as const] : []),
        ...(content.query ?? []),
      ],
      headers: { ...acceptJson, 'content-type': content.contentType ?? 'application/json' },
      body: content.body,
    })
    return asObject(call.name, resource, await this.#unary(call, options))
  }

  async #unary(call: Call, { signal = new AbortController().signal, urgent, lingers }: CallOptions): Promise<unknown> {
    const response = await (lingers ? this.#linger(call, signal) : this.#exchange({ ...call, urgent }, signal))
    if ('stream' in response) throw badResponse(call.name, 'the answer is a stream')
    return response.body
  }

  /** As {@link CallOptions.lingers} demands. */
  async #linger(call: Call, signal: AbortSignal): Promise<ApiResponse> {
    const { promise, reject } = Promise.withResolvers<never>()
    let isOver = false
    const limits = { timeoutMs: LINGERING_MS, reconnectMs: RECONNECT_MS, isOver: () => isOver }
    const answer = this.#exchange({ ...call, ...limits }, signal)
    const cancel = this.#options.clock.schedule(TIMEOUT_MS, () => {
      isOver = true
      reject(named(call.name, waiting))
    })
    return Promise.race([answer, promise]).finally(cancel)
  }

  /**
   * Sends the call. Repeats it if {@link planRetry} allows that and the call is not urgent. Rejects if the last answer
   * is not 2xx.
   */
  async #exchange(call: Call, signal: AbortSignal): Promise<ApiResponse> {
    const { clock, random } = this.#options
    for (let attempts = 1; ; attempts++) {
      const response = await this.#attempt(call, signal)
      this.#warn(response.headers.warning)
      if (response.status >= 200 && response.status < 300) return response
      if ('stream' in response) throw badResponse(call.name, `a stream with HTTP status ${response.status}`)
      const waitMs = call.urgent || call.isOver?.() ? undefined : planRetry(response, attempts, this.#retry, random)
      if (waitMs === undefined) throw refusal(call.name, response)
      this.#metrics?.retries.add({ code: String(response.status), verb: call.method })
      await sleep(clock, waitMs, signal)
      if (call.isOver?.()) throw refusal(call.name, response)
    }
  }

  async #attempt(call: Call, signal: AbortSignal): Promise<ApiResponse> {
    const { clock, transport } = this.#options
    signal.throwIfAborted()
    const sentMs = clock.monotonicMs()
    let code = '<error>'
    try {
      const { name: _, urgent: __, isOver: ___, ...request } = call
      const response = await transport.send(request, signal)
      code = String(response.status)
      return response
    } catch (error) {
      throw signal.aborted ? signal.reason : named(call.name, error)
    } finally {
      this.#metrics?.requests.add({ code, method: call.method })
      this.#metrics?.duration.observe({ verb: call.method }, (clock.monotonicMs() - sentMs) / 1000)
    }
  }
}

/** A ProtobufError is recognized by its name, because importing its class would load the tables of all messages. */
function refusesProtobuf(error: unknown): boolean {
  if (!isKubeError(error)) return false
  const { httpStatus, cause } = error
  return httpStatus === 406 || httpStatus === 415 || (cause instanceof Error && rootOf(cause).name === 'ProtobufError')
}

function rootOf(error: Error): Error {
  return error.cause instanceof Error ? rootOf(error.cause) : error
}

const acceptJson = { accept: 'application/json' }
const acceptProtobuf = { accept: 'application/vnd.kubernetes.protobuf, application/json' }

const patchContentTypes = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  apply: 'application/apply-patch+yaml',
} as const satisfies Record<Patch['type'], string>

const queryParameters = [
  'labelSelector',
  'fieldSelector',
  'resourceVersion',
  'limit',
  'continue',
  'allowWatchBookmarks',
  'timeoutSeconds',
] as const satisfies readonly (keyof ListQuery | keyof WatchQuery)[]

function queryOf(query: ListQuery & WatchQuery): (readonly [string, string])[] {
  const pairs: (readonly [string, string])[] = []
  for (const name of queryParameters) {
    const value = query[name]
    if (value !== undefined && value !== '') pairs.push([name, String(value)])
  }
  // The server accepts sendInitialEvents only together with this match.
  const match = query.sendInitialEvents === true ? 'NotOlderThan' : query.resourceVersionMatch
  if (query.sendInitialEvents === true) pairs.push(['sendInitialEvents', 'true'])
  if (match !== undefined) pairs.push(['resourceVersionMatch', match])
  return pairs
}

type PartialRef = { readonly namespace?: string | undefined; readonly name?: string | undefined }

function targetOf(
  verb: string,
  resource: Resource<KubeObject>,
  ref: PartialRef & { readonly subresource?: 'status' | undefined },
): Target {
  return { name: callName(verb, resource, ref, ref.subresource), path: pathOf(resource, ref) }
}

function callName(verb: string, resource: Resource<KubeObject>, ref: PartialRef, subresource?: string): CallName {
  const what = subresource === undefined ? resource.plural : `${resource.plural}/${subresource}`
  const which = [ref.namespace, ref.name].filter((part) => part !== undefined).join('/')
  return which === '' ? `${verb} ${what}` : `${verb} ${what} ${which}`
}

/**
 * The target of a call on exactly one object. Throws a BadRequest if the namespace or name is missing or is no single
 * path segment, because the path would then address another object or a whole collection.
 */
function onObject(verb: string, resource: Resource<KubeObject>, ref: PartialRef, subresource?: 'status'): Target {
  if (resource.namespaced) requireSegment(verb, resource, 'namespace', ref.namespace)
  requireSegment(verb, resource, 'name', ref.name)
  return targetOf(verb, resource, { namespace: ref.namespace, name: ref.name, subresource })
}

function requireSegment(verb: string, resource: Resource<KubeObject>, field: string, value: string | undefined): void {
  if (value !== undefined && value !== '' && value !== '.' && value !== '..' && !/[/%]/.test(value)) return
  const problem =
    value === undefined || value === '' ? `has no ${field}` : `has an invalid ${field} ${JSON.stringify(value)}`
  throw new KubeError('BadRequest', `${verb} ${resource.plural}: the object ${problem}`)
}
