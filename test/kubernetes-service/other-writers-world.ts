import { createApiServer, inProcessReadiness, inProcessTransport } from '../../src/apiserver/api-server.ts'
import { type Faults, faultyTransport } from '../../src/apiserver/faults.ts'
import { createMaster } from '../../src/bootstrap/master.ts'
import type { MasterPorts } from '../../src/bootstrap/master-options.ts'
import { defineMaster, type MasterSettings } from '../../src/config/master-options.ts'
import { MemoryEtcd } from '../../src/etcd/memory-etcd.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { isKubeError } from '../../src/kube/errors.ts'
import { endpoints, events, type KubeEvent, type KubeObject, type Resource } from '../../src/kube/resources.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Transport } from '../../src/kube/transport.ts'
import { KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import { EtcdLeases } from '../../src/kubernetes-service/leases/etcd/leases.ts'
import { EtcdRangeRegistry } from '../../src/repair/registries/etcd.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { type LogLine, memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'

/** A master that runs in simulated time. */
export interface RunningMaster {
  logged(pattern: RegExp): readonly LogLine[]
  /** The value of a sample, such as `name{label="value"}`; NaN without it. */
  sample(text: string): Promise<number>
  /** Resolves when it has ended; rejects when it failed. */
  readonly ended: Promise<void>
  stop(): void
}

/** One API server in simulated time, with masters and other writers. */
export class OtherWritersWorld {
  readonly time = new VirtualClock()
  readonly #clock = this.time.view()
  /** The lease store of masters that use etcd. */
  readonly etcd = new MemoryEtcd({ clock: this.#clock })
  readonly #server = createApiServer({ clock: this.#clock, random: seededRandom(1, 'server') })
  readonly #running: RunningMaster[] = []
  readonly #watching = new AbortController()

  constructor(t: { after(undo: () => Promise<void>): void }) {
    t.after(async () => {
      for (const master of this.#running) master.stop()
      await this.time.advance(30_000)
      await Promise.all(this.#running.map(({ ended }) => ended))
      this.#watching.abort()
      await this.time.advance(0)
    })
  }

  /** The number of requests by field manager, without watches. */
  readonly requests = new Map<string, number>()

  /** A client that writes with this field manager. */
  connect(fieldManager: string): KubeApi {
    return this.connectFaulty(fieldManager).api
  }

  /** The same, over a connection that can be made to fail, or whose answers `through` changes. */
  connectFaulty(
    fieldManager: string,
    through = (transport: Transport): Transport => transport,
  ): { readonly api: KubeApi; readonly faults: Faults } {
    const inner = through(inProcessTransport(this.#server))
    const counting: Transport = {
      send: (request, signal) => {
        if (request.stream !== true) this.requests.set(fieldManager, (this.requests.get(fieldManager) ?? 0) + 1)
        return inner.send(request, signal)
      },
      close: () => inner.close(),
    }
    const clock = this.#clock
    const transport = faultyTransport(counting, { clock, random: seededRandom(1, `${fieldManager} faults`) })
    const api = restKubeApi({ transport, clock, random: seededRandom(1, fieldManager), fieldManager })
    return { api, faults: transport.faults }
  }

  start(number: number, settings: Partial<MasterSettings> = {}, given: Partial<MasterPorts> = {}): RunningMaster {
    const logger = memoryLogger()
    const metrics = prometheusMetrics()
    const host = `host-${number}`
    const options = defineMaster({ advertiseAddress: `192.0.2.${number}`, ...settings }, host)
    const stop = new AbortController()
    const ended = createMaster(options, {
      api: this.connect('apiserver-bootstrap'),
      readiness: inProcessReadiness(this.#server),
      clock: this.#clock,
      random: seededRandom(1, `${host} ${this.#running.length}`),
      logger,
      metrics,
      etcd: { kv: this.etcd.client(), Leases: EtcdLeases, Ranges: EtcdRangeRegistry },
      ...given,
    }).run(stop.signal)
    const master: RunningMaster = {
      ended,
      logged: (pattern) => logger.lines.filter(({ message }) => pattern.test(message)),
      async sample(text) {
        const line = (await metrics.expose()).split('\n').find((each) => each.startsWith(`${text} `))
        return Number(line?.slice(text.length) ?? Number.NaN)
      },
      stop: () => stop.abort(new Error('SIGTERM')),
    }
    this.#running.push(master)
    return master
  }

  /** Records every state of an object from now on, and whether it is right. */
  async follow<T extends KubeObject>(
    resource: Resource<T>,
    isRight: (object: T) => boolean,
  ): Promise<readonly { readonly atMs: number; readonly right: boolean }[]> {
    const seen: { readonly atMs: number; readonly right: boolean }[] = []
    const query = { namespace: 'default', fieldSelector: 'metadata.name=kubernetes', signal: this.#watching.signal }
    const run = async (): Promise<void> => {
      for await (const { type, object } of this.connect('watcher').watch(resource, query)) {
        if (type === 'BOOKMARK' || type === 'ERROR') continue
        seen.push({ atMs: this.time.nowMs, right: type !== 'DELETED' && isRight(object) })
      }
    }
    void run()
    await this.time.advance(0)
    // A watch begins with the present state.
    seen.length = 0
    return seen
  }

  /** Repeats `work` at an interval. Ignores that an object is gone or has changed. */
  async repeat(work: () => Promise<unknown>, { everyMs, forMs }: { everyMs: number; forMs: number }): Promise<void> {
    for (let passedMs = 0; passedMs < forMs; passedMs += everyMs) {
      await work().catch((error: unknown) => {
        if (!isKubeError(error, 'NotFound', 'Conflict')) throw error
      })
      await this.time.advance(everyMs)
    }
  }

  async listed(): Promise<readonly string[]> {
    const { subsets } = await this.connect('reader').get(endpoints, KUBERNETES_SERVICE)
    return (subsets ?? []).flatMap((subset) => (subset.addresses ?? []).map(({ ip }) => ip))
  }

  /** The Events with this reason in the cluster. */
  async eventsAbout(reason: string): Promise<readonly KubeEvent[]> {
    const { items } = await this.connect('reader').list(events, { namespace: 'default' })
    return items.filter((event) => event.reason === reason)
  }
}
