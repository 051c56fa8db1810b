import { EtcdError, type EtcdKv, type KeyChange } from '../../etcd/kv.ts'
import { MemoryEtcd } from '../../etcd/memory-etcd.ts'
import { type EtcdCall, faultyEtcd } from '../../etcd/memory-etcd-faults.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { linkedController } from '../../runtime/signals.ts'
import type { VirtualClock } from '../../runtime/virtual-clock.ts'
import { type ProcessClock, StoreClock } from './process.ts'

/**
 * The latency of one message between two processes, in milliseconds. The range is fixed, so that simulated runs can be
 * compared with real runs.
 */
export const simulatedLatency = { fromMs: 1, toMs: 4 }

/** One error serves all resets, because each new error would cost a stack trace. */
const RESET = new Error('connection reset')

/** The connections of one master to a server. */
export class Route {
  /** Whether the connections are black-holed. */
  cut = false
  /** How much longer each message takes, in milliseconds. */
  slowMs = 0
  /** How often all connections were reset. */
  resets = 0
  readonly #connections = new Set<AbortController>()

  heal(): void {
    this.cut = false
    this.resetConnections()
  }

  resetConnections(): void {
    this.resets++
    for (const connection of [...this.#connections]) connection.abort(RESET)
  }

  /** How many watches of an API server are open, plus how many requests are black-holed. */
  get openConnections(): number {
    return this.#connections.size
  }

  addConnection(connection: AbortController): () => void {
    this.#connections.add(connection)
    return () => this.#connections.delete(connection)
  }

  /** Black-holes a request. Resolves with `reset` when its connection is reset, or with `timeout` after `timeoutMs`. */
  async blackHole(clock: Clock, timeoutMs: number, signal: AbortSignal): Promise<'reset' | 'timeout'> {
    const { controller, unlink } = linkedController(signal)
    const forget = this.addConnection(controller)
    try {
      await sleep(clock, timeoutMs, controller.signal)
      return 'timeout'
    } catch {
      signal.throwIfAborted()
      return 'reset'
    } finally {
      forget()
      unlink()
    }
  }
}

/**
 * Waits for the latency of a request and of its answer, each with `slowMs` more. With `spikes`, some messages take up
 * to 200 ms more. The request takes effect when it is sent, and both latencies pass before its answer arrives. One wait
 * costs one event of the simulator instead of two. Races remain possible as with real requests, because one round trip
 * lies between the moment of a read and the effect of the write that depends on the read.
 */
export function roundTrip(
  clock: Clock,
  random: Random,
  spikes: boolean,
  signal: AbortSignal,
  slowMs = 0,
): Promise<void> {
  return sleep(clock, messageMs(random, spikes) + messageMs(random, spikes) + 2 * slowMs, signal)
}

export function latency(clock: Clock, random: Random, spikes: boolean, signal: AbortSignal, slowMs = 0): Promise<void> {
  return sleep(clock, messageMs(random, spikes) + slowMs, signal)
}

function messageMs(random: Random, spikes: boolean): number {
  const spikeMs = spikes && random.next() < 0.02 ? random.next() * 200 : 0
  const { fromMs, toMs } = simulatedLatency
  return fromMs + random.next() * (toMs - fromMs) + spikeMs
}

/** The interval at which etcd revokes expired leases, in milliseconds. A lease ends late by up to this time. */
const LEASE_END_STEP_MS = 500
/** How many revisions the store retains: more than any fleet writes between a list and the watch after it. */
const REVISIONS = 1_000

/** The etcd or kine in which all masters of a fleet store their leases. */
export class SimulatedEtcd {
  readonly store: MemoryEtcd
  /** Whether the database is full, so that writes that would make it larger are refused. */
  full = false
  readonly #clock: StoreClock
  readonly #routes: EtcdRoute[] = []
  #down = false

  /** `random` decides how late leases end. Without it, and on kine, leases end on time. */
  constructor(time: VirtualClock, flavour: 'etcd' | 'kine', random?: Random) {
    this.#clock = new StoreClock(time)
    const late = random && { expiryStepMs: LEASE_END_STEP_MS, expiryPhaseMs: random.next() * LEASE_END_STEP_MS }
    this.store = new MemoryEtcd({ clock: this.#clock, flavour, revisions: REVISIONS, ...(flavour === 'etcd' && late) })
  }

  get down(): boolean {
    return this.#down
  }

  /** Stops the process of etcd. The data stays. No lease ends before the next start, which begins every TTL anew. */
  stop(): void {
    this.#down = true
    this.#clock.stop()
    for (const route of this.#routes) route.resetConnections()
  }

  start(): void {
    if (!this.#down) return
    this.#down = false
    this.#clock.start()
    this.store.startLeasesOver()
  }

  /** Creates the route of one host, which all processes on that host share. */
  route(): EtcdRoute {
    const route = new EtcdRoute(this)
    this.#routes.push(route)
    return route
  }
}

/** The connections of one host to etcd. */
export class EtcdRoute extends Route {
  /** Whether the etcd endpoint of this host refuses connections. */
  refused = false
  readonly #etcd: SimulatedEtcd
  readonly #connected = new Set<() => void>()

  constructor(etcd: SimulatedEtcd) {
    super()
    this.#etcd = etcd
  }

  get full(): boolean {
    return this.#etcd.full
  }

  get broken(): boolean {
    return this.cut || this.refused
  }

  get open(): boolean {
    return !this.broken && !this.#etcd.down && !this.#etcd.full
  }

  override heal(): void {
    this.refused = false
    this.endCut()
  }

  /** Ends a cut, and resets the connections. An endpoint that refuses connections continues to refuse them. */
  endCut(): void {
    super.heal()
  }

  override resetConnections(): void {
    super.resetConnections()
    for (const breakWatches of this.#connected) breakWatches()
  }

  /**
   * Connects one process to etcd. Each call and each change waits for the clock of that process, so a frozen process
   * does not send and does not receive.
   */
  connect(options: {
    readonly clock: ProcessClock
    readonly random: Random
    readonly spikes: boolean
    /** Wraps the client of the store itself, so that the wrapper sees only the calls that reach the store. */
    readonly tap?: ((kv: EtcdKv) => EtcdKv) | undefined
  }): EtcdKv {
    const { clock, random, spikes, tap = (kv: EtcdKv) => kv } = options
    const etcd = this.#etcd
    const back = (signal: AbortSignal): Promise<void> => roundTrip(clock, random, spikes, signal, this.slowMs)
    const pass = (call: EtcdCall, signal: AbortSignal): Promise<void> | undefined =>
      this.refused || etcd.down || this.cut ? stop(call, signal) : undefined
    const stop = async (call: EtcdCall, signal: AbortSignal): Promise<void> => {
      if (this.refused || etcd.down) throw new EtcdError('Unreachable', 'connection refused')
      // A watch has no timeout, because a server without changes is silent too.
      const end = await this.blackHole(clock, call.method === 'watch' ? 1e9 : 5_000, signal)
      throw end === 'reset' ? new EtcdError('Unreachable', 'connection reset') : new EtcdError('Timeout', 'no answer')
    }
    const refuse = async (call: EtcdCall, isFull: boolean, signal: AbortSignal): Promise<void> => {
      if (isFull || this.refused || etcd.down) await back(signal)
      await pass(call, signal)
      if (isFull) throw new EtcdError('NoSpace', 'mvcc: database space exceeded')
    }
    const kv = faultyEtcd(tap(etcd.store.client()), {
      clock,
      isGone: () => clock.killed,
      before: (call, signal) => {
        const isRefused = etcd.full && GROWING.includes(call.method)
        return isRefused || this.broken || etcd.down ? refuse(call, isRefused, signal) : undefined
      },
      after: (call, signal) => {
        if (call.method !== 'watch') return back(signal).then(() => pass(call, signal))
        // Renewals are delivered at once, in their order: there are many, and they cause no action.
        if (!clock.frozen && this.slowMs === 0 && call.changes?.every(isRenewal)) return pass(call, signal)
        return latency(clock, random, spikes, signal, this.slowMs).then(() => pass(call, signal))
      },
    })
    // The clock of the process schedules the reset, so that a frozen process notices the reset when it thaws.
    this.#connected.add(() =>
      clock.schedule(0, () => kv.breakWatches(new EtcdError('Unreachable', 'connection reset'))),
    )
    return kv
  }
}

/** Whether a change renews a lease, or writes a record again without a difference. */
function isRenewal({ type, key, value, previousValue }: KeyChange): boolean {
  if (type !== 'modified') return false
  return key.includes('/masterleases/') || (previousValue !== undefined && Buffer.compare(previousValue, value) === 0)
}

/** The calls that need space in the database, so that a full etcd refuses them. */
const GROWING: readonly EtcdCall['method'][] = ['create', 'update', 'grantLease']
