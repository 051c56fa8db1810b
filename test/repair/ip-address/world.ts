import assert from 'node:assert/strict'
import type { ApiServerOptions } from '../../../src/apiserver/api-server.ts'
import { type FaultRule, faultyTransport } from '../../../src/apiserver/faults.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import { Availability } from '../../../src/kube/availability.ts'
import type { EventToRecord } from '../../../src/kube/event-object.ts'
import { Informer, SharedInformers } from '../../../src/kube/informer.ts'
import { type IpAddress, ipAddresses, type Service, services } from '../../../src/kube/resources.ts'
import { restKubeApi } from '../../../src/kube/rest-api.ts'
import type { ApiRequest, Transport } from '../../../src/kube/transport.ts'
import { IpAddressRepair } from '../../../src/repair/ip-address/repair.ts'
import type { WritePermit } from '../../../src/repair/repair.ts'
import { RepairReporter } from '../../../src/repair/reporter.ts'
import { trimService } from '../../../src/repair/service-claims.ts'
import type { Clock } from '../../../src/runtime/clock.ts'
import { seededRandom } from '../../../src/runtime/random.ts'
import { memoryLogger } from '../../../src/telemetry/logger.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import { Embedded } from '../../apiserver/embedded.ts'

/** A server with Services, and any number of masters that manage its IPAddresses. */
export class IpAddressWorld {
  readonly server: Embedded
  readonly #masters: Master[] = []

  private constructor(server: Embedded) {
    this.server = server
  }

  static async start(
    cidrs: readonly string[] = ['10.96.0.0/16'],
    options: Partial<ApiServerOptions> = {},
  ): Promise<IpAddressWorld> {
    return new IpAddressWorld(await Embedded.started(cidrs, options))
  }

