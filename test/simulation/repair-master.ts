import { Datastore } from '../../src/drill/datastore.ts'
import type { EtcdRoute, SimulatedEtcd } from '../../src/drill/simulator/etcd-link.ts'
import { SimulatedServer, simulatedLink } from '../../src/drill/simulator/link.ts'
import { type ProcessClock, processClock } from '../../src/drill/simulator/process.ts'
import type { EventSink } from '../../src/kube/event-object.ts'
import { restKubeApi } from '../../src/kube/rest-api.ts'
import type { Transport } from '../../src/kube/transport.ts'
import type { Clock } from '../../src/runtime/clock.ts'
import { seededRandom } from '../../src/runtime/random.ts'
import type { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import { memoryLogger } from '../../src/telemetry/logger.ts'
import type { RepairComposition } from './repair-composition.ts'
import { WatchLag } from './repair-lag.ts'
import type { Ledger } from './repair-ledger.ts'
import { runRepairs } from './repair-parts.ts'

export interface RepairMasterOptions {
  readonly name: string
  readonly seed: number
  readonly time: VirtualClock
  /** True time. */
  readonly clock: Clock
  readonly composition: RepairComposition
  readonly ledger: Ledger
  readonly store: Transport
  readonly etcd: SimulatedEtcd
}

interface RepairLife {
  readonly writer: string
  readonly clock: ProcessClock
  readonly stop: AbortController
  readonly logger: ReturnType<typeof memoryLogger>
}

/** One master that runs only the repairs: the shipped code, on connections that fail. */
export class RepairMaster {
  readonly name: string
  readonly server: SimulatedServer
  readonly etcd: EtcdRoute
  readonly lag: WatchLag
  readonly lives: RepairLife[] = []
  life: RepairLife | undefined
  /** The error that ended a life unexpectedly. */
  failure: unknown
  readonly #options: RepairMasterOptions
  #ableSinceMs = Number.POSITIVE_INFINITY
  #resets = 0
  #thawedAtMs = Number.NEGATIVE_INFINITY

  constructor(options: RepairMasterOptions) {
    this.#options = options
    this.name = options.name
    const random = seededRandom(options.seed, `${options.name} datastore`)
    this.server = new SimulatedServer(new Datastore({ clock: options.clock, random }))
    this.etcd = options.etcd.route()
    this.lag = new WatchLag(options.clock)
  }

  /** The name under which its current life writes. */
  get writer(): string | undefined {
    return this.life?.writer
  }

  start(): void {
    const { time, seed, composition, ledger, store } = this.#options
    const { spikes } = composition
    const writer = `${this.name}.${this.lives.length + 1}`
    const clock = processClock(time)
    const random = seededRandom(seed, writer)
    const logger = memoryLogger()
    const inner = this.lag.transport(ledger.transport(store, writer))
    const transport = simulatedLink(inner, { server: this.server, clock, random, spikes })
    const api = restKubeApi({ transport, clock, random, logger })
    const etcd = this.etcd.connect({ clock, random, spikes, tap: (kv) => this.lag.kv(ledger.kv(kv, writer)) })
    const stop = new AbortController()
    const life: RepairLife = { writer, clock, stop, logger }
    this.life = life
    this.lives.push(life)
    this.#ableSinceMs = Number.POSITIVE_INFINITY
    runRepairs({ api, etcd, clock, random, logger, events: noted(logger), composition }, stop.signal).catch(
      (error: unknown) => {
        if (!stop.signal.aborted) this.failure ??= error
      },
    )
  }

  /** SIGKILL: its running requests never return. */
  kill(): void {
    this.life?.clock.freeze()
    this.life = undefined
  }

  /** SIGTERM. */
  terminate(): void {
    this.life?.stop.abort(new Error('SIGTERM'))
    this.life = undefined
  }

  freeze(): void {
    this.life?.clock.freeze()
  }

  thaw(): void {
    if (this.life?.clock.frozen !== true) return
    this.#thawedAtMs = this.#options.time.nowMs
    this.life.clock.thaw()
  }

  /** Whether a freeze ended within the last `ms` milliseconds. */
  wasFrozen(ms: number): boolean {
    return this.#options.time.nowMs - this.#thawedAtMs <= ms
  }

  /**
   * Since when it runs and reaches everything in time; infinite while it does not. Must be called after every event.
   */
  ableSinceMs(): number {
    const { server, etcd, lag, life } = this
    const { nowMs } = this.#options.time
    const isReachable =
      server.serving && !server.cut && !server.hanging && !server.storeless && etcd.open && !lag.lagging
    const able = isReachable && life !== undefined && !life.clock.frozen
    const resets = server.resets + etcd.resets
    if (!able) this.#ableSinceMs = Number.POSITIVE_INFINITY
    else if (this.#ableSinceMs === Number.POSITIVE_INFINITY || resets !== this.#resets) this.#ableSinceMs = nowMs
    this.#resets = resets
    return this.#ableSinceMs
  }

  /** Ends all its faults. */
  heal(): void {
    const { server, etcd, lag } = this
    server.start()
    server.hanging = false
    server.store.own = 'ok'
    server.heal()
    etcd.heal()
    lag.end()
    this.thaw()
    if (this.life === undefined) this.start()
  }
}

function noted(logger: ReturnType<typeof memoryLogger>): EventSink {
  return { record: ({ reason, note }) => logger.debug({ reason }, note) }
}
