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
 * Masters, their API servers, the store of the leases and the list, in ticks of one second.
 *
 * Assumed, so that the space stays small:
 * - A request without a fault is carried out in the tick in which it was sent; those of different sidecars in any order, those of one
 *   in the order lease, read, list. Faults bring other orders.
 * - What a sidecar that freezes has sent is carried out in the same tick, or when it goes on. In between, `late` carries it out.
 * - What others cannot notice is done at once: probes, timers, renewals that change no record, reads that lead to nothing.
 * - The list and the leases are read at one moment. Whoever writes the list between makes the later write fail anyway.
 * - Until the first fault all masters are alike: it hits the first one.
 * - The list is compared with the leases each interval, when the lease is renewed; an API server that does not answer fails both.
 * - Where sidecars judge leases: whoever lists them deletes at the same moment those that are over. A write between the two makes the
 *   deletion fail, as if it had come before both. A slow list is slow before it is carried out, one of a sidecar that freezes is lost, and
 *   nothing in it is older than what the watch has told: stale lists are explored with etcd.
 * - Who has begun since a lease was last renewed, or has not read it since it was made, cannot know that it ended in an outage: what it
 *   does to that address is not judged.
 * - After a fault that hit a master itself, or an order to go always, it is protected again once it has renewed as ready.
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

  /** The move that {@link successors} or {@link fairMove} was about when it threw. */
  get trying(): Move {
    return this.#requests.trying
  }

  /** Nobody has been started. */
  initial(): World {
    const world = new Int32Array(this.width)
    world[STORE] = this.stores.intern(this.masters.map(() => undefined))
    return world
  }

  /** All that can happen next; `affordable`: with so many faults at most. Throws {@link Violation} for what must not. */
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

  /** Whether all that must be done before the next tick is done. */
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
