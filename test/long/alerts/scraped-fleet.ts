import { createMaster } from '../../../src/bootstrap/master.ts'
import type { MasterOptions } from '../../../src/bootstrap/master-options.ts'
import { SimulatedMaster } from '../../../src/drill/simulator/master.ts'
import type { EtcdKv } from '../../../src/etcd/kv.ts'
import type { KubeApi } from '../../../src/kube/api.ts'
import type { Metrics } from '../../../src/telemetry/metrics.ts'
import { prometheusMetrics } from '../../../src/telemetry/prometheus-metrics.ts'
import { FleetUnderTest, fleetPlan } from '../../drill/simulator/fleet-under-test.ts'
import { Scrapes } from './scrapes.ts'

const INTERVAL_SECONDS = 30

/** Three masters in simulated time, with every duty that has metrics of its own, scraped as a Prometheus would. */
export class ScrapedFleet {
  readonly fleet: FleetUnderTest
  readonly scrapes: Scrapes
  /** Of the latest life on each host. */
  readonly #metrics: Map<string, Metrics>
  readonly #ports: Ports

  private constructor(fleet: FleetUnderTest, metrics: Map<string, Metrics>, ports: Ports) {
    this.fleet = fleet
    this.#metrics = metrics
    this.#ports = ports
    this.scrapes = new Scrapes({
      intervalSeconds: INTERVAL_SECONDS,
      startSeconds: Math.floor(fleet.target.clock.wallMs() / 1000),
    })
  }

  static async start(settings: Partial<MasterOptions> = {}): Promise<ScrapedFleet> {
    const metrics = new Map<string, Metrics>()
    const ports: Ports = { api: undefined, etcd: undefined }
    const plan = fleetPlan(3)
    const fleet = await FleetUnderTest.started(plan, (options, given) => {
      const own = prometheusMetrics()
      metrics.set(options.host, own)
      ports.api = given.api
      ports.etcd = given.etcd?.kv
      const repairing = { rangeRegistry: 'etcd', controllers: { auto: true, on: [], off: [] }, ...settings } as const
      return createMaster({ ...options, ...repairing }, { ...given, metrics: own })
    })
    return new ScrapedFleet(fleet, metrics, ports)
  }

  /** The API and etcd, through the connections of the master that started last. */
  get api(): KubeApi {
    return present(this.#ports.api)
  }

  get etcd(): EtcdKv {
    return present(this.#ports.etcd)
  }

  async minutes(count: number): Promise<void> {
    for (let scrape = 0; scrape < (count * 60) / INTERVAL_SECONDS; scrape++) {
      await this.fleet.advance(INTERVAL_SECONDS * 1000)
      await this.scrape()
    }
  }

  async scrape(): Promise<void> {
    const exposed = new Map<string, string>()
    for (const member of this.fleet.target.members) {
      const runs = member instanceof SimulatedMaster && member.life !== undefined && !member.life.ended
      const metrics = this.#metrics.get(member.name)
      if (runs && metrics !== undefined) exposed.set(member.name, await metrics.expose())
    }
    this.scrapes.add(exposed)
  }
}

interface Ports {
  api: KubeApi | undefined
  etcd: EtcdKv | undefined
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('no master has started')
  return value
}
