import { Cluster, type Ghost, type WorldOptions } from './cluster.ts'
import { Environment } from './environment.ts'
import {
  CUR,
  FREEZING,
  FROZEN,
  GHOST,
  isFrozen,
  OLD,
  processIn,
  RUNNING,
  STORE,
  set,
  setProcess,
  setStatus,
  statusOf,
  type World,
} from './fields.ts'
import { Judge } from './judge.ts'
import { type Emit, type Move, moveOf } from './moves.ts'
import { OK } from './processes.ts'
import { Requests } from './requests.ts'
import { WorldText } from './world-text.ts'

/**
 * Masters, their API servers, the lease store and the list, in ticks of one second.
 *
 * Assumptions that keep the space small:
 * - A request without a fault is executed in the tick in which it was sent: requests of different sidecars in any
 *   order, those of one sidecar in the order lease, read, list. Faults bring other orders.
 * - The requests of a sidecar that freezes are executed in the same tick or when it thaws. `late` executes a write in
 *   between.
 * - What others cannot notice happens at once: probes, timers, renewals that change no record, reads that lead to
 *   nothing.
 * - A sidecar reads the list and the leases at the same moment. A write of the list in between would make its own write
 *   fail anyway.
 * - Until the first fault all masters are alike, so the first fault hits the first master.
 * - A master compares the list with the leases each interval, when it renews its lease. While its API server does not
 *   answer, it can neither read nor write the list.
 * - With the store `kubernetes`, a sidecar that lists the leases deletes those that are over at the same moment. A
 *   write in between would make the deletion fail, as if it had come before both. A slow list waits before it is
 *   executed, and the list of a sidecar that freezes is lost. No list is older than what the watch has shown; only the
 *   exploration with etcd covers stale lists.
 * - A sidecar that started after the last renewal of a lease, or has not read the lease since its creation, cannot know
 *   that the lease expired in an outage. The judge ignores what it does to that address.
 * - After a fault of a master itself, or a stop with `always` or `keep`, the judge protects the master again once it
 *   has renewed as ready.
 */
export class WorldModel extends Cluster {
  readonly words: WorldText
  readonly #judge: Judge
  readonly #requests: Requests
  readonly #environment: Environment

  constructor(options: WorldOptions) {
    super(options)
    this.words = new WorldText(this)
    this.#judge = new Judge(this)
    this.#requests = new Requests(this, this.#judge)
    this.#environment = new Environment(this, this.#requests)
  }

  /** The move that {@link successors} or {@link fairMove} tried when it threw. */
  get trying(): Move {
    return this.#requests.trying
  }

  /** The state before any sidecar starts. */
  initial(): World {
    const world = new Int32Array(this.width)
    world[STORE] = this.stores.intern(this.masters.map(() => undefined))
    return world
  }

  /**
   * Emits everything that can happen next. `affordable`: the rest of the budget of faults. Throws {@link Violation} if
   * a move violates an invariant.
   */
  successors(world: World, emit: Emit, isFirstFault: boolean, affordable: number): void {
    // All masters are alike until the first fault.
    const victims = affordable === 0 ? 0 : isFirstFault ? 1 : this.masters.length
    const pending = this.#requests.pending(world)
    const blocking = pending.filter(({ isFrozen }) => !isFrozen)
    const invisible = blocking.find((one) => this.#requests.isInvisible(world, one, pending))
    if (invisible !== undefined) {
      this.#requests.moves(world, invisible, emit, victims)
      return
    }
    for (const one of pending) this.#requests.moves(world, one, emit, victims)
    this.#environment.faultMoves(world, emit, victims, affordable)
    if (blocking.length === 0) {
      this.#environment.healMoves(world, emit)
      emit(moveOf('tick'), this.#tick(world), 0)
    }
  }

  /** See {@link Environment.healed}. */
  healed(world: World): World {
    return this.#environment.healed(world)
  }

  /** See {@link Judge.unsettled}. */
  unsettled(world: World): string | undefined {
    return this.#judge.unsettled(world)
  }

  /** The one move of a run without faults. */
  fairMove(world: World): World {
    const [first] = this.#requests.pending(world)
    this.#requests.trying = first === undefined ? moveOf('tick') : moveOf('done', first.master, first.slot, first.kind)
    return first === undefined ? this.#tick(world) : this.#requests.done(world, first)
  }

  /** Whether no request must be executed before the next tick. */
  isQuiet(world: World): boolean {
    return this.#requests.pending(world).length === 0
  }

  #tick(world: World): World {
    const after = world.slice()
    if (after[GHOST] !== 0) {
      const ghost = this.ghostIn(after) as Ghost
      after[GHOST] = ghost.left === 1 ? 0 : this.ghost({ ...ghost, left: ghost.left - 1 })
    }
    after[STORE] = this.stores.aged(after[STORE] as number)
    for (const master of this.masters) {
      const server = this.server(after, master)
      if (server !== OK) set(after, master, 'down', 1)
      for (const slot of [CUR, OLD]) {
        const status = statusOf(after, master, slot)
        if (status !== RUNNING && !isFrozen(status)) continue
        if (status === FREEZING) setStatus(after, master, slot, FROZEN)
        const id = processIn(after, master, slot)
        setProcess(after, master, slot, this.processes.ticked(id, server, status !== RUNNING))
      }
    }
    return this.settled(this.noticed(world, after))
  }
}
