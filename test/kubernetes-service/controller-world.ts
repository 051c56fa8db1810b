import type { TestContext } from 'node:test'
import type { KubeApi } from '../../src/kube/api.ts'
import { Availability } from '../../src/kube/availability.ts'
import { noEvents } from '../../src/kube/event-object.ts'
import { endpointSlices, endpoints, type KubeObject, type Resource, services } from '../../src/kube/resources.ts'
import { KubernetesServiceController } from '../../src/kubernetes-service/controller.ts'
import { ForeignOverwrites } from '../../src/kubernetes-service/guarded-writes/foreign-overwrites.ts'
import { ObjectWriter } from '../../src/kubernetes-service/guarded-writes/object-writer.ts'
import { type EndpointPort, endpointPorts, KUBERNETES_SERVICE } from '../../src/kubernetes-service/identity.ts'
import type {
  ListReconciler,
  ObservedEndpoints,
  ReconcilePorts,
  WatchedList,
} from '../../src/kubernetes-service/reconcilers/endpoint-reconciler.ts'
import { parseAddress } from '../../src/net/address.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import { type Logger, memoryLogger } from '../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../src/telemetry/prometheus-metrics.ts'
import { Embedded } from '../apiserver/embedded.ts'
import { passedOn } from '../kube/passed-on.ts'

export const INTERVAL_MS = 10_000
export const SETTINGS = { clusterIp: '10.96.0.1', secondClusterIp: 'fd00::1', securePort: 6443, nodePort: 0 }

/** The members as the test defines them. Records what the controller asks about them. */
export class Members implements ListReconciler {
  dual: boolean | undefined = false
  agreed = true
  satisfied = true
  /** What happens when the controller reads the members, or writes the list. */
  read: (signal: AbortSignal) => Promise<void> = async () => {}
  write: (signal: AbortSignal) => Promise<void> = async () => {}
  reads = 0
  readonly writes: [ip: string, port: number | undefined, ports: ReconcilePorts][] = []
  /** The watched objects that the controller gave for each write of the list. */
  readonly watched: (WatchedList | undefined)[] = []
  /** The objects that the controller last showed, and whether it asked for the ports to be corrected. */
  seen: ObservedEndpoints | undefined
  corrects: boolean | undefined

  async refreshMembers(signal: AbortSignal): Promise<void> {
    this.reads++
    await this.read(signal)
  }

  async reconcileEndpoints(
    { text }: { readonly text: string },
    [port]: readonly EndpointPort[],
    reconcilePorts: ReconcilePorts,
    signal: AbortSignal,
    watched?: WatchedList,
  ): Promise<void> {
    this.writes.push([text, port?.port, reconcilePorts])
    this.watched.push(watched)
    await this.write(signal)
  }

  isSatisfied(observed: ObservedEndpoints, _ports: readonly EndpointPort[], reconcilePorts: boolean): boolean {
    this.seen = observed
    this.corrects = reconcilePorts
    return this.satisfied
  }

  isDualStack(): boolean | undefined {
    return this.dual
  }

  portsAgreed(): boolean {
    return this.agreed
  }
}

interface WorldOptions {
  /** Whether the controller runs from the start. @default true */
  readonly runs?: boolean
  readonly reconciler:
    | ListReconciler
    | ((parts: { api: KubeApi; writer: ObjectWriter; logger: Logger }) => ListReconciler)
  readonly address?: string | undefined
  readonly cidrs?: readonly string[]
  /** Called before each request except watches. The request rejects with what it throws. */
  readonly before?: (call: string) => void | Promise<void>
  /** Watches of this kind begin when the promise resolves. */
  readonly late?: { readonly plural: string; readonly until: Promise<void> }
}

