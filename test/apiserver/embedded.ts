import {
  type ApiServer,
  type ApiServerOptions,
  createApiServer,
  inProcessTransport,
} from '../../src/apiserver/api-server.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { namespaces, serviceCidrs } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../src/kube/transport.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'

/** An answer as tests check it. */
export interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: bodies are JSON of many kinds
  readonly body: any
}

/** An embedded server in simulated time. */
export class Embedded {
  readonly time = new VirtualClock()
  readonly clock = this.time.view()
  readonly server: ApiServer
  readonly transport: Transport
  readonly api: KubeApi

  constructor(options: Partial<ApiServerOptions> = {}) {
    this.server = createApiServer({ clock: this.clock, random: seededRandom(1, 'server'), ...options })
    this.transport = inProcessTransport(this.server)
    const { transport, clock } = this
    this.api = restKubeApi({ transport, clock, random: seededRandom(1, 'client') })
  }

  /** With the namespace `default` and, unless `cidrs` is empty, a ServiceCIDR. */
  static async started(
    cidrs: readonly string[] = ['10.96.0.0/16'],
    options: Partial<ApiServerOptions> = {},
  ): Promise<Embedded> {
    const embedded = new Embedded(options)
    await embedded.api.create(namespaces, { metadata: { name: 'default' } })
    if (cidrs.length > 0) await embedded.api.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs } })
    return embedded
  }

  /** Sends a request as it would arrive over HTTP. `path` includes the query. */
  async send(
    method: ApiRequest['method'],
    path: string,
    body?: unknown,
    contentType = 'application/json',
  ): Promise<Answer> {
    const url = new URL(path, 'http://embedded')
    const headers = { 'content-type': contentType, 'user-agent': 'tester/1.0' }
    const request = { method, path: url.pathname, query: [...url.searchParams], headers, body }
    const { signal } = new AbortController()
    const response = await this.server.handle(request, signal)
    return { status: response.status, body: 'body' in response ? response.body : response.stream }
  }

  /** Opens a watch, by default of Endpoints, and returns its events one by one. */
  async watch(
    query: string,
    signal: AbortSignal = new AbortController().signal,
    path = '/api/v1/namespaces/default/endpoints',
  ): Promise<AsyncIterator<WatchedEvent>> {
    const parameters = [['watch', 'true'], ...new URLSearchParams(query)] as [string, string][]
    const response = await this.server.handle(
      { method: 'GET', path, query: parameters, headers: {}, stream: true },
      signal,
    )
    if (!('stream' in response)) throw new Error(`no watch: ${JSON.stringify(response.body)}`)
    return response.stream[Symbol.asyncIterator]() as AsyncIterator<WatchedEvent>
  }
}

export interface WatchedEvent {
  readonly type: string
  // biome-ignore lint/suspicious/noExplicitAny: bodies are JSON of many kinds
  readonly object: any
}

/** The events that can be read now, without waiting, as `TYPE name`. The reader must not be used afterwards. */
export async function drain(events: AsyncIterator<WatchedEvent>): Promise<readonly string[]> {
  const received: string[] = []
  for (;;) {
    const next = await Promise.race([events.next(), turn()])
    if (next === undefined) return received
    if (next.done === true) return [...received, 'END']
    const { type, object } = next.value
    received.push(
      type === 'ERROR' ? `ERROR ${object.code}` : `${type} ${object.metadata.name ?? object.metadata.resourceVersion}`,
    )
  }
}

function turn(): Promise<undefined> {
  return new Promise((resolve) => setImmediate(() => resolve(undefined)))
}
