import { EtcdError, type EtcdKv } from '../../etcd/kv.ts'
import { MemoryEtcd } from '../../etcd/memory-etcd.ts'
import { type EtcdCall, faultyEtcd } from '../../etcd/memory-etcd-faults.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import type { VirtualClock } from '../../runtime/virtual-clock.ts'
import { StoreClock } from './process-clock.ts'
import { latency, Route } from './route.ts'

/** What all masters of a fleet store their leases in. */
export class SimulatedEtcd {
  readonly store: MemoryEtcd
  /** The database is full: what would make it larger is refused. */
  full = false
  readonly #clock: StoreClock
  readonly #routes: EtcdRoute[] = []
  #down = false

  constructor(time: VirtualClock, flavour: 'etcd' | 'kine') {
    this.#clock = new StoreClock(time)
    this.store = new MemoryEtcd({ clock: this.#clock, flavour })
  }

  get down(): boolean {
    return this.#down
  }

  /** Ends its process. What is stored stays, and no lease ends meanwhile. */
  stop(): void {
    this.#down = true
    this.#clock.stop()
    for (const route of this.#routes) route.breakStreams()
  }

  start(): void {
    if (!this.#down) return
    this.#down = false
    this.#clock.start()
    this.store.startLeasesOver()
  }

  /** One master's way to it, the same for each life of its process. */
  route(): EtcdRoute {
    const route = new EtcdRoute(this)
    this.#routes.push(route)
    return route
  }
}

/** The way from one host to etcd. */
export class EtcdRoute extends Route {
  /** Nobody listens where this host looks for it. */
  refused = false
  readonly #etcd: SimulatedEtcd
  readonly #connected = new Set<() => void>()

  constructor(etcd: SimulatedEtcd) {
    super()
    this.#etcd = etcd
  }

  /** Whether it finds the database full. */
  get full(): boolean {
    return this.#etcd.full
  }

  get broken(): boolean {
    return this.cut || this.refused
  }

  /** Whether whoever goes this way can read and write. */
  get open(): boolean {
    return !this.broken && !this.#etcd.down && !this.#etcd.full
  }

  override heal(): void {
    this.refused = false
    super.heal()
  }

  override breakStreams(): void {
    super.breakStreams()
    for (const breakWatches of this.#connected) breakWatches()
  }

  /** What one process sees of it: each call, each answer and each change takes a few milliseconds of that process' time. */
  connect(options: {
    readonly clock: Clock
    readonly random: Random
    readonly spikes: boolean
    /** Stands at the store itself, behind all that happens on the way. */
    readonly tap?: ((kv: EtcdKv) => EtcdKv) | undefined
  }): EtcdKv {
    const { clock, random, spikes, tap = (kv: EtcdKv) => kv } = options
    const etcd = this.#etcd
    const pass = async (call: EtcdCall, signal: AbortSignal): Promise<void> => {
      await latency(clock, random, spikes, signal, this.slowMs)
      if (this.refused || etcd.down) throw new EtcdError('Unreachable', 'connection refused')
      if (!this.cut) return
      // A watch waits for ever: nothing tells it that nothing comes.
      const end = await this.swallow(clock, call.method === 'watch' ? 1e9 : 5_000, signal)
      throw end === 'reset' ? new EtcdError('Unreachable', 'connection reset') : new EtcdError('Timeout', 'no answer')
    }
    const kv = faultyEtcd(tap(etcd.store.client()), {
      clock,
      before: async (call, signal) => {
        await pass(call, signal)
        if (etcd.full && GROWING.includes(call.method)) throw new EtcdError('NoSpace', 'mvcc: database space exceeded')
      },
      after: pass,
    })
    // By the process' own clock: one that is frozen hears of it when it goes on.
    this.#connected.add(() =>
      clock.schedule(0, () => kv.breakWatches(new EtcdError('Unreachable', 'connection reset'))),
    )
    return kv
  }
}

const GROWING: readonly EtcdCall['method'][] = ['create', 'update', 'grantLease']
