import { KubeError } from '../kube/errors.ts'
import { httpReadiness } from '../kube/http-readiness.ts'
import { ALLOCATORS_CHECK, type Readiness } from '../kube/readiness.ts'
import { apiVersionOf, type KubeObject, type Resource } from '../kube/resources.ts'
import type { ApiRequest, ApiResponse, Transport } from '../kube/transport.ts'
import { type PortRange, parsePortRange } from '../net/host-port.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { aggregatedDiscovery, discoveryDocuments, Health, text } from './discovery.ts'
import { answered, Handlers } from './handlers.ts'
import type { Kind } from './kind.ts'
import { OPENAPI_V2_PATH, openApiDocuments, openApiV2 } from './open-api.ts'
import { answerOf, methodNotAllowed, Refusal } from './refusal.ts'
import { Kinds } from './resources/kinds.ts'
import { Routes, withoutTrailingSlash } from './routes.ts'
import { Store } from './store.ts'
import { NamespaceContents } from './writes.ts'

export interface ApiServerOptions {
  readonly clock: Clock
  readonly random: Random
  /**
   * The IP families of the cluster, the default one first. ClusterIPs come from the ServiceCIDRs of these families.
   * @default the families of the ready ServiceCIDRs, IPv4 first; IPv4 if no ServiceCIDR is ready
   */
  readonly serviceIpFamilies?: readonly ('IPv4' | 'IPv6')[]
  /** @default 30000-32767 */
  readonly serviceNodePortRange?: PortRange
  /**
   * What allocates the ClusterIPs and NodePorts of Services. `own`: this server, when it stores a Service. `none`:
   * nothing, for tests of external allocators. Services then have only the values that clients set, and the server
   * creates and deletes no IPAddresses for them.
   * @default 'own'
   */
  readonly serviceAllocators?: 'own' | 'none'
  /**
   * The `fieldValidation` of requests that do not set it. `Warn`, as in kube-apiserver: unknown fields are dropped,
   * with a Warning header. Undefined: unknown fields of built-in kinds are stored, which is faster.
   * @default 'Warn' for `startApiServer`, undefined for `createApiServer`
   */
  readonly fieldValidation?: 'Warn' | undefined
  /**
   * At least this many of the newest changes of each kind are retained, for watches from an older revision and for the
   * next pages of lists; fewer if the changes take more than about 64 MiB.
   * @default 1000
   */
  readonly historyLimit?: number
  /**
   * A watch is ended when more events wait for its reader than this number plus the number of initial events, or when
   * the later events that wait take more than about 64 MiB.
   * @default 10000
   */
  readonly watchBufferLimit?: number
}

/**
 * A Kubernetes API server in this process. It serves the built-in kinds that docs/embedded-api-server.md lists, and the
 * kinds that CustomResourceDefinitions define.
 */
export interface ApiServer {
  /**
   * Answers one request. Even a refused or malformed request resolves to an answer. The state changes before the
   * promise is returned, so requests take effect in the order of the calls. If `signal` is already aborted, rejects
   * with its reason. If the answer is a watch, a later abort of `signal` ends the watch.
   */
  handle(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse>
  /** The resource of a kind; undefined if the kind is not served. */
  resourceOf(apiVersion: string, kind: string): Resource<KubeObject> | undefined
  /** The health of the server, as /readyz reports it. All checks are ok at first. */
  readonly health: Health
  /**
   * The revision of the newest write; 1 before the first write. A list of the present state has this resourceVersion.
   */
  readonly revision: number
  /**
   * Discards the history up to now, as etcd's compaction does. Watches and pages of lists that start at an older
   * revision then get 410.
   */
  compact(): void
}

/** Creates an empty server: no namespace, no ServiceCIDR, like a kube-apiserver before its bootstrap. */
export function createApiServer(options: ApiServerOptions): ApiServer {
  const { clock, random, serviceIpFamilies: families } = options
  const store = new Store(options.historyLimit ?? 1000)
  const context = { store, clock, random, bufferLimit: options.watchBufferLimit ?? 10_000 }
  const nodePortRange = options.serviceNodePortRange ?? parsePortRange('30000-32767')
  const allocating = options.serviceAllocators !== 'none'
  const kinds = new Kinds(context, { nodePortRange, families, allocating, onChange: serveKinds })
  const handlers = new Handlers(context, options.fieldValidation)
  const contents = new NamespaceContents(context)
  let served: readonly Kind[] = []
  let routes = new Routes([])
  let documents: ReadonlyMap<string, object> | undefined
  serveKinds()
  const health = new Health(['ping', 'etcd', 'informer-sync', ...(allocating ? [ALLOCATORS_CHECK] : []), 'shutdown'])

  function serveKinds(): void {
    served = kinds.all
    routes = new Routes(served)
    documents = undefined
    contents.include(served)
  }

  function answer(request: ApiRequest, signal: AbortSignal): ApiResponse {
    const { method, path, query } = request
    const route = routes.find(path)
    if (route.to !== 'elsewhere') return handlers.answer(route, request, signal)
    const reads = method === 'GET' || method === 'HEAD'
    if (reads && (path === '/readyz' || path === '/livez' || path === '/healthz')) return health.answer(path, query)
    if (reads && path === OPENAPI_V2_PATH) return openApiV2(request)
    if (reads && path === '/metrics' && allocating) return { status: 200, headers: metricsText, body: kinds.metrics() }
    const aggregated = method === 'GET' ? aggregatedDiscovery(served, request) : undefined
    if (aggregated !== undefined) return aggregated
    // Makes the documents only when needed, because clients of a simulated server hardly ever request them.
    documents ??= new Map([...discoveryDocuments(served), ...openApiDocuments(served)])
    const document = reads ? documents.get(withoutTrailingSlash(path)) : undefined
    if (document !== undefined && method === 'HEAD' && !path.startsWith('/openapi')) throw methodNotAllowed()
    return document === undefined ? text(404, '404 page not found\n') : answered(200, document)
  }

  return {
    health,
    get revision() {
      return store.revision
    },
    resourceOf: (apiVersion, kind) =>
      served.find(({ resource }) => resource.kind === kind && apiVersionOf(resource) === apiVersion)?.resource,
    compact: () => store.compact(),
    async handle(request, signal) {
      signal.throwIfAborted()
      try {
        return answer(request, signal)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        return answerOf(error)
      }
    },
  }
}

const metricsText = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }

/**
 * Sends requests to an embedded server by function calls. Bodies are not copied: stored objects in answers are frozen,
 * and two answers may share parts. Over a connection they share none.
 */
export function inProcessTransport(server: ApiServer): Transport {
  let closed = false
  return {
    send(request, signal) {
      if (closed) return Promise.reject(new KubeError('Unreachable', 'the transport is closed'))
      return server.handle(request, signal)
    },
    async close() {
      closed = true
    },
  }
}

/** Reads the health of an embedded server. */
export function inProcessReadiness(server: ApiServer): Readiness {
  return httpReadiness({ transport: inProcessTransport(server) })
}
