import { hasLease } from '../../src/kubernetes-service/leases/etcd/snapshot.ts'
import type { Holder } from '../../src/kubernetes-service/leases/master-leases.ts'
import {
  ABSENT,
  CUR,
  EACH,
  ENV,
  GHOST,
  GONE,
  get,
  OLD,
  processIn,
  RUNNING,
  SHARED,
  STORE,
  set,
  setProcess,
  setStatus,
  statusOf,
  type World,
} from './fields.ts'
import { countedAnew } from './lives.ts'
import { LIVES, type Machine, modelTimings } from './machine.ts'
import type { Fault } from './moves.ts'
import { SHOWN } from './process.ts'
import { FAILING, OK, Processes, type Server } from './processes.ts'
import { Stores } from './stores.ts'

export interface WorldOptions {
  readonly machine: Machine
  readonly masters: 2 | 3
  /** All masters are behind one address. */
  readonly shared: boolean
  readonly faults: readonly Fault[]
  /**
   * `etcd` expires leases by its own clock. With `kubernetes` each sidecar decides by its own clock which leases are
   * over, and deletes them; all requests go through the master's own API server.
   * @default etcd
   */
  readonly store?: 'etcd' | 'kubernetes' | undefined
  /** Whether reads distinguish renewals. @default false */
  readonly renewals?: boolean | undefined
}

/** A write that the store may still execute although the sidecar gave it up. */
export interface Ghost {
  readonly master: number
  readonly type: 'renew' | 'mark' | 'remove'
  readonly holder: Holder
  readonly left: number
}

/**
 * What all moves share: the meaning of the numbers in a state, which requests fail, and what watches report at once.
 */
export class Cluster {
  readonly options: WorldOptions
  readonly processes: Processes
  readonly stores: Stores
  readonly masters: readonly number[]
  /** Whether each sidecar decides which leases are over, because the store expires none. */
  readonly observes: boolean
  /** Whether each renewal of another master's lease changes what a sidecar knows. */
  readonly tracksRenewals: boolean
  readonly width: number
  readonly #faults: ReadonlySet<Fault>
  readonly #ghosts: Ghost[] = [undefined as unknown as Ghost]
  readonly #ghostIds = new Map<string, number>()

  constructor(options: WorldOptions) {
    this.options = options
    const { machine, store = 'etcd', renewals = false } = options
    this.observes = store === 'kubernetes'
    this.tracksRenewals = renewals || this.observes
    this.processes = new Processes({
      machine,
      timings: modelTimings,
      observes: this.observes,
      knowsRenewals: renewals,
    })
    this.stores = new Stores({
      ttlMs: this.observes ? Number.POSITIVE_INFINITY : modelTimings.ttlMs,
      renewalOf: (state) => (renewals && (this.observes || hasLease(state)) ? SHOWN : undefined),
      viewOf: (leases) => this.processes.view(leases),
    })
    this.masters = Array.from({ length: options.masters }, (_, index) => index)
    this.#faults = new Set(options.faults)
    this.width = SHARED + options.masters * EACH
  }

  allows(fault: Fault): boolean {
    return this.#faults.has(fault)
  }

  /** Assigns a number to a write that may still be executed. */
  ghost(ghost: Ghost): number {
    const key = JSON.stringify(ghost)
    const known = this.#ghostIds.get(key)
    if (known !== undefined) return known
    this.#ghosts.push(ghost)
    this.#ghostIds.set(key, this.#ghosts.length - 1)
    return this.#ghosts.length - 1
  }

  ghostIn(world: World): Ghost | undefined {
    return this.#ghosts[world[GHOST] as number]
  }

  server(world: World, master: number): Server {
    return get(world, master, 'server') as Server
  }

  addressOf(master: number): number {
    return this.options.shared ? 0 : master
  }

  addressBit(master: number): number {
    return 1 << this.addressOf(master)
  }

  /** Whether the master runs, serves, and has neither left nor begun to leave. */
  isMember(world: World, master: number, slots: readonly number[]): boolean {
    if (this.server(world, master) !== OK) return false
    return slots.some((slot) => {
      if (statusOf(world, master, slot) !== RUNNING) return false
      const { phase } = this.processes.of(processIn(world, master, slot)).state
      return phase.type !== 'out' && phase.type !== 'leaving'
    })
  }

  viewOf(store: number): number {
    return this.stores.facts(store).view
  }

  /** Whether this master's requests for the leases fail. */
  isAway(world: World, master: number): boolean {
    return world[ENV] === 1 || (this.observes && !this.answers(world, master))
  }

