import { type ApiServer, createApiServer, inProcessTransport } from '../../src/apiserver/api-server.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { namespaces, serviceCidrs } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Transport } from '../../src/kube/transport.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { formatTime } from '../../src/runtime/time-format.ts'
import { type ClockView, VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { Churn } from '../endpoints-model/churn.ts'
import type { UserApi } from '../endpoints-model/churn-requests.ts'
import type { WorkloadComposition } from './workload-composition.ts'
import { lease, WorkloadProcess } from './workload-process.ts'

/** A cluster in one process: its server, its users, and the processes that manage its Endpoints and EndpointSlices. */
export class WorkloadWorld {
  readonly time = new VirtualClock()
  /** True time. */
  readonly clock: ClockView = this.time.view()
  readonly server: ApiServer
  /** A client of the server without faults. */
  readonly api: KubeApi
  readonly churn: Churn
  readonly processes: readonly WorkloadProcess[]
  /** The steps, and every write of Endpoints and slices, in order. */
  readonly transcript: string[] = []
  /** How often each fault occurred. */
  readonly coverage = new Map<string, number>()
  /** When Endpoints or slices were last written by a controller. */
  writtenAtMs = 0

  constructor(
    seed: number,
    composition: WorkloadComposition,
    /** `historyLimit`: how many changes of a kind the server retains. */
    { historyLimit = 1_000, reusesNames = true, transport = inProcessTransport } = {},
  ) {
    const { time, clock } = this
    this.server = createApiServer({ clock, random: seededRandom(seed, 'store'), historyLimit })
    const store = transport(this.server)
    this.api = restKubeApi({ transport: store, clock, random: seededRandom(seed, 'user') })
    this.churn = new Churn({
      ...composition,
      api: userOf(this.server),
      random: seededRandom(seed, 'churn'),
      namespace: 'shop',
      reusesNames,
      now: () => formatTime(clock.wallMs()),
      note: (text) => this.note(text),
    })
    this.processes = Array.from({ length: composition.processes }, (_, index) => {
      const storeOf = (writer: string): Transport => this.#noting(store, writer)
      return new WorkloadProcess({ name: `process-${index + 1}`, seed, time, composition, storeOf })
    })
  }

  async prepare({ isDualStack }: WorkloadComposition): Promise<void> {
    for (const name of ['shop', lease.namespace]) await this.api.create(namespaces, { metadata: { name } })
    const cidrs = ['10.96.0.0/16', ...(isDualStack ? ['fd00:96::/112'] : [])]
    await this.api.create(serviceCidrs, { metadata: { name: 'kubernetes' }, spec: { cidrs } })
    await this.churn.prepare()
  }

  note(text: string): void {
    this.transcript.push(`${Math.round(this.time.nowMs)} ${text}`)
  }

  #noting(inner: Transport, writer: string): Transport {
    return {
      send: async (request, signal) => {
        const response = await inner.send(request, signal)
        if (request.method === 'GET' || !/\/(endpoints|endpointslices)\b/.test(request.path)) return response
        this.note(`${writer} ${request.method} ${request.path} ${response.status}`)
        if (response.status < 300) this.writtenAtMs = this.time.nowMs
        return response
      },
      close: () => inner.close(),
    }
  }
}

function userOf(server: ApiServer): UserApi {
  const { signal } = new AbortController()
  return {
    async send(method, path, body, contentType = 'application/json') {
      const url = new URL(path, 'http://embedded')
      const headers = { 'content-type': contentType, 'user-agent': 'user/1.0' }
      const request = { method, path: url.pathname, query: [...url.searchParams] as [string, string][], headers, body }
      const response = await server.handle(request, signal)
      return { status: response.status, body: 'body' in response ? response.body : undefined }
    },
  }
}