  /** Starts a master, which runs until it is stopped. */
  master(options: MasterOptions = {}): Master {
    const master = new Master(this.server, options, this.#masters.length + 1)
    this.#masters.push(master)
    return master
  }

  async advance(ms: number): Promise<void> {
    await this.server.time.advance(ms)
  }

  /** Ends all masters, and asserts that none has failed. */
  async end(): Promise<void> {
    for (const master of this.#masters) master.stop()
    await this.advance(0)
    for (const master of this.#masters) await master.ended
  }

  async service(name: string, spec: object = {}): Promise<Service> {
    const object = { metadata: { name, namespace: 'default' }, spec: { ports: [{ port: 80 }], ...spec } } as Service
    return this.server.api.create(services, object)
  }

  async services(count: number): Promise<readonly string[]> {
    const ips: string[] = []
    for (let i = 0; i < count; i++) ips.push(ipOf(await this.service(`web-${i}`)))
    return ips
  }

  async deleteService(name: string): Promise<void> {
    await this.server.api.delete(services, { namespace: 'default', name })
  }

  async deleteIp(name: string): Promise<void> {
    await this.server.api.delete(ipAddresses, { name })
  }

  async ip(name: string): Promise<IpAddress | undefined> {
    return (await this.ips()).find(({ metadata }) => metadata?.name === name)
  }

  async ips(): Promise<readonly IpAddress[]> {
    return (await this.server.api.list(ipAddresses)).items
  }

  /** Creates an IPAddress as the allocator does, or with other labels, or for another parent. */
  async makeIp(
    name: string,
    parent: object,
    labels: Readonly<Record<string, string>> = allocatorLabels,
  ): Promise<IpAddress> {
    const parentRef = { group: '', resource: 'services', namespace: 'default', ...parent }
    return this.server.api.create(ipAddresses, { metadata: { name, labels }, spec: { parentRef } } as IpAddress)
  }

  /** Asserts that every Service has its IPAddresses, with its parent and labels, and that there are no others. */
  async assertRight(): Promise<void> {
    const wanted = (await this.server.api.list(services)).items.flatMap(({ metadata, spec }) =>
      (spec?.clusterIPs ?? [])
        .filter((ip) => ip !== 'None')
        .map((ip) => `${ip} ${metadata?.namespace}/${metadata?.name} IPv${ip.includes(':') ? 6 : 4}`),
    )
    const found = (await this.ips()).map(({ metadata, spec }) => {
      const { resource, namespace, name } = spec?.parentRef ?? {}
      assert.equal(resource, 'services')
      assert.equal(metadata?.labels?.['ipaddress.kubernetes.io/managed-by'], 'ipallocator.k8s.io')
      return `${metadata?.name} ${namespace}/${name} ${metadata?.labels?.['ipaddress.kubernetes.io/ip-family']}`
    })
    assert.deepEqual(found.sort(), wanted.sort())
  }
}

export const allocatorLabels = {
  'ipaddress.kubernetes.io/ip-family': 'IPv4',
  'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
}

export function ipOf({ spec }: Service): string {
  return spec?.clusterIP ?? ''
}

export interface MasterOptions {
  readonly permit?: WritePermit
  readonly intervalMs?: number
  /** Wraps its clock. @default its clock alone */
  readonly timed?: (clock: Clock) => Clock
  /** How far its wall clock is off, in milliseconds. */
  readonly skewMs?: number
  /** The faults from its first request on. */
  readonly faults?: readonly FaultRule[]
  /** Wraps the transport to the server. */
  readonly through?: (transport: Transport) => Transport
}

export class Master {
  readonly repair: IpAddressRepair
  readonly api: KubeApi
  readonly events: EventToRecord[] = []
  readonly logger = memoryLogger()
  readonly metrics = prometheusMetrics()
  /** The requests to the server, except lists and watches of informers, as `METHOD path`. */
  readonly requests: string[] = []
  readonly line: ReturnType<typeof faultyTransport>
  readonly clock: ReturnType<Embedded['time']['view']>
  readonly ended: Promise<void>
  settled = false
  readonly #stop = new AbortController()

  constructor(server: Embedded, options: MasterOptions, number: number) {
    const { logger, metrics } = this
    const random = seededRandom(number, 'master')
    this.clock = server.time.view({ skewMs: options.skewMs ?? 0 })
    const clock = options.timed?.(this.clock) ?? this.clock
    this.line = faultyTransport(options.through?.(server.transport) ?? server.transport, { clock, random })
    for (const fault of options.faults ?? []) this.line.faults.add(fault)
    this.api = restKubeApi({ transport: noting(this.line, (request) => this.requests.push(request)), clock, random })
    const silent = restKubeApi({ transport: this.line, clock, random })
    const availability = new Availability({ clock, logger })
    const context = { api: silent, clock, random, logger, availability }
    const informers = new SharedInformers(context)
    const followed = new Informer({ ...context, resource: services, transform: trimService, pauses: true })
    const events = { record: (event: EventToRecord) => void this.events.push(event) }
    this.repair = new IpAddressRepair({
      ...context,
      api: this.api,
      reporter: new RepairReporter({ kind: 'cluster-ip', events, logger, metrics, clock }),
      permit: options.permit ?? { mode: 'repair', granted: async () => true },
      services: followed,
      intervalMs: options.intervalMs ?? 180_000,
      informers,
    })
    void this.repair.settled.then(() => {
      this.settled = true
    })
    const { signal } = this.#stop
    this.ended = Promise.all([informers.run(signal), followed.run(signal), this.repair.run(signal)]).then(() => {})
  }

  stop(): void {
    this.#stop.abort()
  }

  /** The reasons and notes of the events, in order. */
  get recorded(): readonly string[] {
    return this.events.map(({ reason, note }) => `${reason} ${note}`)
  }

  /** The requested writes, as `METHOD name`. */
  get writes(): readonly string[] {
    return this.requests.filter((request) => !request.startsWith('GET')).map((request) => request.replace(/ .*\//, ' '))
  }
}

function noting(inner: Transport, note: (request: string) => void): Transport {
  return {
    send(request: ApiRequest, signal) {
      const { name } = (request.body as IpAddress | undefined)?.metadata ?? {}
      note(`${request.method} ${request.path}${request.method === 'POST' ? `/${name}` : ''}`)
      return inner.send(request, signal)
    },
    close: () => inner.close(),
  }
}
