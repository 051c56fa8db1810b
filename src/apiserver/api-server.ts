import type { ApiRequest, ApiResponse } from '../kube/transport.ts'
import { type PortRange, parsePortRange } from '../net/port-range.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { discoveryDocuments } from './discovery.ts'
import { Handlers } from './handlers.ts'
import { Health } from './health.ts'
import { NamespaceContents } from './namespace-contents.ts'
import { Refusal } from './refusal.ts'
import { Kinds } from './resources/kinds.ts'
import { Routes } from './routes.ts'
import { Store } from './store.ts'

/** What an embedded API server is made of. */
export interface ApiServerOptions {
  readonly clock: Clock
  readonly random: Random
  /**
   * The IP families that Services may have, the default one first. Addresses come from ServiceCIDRs.
   * @default the families of the ServiceCIDRs that are there, IPv4 first
   */
  readonly serviceIpFamilies?: readonly ('IPv4' | 'IPv6')[]
  /** @default 30000-32767 */
  readonly serviceNodePortRange?: PortRange
  /**
   * Who gives Services their ClusterIPs and NodePorts. `own`: this server, when it stores a Service. `none`: nobody; Services keep what they
   * are given, and IPAddresses are neither made nor deleted, for tests of what allocates from outside.
   * @default 'own'
   */
  readonly serviceAllocators?: 'own' | 'none'
  /**
   * At least this many changes of each kind are kept for watches and pages that go back.
   * @default 1000
   */
  readonly historyLimit?: number
  /**
   * A watcher that lets this many events pile up is disconnected.
   * @default 10000
   */
  readonly watchBufferLimit?: number
}

/** A Kubernetes API server in this process, with the kinds that this program keeps, reads or repairs. */
export interface ApiServer {
  /**
   * Answers one request. Everything that the server itself refuses is an answer; a malformed request too. State changes before the
   * promise is returned, so that requests take effect in the order of the calls.
   * Rejects only with the reason of an aborted `signal`, which also ends a watch.
   */
  handle(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse>
  /** What /readyz says. All checks are ok at first. */
  readonly health: Health
  /** The revision of the newest write: what a list answers as its resourceVersion. */
  readonly revision: number
  /** Forgets the history up to now: watches and pages that go further back get 410, as after etcd's compaction. */
  compact(): void
}

/** Makes an empty server: no namespace, no ServiceCIDR, like a kube-apiserver that nobody bootstraps. */
export function createApiServer(options: ApiServerOptions): ApiServer {
  const { clock, random } = options
  const store = new Store(options.historyLimit ?? 1000)
  const nodePortRange = options.serviceNodePortRange ?? parsePortRange('30000-32767')
  const allocating = options.serviceAllocators !== 'none'
  const kinds = new Kinds({ store, clock, random, nodePortRange, families: options.serviceIpFamilies, allocating })
  const watch = { store, clock, random, bufferLimit: options.watchBufferLimit ?? 10_000 }
  const handlers = new Handlers(kinds.context, watch)
  const routes = new Routes(kinds.all)
  const documents = discoveryDocuments(kinds.all)
  const health = new Health(['ping', 'etcd', 'informer-sync', 'shutdown'])
  new NamespaceContents(kinds.context, kinds.all)

  function answer(request: ApiRequest, signal: AbortSignal): ApiResponse {
    const { method, path, query } = request
    const route = routes.find(path)
    if (route.to !== 'elsewhere') return handlers.answer(route, request, signal)
    if (method === 'GET' && (path === '/readyz' || path === '/livez' || path === '/healthz'))
      return health.answer(path, query)
    const document = method === 'GET' ? documents.get(path) : undefined
    return document === undefined
      ? { status: 404, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: '404 page not found\n' }
      : { status: 200, headers: json, body: document }
  }

  return {
    health,
    get revision() {
      return store.revision
    },
    compact: () => store.compact(store.revision),
    handle(request, signal) {
      if (signal.aborted) return Promise.reject(signal.reason)
      try {
        return Promise.resolve(answer(request, signal))
      } catch (error) {
        if (!(error instanceof Refusal)) return Promise.reject(error)
        return Promise.resolve({ status: error.httpStatus, headers: json, body: error.body })
      }
    },
  }
}

const json = { 'content-type': 'application/json' }