  /** Whether this master can neither read nor write the list through its API server. */
  listFails(world: World, master: number): boolean {
    return world[ENV] === 1 || !this.answers(world, master)
  }

  answers(world: World, master: number): boolean {
    const server = this.server(world, master)
    return server === OK || server === FAILING
  }

  /** Whether the watch of the leases delivers to this sidecar. */
  receives(world: World, master: number, slot: number): boolean {
    if (statusOf(world, master, slot) !== RUNNING) return false
    if (slot === CUR && get(world, master, 'deaf') === 1) return false
    return !this.observes || this.answers(world, master)
  }

  notify(world: World, master: number, slot: number): void {
    if (!this.receives(world, master, slot)) return
    const id = processIn(world, master, slot)
    const { present } = this.stores.facts(world[STORE] as number)
    setProcess(world, master, slot, this.processes.changed(id, this.server(world, master), present))
  }

  /** Updates all sidecars after the renewal of a master's lease. */
  renewed(before: World, world: World, renewed: number): void {
    const isNew = this.stores.record(before[STORE] as number, renewed) === undefined
    for (const master of this.masters) {
      for (const slot of [CUR, OLD]) {
        const id = processIn(world, master, slot)
        if (id === 0) continue
        const isReported = this.receives(world, master, slot)
        setProcess(world, master, slot, this.processes.renewed(id, renewed, isReported, isNew))
      }
    }
  }

  /** Delivers a change of the store to the watches. */
  noticed(before: World, world: World): World {
    if (this.viewOf(before[STORE] as number) === this.viewOf(world[STORE] as number)) return world
    for (const master of this.masters) for (const slot of [CUR, OLD]) this.notify(world, master, slot)
    return world
  }

  /** Ends the sidecars that are out, and restarts the numbering of departures that nothing mentions. */
  settled(world: World): World {
    let mentions = this.stores.facts(world[STORE] as number).mentions
    for (const master of this.masters) {
      for (const slot of [CUR, OLD]) {
        const id = processIn(world, master, slot)
        if (id === 0) continue
        const facts = this.processes.facts(id)
        if (facts.hasExited && statusOf(world, master, slot) === RUNNING) {
          setProcess(world, master, slot, 0)
          setStatus(world, master, slot, slot === CUR ? GONE : ABSENT)
        } else {
          mentions |= facts.mentions
        }
      }
    }
    for (const master of this.masters) {
      for (const slot of [CUR, OLD]) {
        const id = processIn(world, master, slot)
        if (id === 0) continue
        const { process } = this.processes.facts(id)
        if (process.state.departures === 0 || world[GHOST] !== 0) continue
        if ((mentions & (1 << (master * LIVES + process.life))) === 0) {
          setProcess(world, master, slot, this.processes.renumbered(id))
        }
      }
    }
    return this.recounted(world)
  }

  /** Renumbers the lives of each master from the first that anything mentions. */
  recounted(world: World): World {
    // A late write mentions lives too.
    if (world[GHOST] !== 0 || this.masters.every((master) => get(world, master, 'life') === 0)) return world
    let all = this.stores.facts(world[STORE] as number).lives
    for (const master of this.masters) {
      for (const slot of [CUR, OLD]) {
        const id = processIn(world, master, slot)
        if (id !== 0) all |= this.processes.facts(id).lives
      }
    }
    for (const master of this.masters) {
      const lives = (all >> (master * LIVES)) & (2 ** LIVES - 1)
      const counted = countedAnew(lives)
      if (counted !== undefined) {
        world[STORE] = this.stores.recounted(world[STORE] as number, master, lives)
        for (const other of this.masters) {
          for (const slot of [CUR, OLD]) {
            const id = processIn(world, other, slot)
            if (id !== 0) setProcess(world, other, slot, this.processes.recounted(id, master, lives))
          }
        }
      }
      // Without a running sidecar, the number is that of the latest life that anything mentions.
      const life = processIn(world, master, CUR) === 0 ? 0 : this.processes.of(processIn(world, master, CUR)).life
      const latest = lives === 0 ? 0 : 31 - Math.clz32(lives)
      set(world, master, 'life', processIn(world, master, CUR) === 0 ? (counted?.[latest] ?? latest) : life)
    }
    return world
  }

  with(world: World, master: number, slot: number, id: number): World {
    const after = world.slice()
    setProcess(after, master, slot, id)
    return this.settled(after)
  }
}