/** A controller beside an API server in simulated time. It records requests as `get kubernetes of services`. */
export async function controllerWorld(t: Pick<TestContext, 'after'>, options: WorldOptions) {
  const { reconciler, address = '192.0.2.1', cidrs = ['10.96.0.0/16', 'fd00::/112'], before = () => {}, late } = options
  const embedded = await Embedded.started(cidrs)
  const { time, clock, api } = embedded
  const asked: string[] = []
  /** The names of the watched objects, and the kinds whose events are lost. */
  const watch = { names: [] as string[], lost: new Set<string>() }
  const noted = async <Answer>(verb: string, { plural }: Resource<KubeObject>, send: () => Promise<Answer>) => {
    asked.push(`${verb} ${plural}`)
    await before(`${verb} ${plural}`)
    return send()
  }
  const through = passedOn(api, {
    get: (resource, ref, more) => noted(`get ${ref.name} of`, resource, () => api.get(resource, ref, more)),
    create: (resource, object, more) => noted('create', resource, () => api.create(resource, object, more)),
    update: (resource, object, more) => noted('update', resource, () => api.update(resource, object, more)),
    async *watch(resource, query) {
      watch.names.push(`${resource.plural} ${query.fieldSelector}`)
      if (late?.plural === resource.plural) await late.until
      for await (const event of api.watch(resource, query)) {
        if (event.type === 'BOOKMARK' || !watch.lost.has(resource.plural)) yield event
      }
    },
  })
  const logger = memoryLogger()
  const metrics = prometheusMetrics()
  const availability = new Availability({ clock, logger })
  const subscribers = { count: 0 }
  const subscribe = availability.subscribe.bind(availability)
  availability.subscribe = (handler) => {
    subscribers.count++
    const unsubscribe = subscribe(handler)
    return () => {
      subscribers.count--
      unsubscribe()
    }
  }
  const overwrites = new ForeignOverwrites({ clock, metrics, logger, events: noEvents, intervalMs: INTERVAL_MS })
  const context = { api: through, clock, random: seededRandom(1, 'controller'), logger, metrics, availability }
  const writer = new ObjectWriter({ ...context, overwrites })
  const controller = new KubernetesServiceController({
    ...context,
    writer,
    reconciler: typeof reconciler === 'function' ? reconciler({ ...context, writer }) : reconciler,
    address: address === 'none' ? undefined : parseAddress(address),
    service: SETTINGS,
    intervalMs: INTERVAL_MS,
  })
  const stop = new AbortController()
  const { runs = true } = options
  const watching = runs ? controller.watch(stop.signal) : Promise.resolve()
  const ended = runs ? controller.run(stop.signal) : Promise.resolve()
  watching.catch(() => {})
  ended.catch(() => {})
  const end = async (): Promise<void> => {
    stop.abort(new Error('the end'))
    await time.advance(1)
    await Promise.allSettled([watching, ended])
  }
  t.after(end)
  const service = () => api.get(services, KUBERNETES_SERVICE).catch(() => undefined)
  /** Writes Endpoints as another client. */
  const putEndpoints = (port = 6443) =>
    api.create(endpoints, {
      metadata: KUBERNETES_SERVICE,
      subsets: [{ addresses: [{ ip: '192.0.2.9' }], ports: [...endpointPorts(port)] }],
    })
  const putSlice = (name: string, addressType = 'IPv6') =>
    api.create(endpointSlices, {
      metadata: { ...KUBERNETES_SERVICE, name },
      addressType,
      endpoints: [{ addresses: [addressType === 'IPv6' ? '2001:db8::9' : '192.0.2.9'] }],
      ports: [],
    } as never)
  const setPort = (port: number) =>
    api.patch(services, KUBERNETES_SERVICE, {
      type: 'merge',
      body: { spec: { ports: [{ name: 'x', port, targetPort: 1, protocol: 'TCP' }] } },
    })
  const sample = async (name: string): Promise<string | undefined> =>
    (await metrics.expose()).split('\n').find((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
  const answers = () => asked.splice(0)
  return {
    ...{
      time,
      clock,
      api,
      controller,
      availability,
      logger,
      writer,
      watch,
      service,
      stop,
      ended,
      end,
      sample,
      subscribers,
    },
    ...{ asked: answers, putEndpoints, putSlice, setPort },
  }
}
