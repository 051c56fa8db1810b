import type { Cluster, Ghost } from './cluster.ts'
import {
  ABSENT,
  CRASHED,
  CUR,
  ENV,
  FREEZING,
  GHOST,
  get,
  isFrozen,
  nameOf,
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
import { LIVES } from './machine.ts'
import { costOf, type Emit, type Fault, moveOf } from './moves.ts'
import { DEAD, FAILING, HUNG, OK, type Server } from './processes.ts'
import type { Requests } from './requests.ts'

/** The faults of sidecars, servers, watches and the store, and their ends. */
export class Environment {
  readonly #cluster: Cluster
  readonly #requests: Requests

  constructor(cluster: Cluster, requests: Requests) {
    this.#cluster = cluster
    this.#requests = requests
  }

  /**
   * Ends lasting faults: frozen sidecars thaw, the store answers, and watches deliver. Executes a late write. Failed
   * servers and crashed sidecars stay so.
   */
  healed(world: World): World {
    let after = world[ENV] === 1 ? this.#storeBack(world) : world.slice()
    if (after[GHOST] !== 0) after = this.#ghostDone(after)
    for (const master of this.#cluster.masters) {
      if (get(after, master, 'deaf') === 1) after = this.#hear(after, master)
      for (const slot of [CUR, OLD]) {
        if (isFrozen(statusOf(after, master, slot))) after = this.#thaw(after, master, slot, false)
      }
    }
    return this.#cluster.settled(after)
  }

  #ghostDone(world: World): World {
    const { master, type, holder } = this.#cluster.ghostIn(world) as Ghost
    const after = world.slice()
    after[GHOST] = 0
    const { store, isRenewed } = this.#requests.written(world, master, type, holder)
    after[STORE] = store
    if (isRenewed) this.#cluster.renewed(world, after, master)
    return this.#cluster.settled(this.#cluster.noticed(world, after))
  }

  faultMoves(world: World, emit: Emit, victims: number, affordable: number): void {
    if (world[GHOST] !== 0 && world[ENV] === 0) emit(moveOf('ghost'), this.#ghostDone(world), 0)
    if (affordable === 0) return
    const allows = (fault: Fault): boolean => this.#cluster.allows(fault)
    const change = (fault: Fault, master: number, slot: number, edit: (after: World) => void): void => {
      const cost = costOf(fault)
      if (!allows(fault) || master >= victims || cost > affordable) return
      const after = world.slice()
      edit(after)
      emit(moveOf(fault, master, slot), this.#cluster.settled(after), cost)
    }
    for (const master of this.#cluster.masters) {
      const cur = get(world, master, 'cur')
      const server = this.#cluster.server(world, master)
      if (cur === RUNNING || isFrozen(cur)) {
        change('crash', master, CUR, (after) => this.#crash(after, master))
        change('host', master, CUR, (after) => {
          this.#crash(after, master)
          setProcess(after, master, OLD, 0)
          set(after, master, 'old', ABSENT)
          this.#serverFails(after, master, DEAD)
        })
      }
      if (cur === RUNNING) {
        change('freeze', master, CUR, (after) => {
          set(after, master, 'cur', FREEZING)
          set(after, master, 'hit', 1)
        })
        if (get(world, master, 'deaf') === 0) {
          change('watch', master, CUR, (after) => set(after, master, 'deaf', 1))
        }
        change('clock', master, CUR, (after) => {
          const id = processIn(after, master, CUR)
          setProcess(after, master, CUR, this.#cluster.processes.ticked(id, server, false))
        })
        if (processIn(world, master, OLD) === 0 && get(world, master, 'life') < LIVES - 1) {
          change('restart', master, CUR, (after) => {
            const { phase } = this.#cluster.processes.of(processIn(after, master, CUR)).state
            if (phase.type === 'leaving' || phase.type === 'out') set(after, master, 'hit', 1)
            setProcess(after, master, OLD, processIn(after, master, CUR))
            set(after, master, 'old', RUNNING)
            this.#begin(after, master)
          })
        }
      }
      for (const slot of [CUR, OLD]) {
        if (statusOf(world, master, slot) !== RUNNING) continue
        const id = processIn(world, master, slot)
        const { phase } = this.#cluster.processes.of(id).state
        if (phase.type === 'leaving') continue
        for (const mode of ['withdraw', 'always', 'keep'] as const) {
          change(mode, master, slot, (after) => {
            setProcess(after, master, slot, this.#cluster.processes.stopped(id, server, mode))
            // The earlier life takes away a lease that the later life has not taken over yet.
            const holder = this.#cluster.stores.record(after[STORE] as number, master)
            const { life } = this.#cluster.processes.of(id)
            if (slot === CUR && mode !== 'withdraw') set(after, master, 'hit', 1)
            if (slot === OLD && holder?.instanceId === `${nameOf(master)}${life}`) set(after, master, 'hit', 1)
          })
        }
        if (slot === OLD && cur === RUNNING) {
          change('freeze', master, OLD, (after) => set(after, master, 'old', FREEZING))
        }
      }
      if (server === OK) {
        change('failing', master, CUR, (after) => this.#serverFails(after, master, FAILING))
        change('dead', master, CUR, (after) => this.#serverFails(after, master, DEAD))
        change('hung', master, CUR, (after) => this.#serverFails(after, master, HUNG))
      }
      const record = this.#cluster.stores.record(world[STORE] as number, master)
      if (record !== undefined && record.state !== 'withdrawn' && world[ENV] === 0) {
        change('evict', master, CUR, (after) => {
          after[STORE] = this.#cluster.stores.withdrawn(after[STORE] as number, master)
          set(after, master, 'hit', 1)
          this.#cluster.noticed(world, after)
        })
      }
    }
    if (world[ENV] === 0) {
      change('store', 0, CUR, (after) => {
        after[ENV] = 1
      })
      change('outage', 0, CUR, (after) => {
        after[ENV] = 1
        for (const master of this.#cluster.masters) this.#serverFails(after, master, FAILING)
      })
    }
    if (this.#cluster.masters.every((master) => this.#cluster.server(world, master) === OK)) {
      change('all-failing', 0, CUR, (after) => {
        for (const master of this.#cluster.masters) this.#serverFails(after, master, FAILING)
      })
      change('all-hung', 0, CUR, (after) => {
        for (const master of this.#cluster.masters) this.#serverFails(after, master, HUNG)
      })
    }
  }

  #crash(world: World, master: number): void {
    setProcess(world, master, CUR, 0)
    set(world, master, 'cur', CRASHED)
    set(world, master, 'hit', 1)
    set(world, master, 'deaf', 0)
  }

  #serverFails(world: World, master: number, server: Server): void {
    if (this.#cluster.server(world, master) !== OK) return
    set(world, master, 'server', server)
    set(world, master, 'hit', 1)
    set(world, master, 'down', 0)
  }

  #begin(world: World, master: number): void {
    const isFirst = get(world, master, 'cur') === ABSENT
    const life = isFirst ? 0 : get(world, master, 'life') + 1
    set(world, master, 'life', life)
    if (isFirst) set(world, master, 'hit', 1)
    set(world, master, 'cur', RUNNING)
    set(world, master, 'deaf', 0)
    const id = this.#cluster.processes.started(master, life, this.#cluster.addressOf(master))
    setProcess(world, master, CUR, this.#cluster.processes.begun(id, this.#cluster.server(world, master)))
    if (this.#cluster.observes) this.#cluster.notify(world, master, CUR)
  }

  #thaw(world: World, master: number, slot: number, isLate: boolean): World {
    const after = world.slice()
    let id = processIn(after, master, slot)
    const server = this.#cluster.server(after, master)
    if (isLate && this.#cluster.processes.of(id).lease === 'pending') id = this.#cluster.processes.withLease(id, 'lost')
    setStatus(after, master, slot, RUNNING)
    setProcess(after, master, slot, this.#cluster.processes.thawed(id, server))
    this.#cluster.notify(after, master, slot)
    return this.#cluster.settled(after)
  }

  #hear(world: World, master: number): World {
    const after = world.slice()
    set(after, master, 'deaf', 0)
    this.#cluster.notify(after, master, CUR)
    return this.#cluster.settled(after)
  }

  #storeBack(world: World): World {
    const after = world.slice()
    after[ENV] = 0
    for (const master of this.#cluster.masters) for (const slot of [CUR, OLD]) this.#cluster.notify(after, master, slot)
    return this.#cluster.settled(after)
  }

  healMoves(world: World, emit: Emit): void {
    if (world[ENV] === 1) {
      emit(moveOf('store-back'), this.#storeBack(world), 0)
    }
    for (const master of this.#cluster.masters) {
      const cur = get(world, master, 'cur')
      for (const slot of [CUR, OLD]) {
        if (!isFrozen(statusOf(world, master, slot))) continue
        emit(moveOf('thaw', master, slot), this.#thaw(world, master, slot, false), 0)
        if (this.#cluster.processes.of(processIn(world, master, slot)).lease === 'pending') {
          emit(moveOf('thaw-late', master, slot), this.#thaw(world, master, slot, true), 0)
        }
      }
      if (get(world, master, 'deaf') === 1 && cur === RUNNING) {
        emit(moveOf('hear', master), this.#hear(world, master), 0)
      }
      if (processIn(world, master, OLD) !== 0) {
        const after = world.slice()
        setProcess(after, master, OLD, 0)
        set(after, master, 'old', ABSENT)
        emit(moveOf('old-dies', master), this.#cluster.settled(after), 0)
      }
      if (this.#cluster.server(world, master) !== OK) {
        const after = world.slice()
        set(after, master, 'server', OK)
        set(after, master, 'down', 0)
        if (this.#cluster.observes) for (const slot of [CUR, OLD]) this.#cluster.notify(after, master, slot)
        emit(moveOf('heal', master), this.#cluster.settled(after), 0)
      }
      if (cur === ABSENT || (cur === CRASHED && get(world, master, 'life') < LIVES - 1)) {
        const after = world.slice()
        this.#begin(after, master)
        emit(moveOf(cur === ABSENT ? 'start' : 'rejoin', master), this.#cluster.settled(after), 0)
      }
    }
  }
}
