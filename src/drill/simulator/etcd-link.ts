import { EtcdError, type EtcdKv, type KeyChange } from '../../etcd/kv.ts'
import { MemoryEtcd } from '../../etcd/memory-etcd.ts'
import { type EtcdCall, faultyEtcd } from '../../etcd/memory-etcd-faults.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { linkedController } from '../../runtime/signals.ts'
import type { VirtualClock } from '../../runtime/virtual-clock.ts'
import { type ProcessClock, StoreClock } from './process.ts'

/**
 * What a message needs from one process to another, in milliseconds. Fixed, so that what was predicted can be compared
 * with real runs.
 */
export const simulatedLatency = { fromMs: 1, toMs: 4 }

/** One for all: an error for each would cost a stack trace. */
const RESET = new Error('connection reset')

/** The way to a server, as one master finds it. */
export class Route {
  /** Black-holed: requests and events are neither refused nor answered. */
  cut = false
  /** How much longer each message takes, in milliseconds. */
  slowMs = 0
  /** How often all connections were reset. */
  resets = 0
  readonly #connections = new Set<AbortController>()

  heal(): void {
    this.cut = false
    this.breakStreams()
  }

  /** Resets every connection that is open. */
  breakStreams(): void {
    this.resets++
    for (const connection of [...this.#connections]) connection.abort(RESET)
  }

  /** Connections that are open: watches, and requests that are black-holed. */
  get streams(): number {
    return this.#connections.size
  }

  addStream(connection: AbortController): () => void {
    this.#connections.add(connection)
    return () => this.#connections.delete(connection)
  }

  /** What becomes of a request that is sent into a black hole: `reset` when the connection is, else `timeout`. */
  async swallow(clock: Clock, timeoutMs: number, signal: AbortSignal): Promise<'reset' | 'timeout'> {
    const { controller, unlink } = linkedController(signal)
    const forget = this.addStream(controller)
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
 * The way there and back of one request, and `slowMs` on each of them; with `spikes`, once in a while up to a fifth of
 * a second more. A request takes effect when it is sent, and all of its time is spent before the answer arrives: one
 * event of the simulator, with the same races, since whatever was read is as old when it is acted on.
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

/** A few milliseconds for one message, and `slowMs`; with `spikes`, once in a while up to a fifth of a second more. */
export function latency(clock: Clock, random: Random, spikes: boolean, signal: AbortSignal, slowMs = 0): Promise<void> {
  return sleep(clock, messageMs(random, spikes) + slowMs, signal)
}

function messageMs(random: Random, spikes: boolean): number {
  const spikeMs = spikes && random.next() < 0.02 ? random.next() * 200 : 0
  const { fromMs, toMs } = simulatedLatency
  return fromMs + random.next() * (toMs - fromMs) + spikeMs
}

/** How often etcd checks which leases are over, in milliseconds: it expires them up to this much late. */
const LEASE_END_STEP_MS = 500
/** More than any fleet writes while a list is on its way. */
const REVISIONS = 1_000

/** What all masters of a fleet store their leases in. */
export class SimulatedEtcd {
  readonly store: MemoryEtcd
  /** The database is full: what would make it larger is refused. */
  full = false
  readonly #clock: StoreClock
  readonly #routes: EtcdRoute[] = []
  #down = false

  /** `random` decides how late leases end; without it they end on time, as on kine. */
  constructor(time: VirtualClock, flavour: 'etcd' | 'kine', random?: Random) {
    this.#clock = new StoreClock(time)
    const late = random && { expiryStepMs: LEASE_END_STEP_MS, expiryPhaseMs: random.next() * LEASE_END_STEP_MS }
    this.store = new MemoryEtcd({ clock: this.#clock, flavour, revisions: REVISIONS, ...(flavour === 'etcd' && late) })
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
  /** This host's endpoint of it refuses connections. */
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

  /**
   * What one process sees of it: each call and each change takes a few milliseconds of that process' time, so a frozen
   * process neither sends nor hears.
   */
  connect(options: {
    readonly clock: ProcessClock
    readonly random: Random
    readonly spikes: boolean
    /** Stands at the store itself, behind all that happens on the way. */
    readonly tap?: ((kv: EtcdKv) => EtcdKv) | undefined
  }): EtcdKv {
    const { clock, random, spikes, tap = (kv: EtcdKv) => kv } = options
    const etcd = this.#etcd
    const back = (signal: AbortSignal): Promise<void> => roundTrip(clock, random, spikes, signal, this.slowMs)
    const pass = (call: EtcdCall, signal: AbortSignal): Promise<void> | undefined =>
      this.refused || etcd.down || this.cut ? stop(call, signal) : undefined
    const stop = async (call: EtcdCall, signal: AbortSignal): Promise<void> => {
      if (this.refused || etcd.down) throw new EtcdError('Unreachable', 'connection refused')
      // A watch waits for ever: it does not notice that nothing comes.
      const end = await this.swallow(clock, call.method === 'watch' ? 1e9 : 5_000, signal)
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
        // Delivered at once, in its order: it causes no action, and there are many.
        if (!clock.frozen && this.slowMs === 0 && call.changes?.every(isRenewal)) return pass(call, signal)
        return latency(clock, random, spikes, signal, this.slowMs).then(() => pass(call, signal))
      },
    })
    // By the process' own clock: one that is frozen hears of it when it goes on.
    this.#connected.add(() =>
      clock.schedule(0, () => kv.breakWatches(new EtcdError('Unreachable', 'connection reset'))),
    )
    return kv
  }
}

/**
 * Whether a change says no more than that somebody still lives: a lease renewed, or a record written again as it was.
 */
function isRenewal({ type, key, value, previousValue }: KeyChange): boolean {
  if (type !== 'modified') return false
  return key.includes('/masterleases/') || (previousValue !== undefined && Buffer.compare(previousValue, value) === 0)
}

const GROWING: readonly EtcdCall['method'][] = ['create', 'update', 'grantLease']
