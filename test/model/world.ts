import type { Endpoints } from '../../src/kube/resources.ts'
import { keepsLease } from '../../src/kubernetes-service/leases/etcd-snapshot.ts'
import type { Holder } from '../../src/kubernetes-service/leases/master-leases.ts'
import { listedAddresses, othersReady } from '../../src/kubernetes-service/members.ts'
import { leasesForList } from '../../src/kubernetes-service/membership/fleet.ts'
import type { Membership } from '../../src/kubernetes-service/membership/state.ts'
import { countedAnew } from './lives.ts'
import { addressText, LIVES, type Machine, modelTimings } from './machine.ts'
import { type ListJob, type Process, SHOWN } from './process.ts'
import { DEAD, FAILING, HUNG, OK, Processes, SERVERS, type Server } from './processes.ts'
import { Stores } from './stores.ts'

/** What may go wrong; each use of one is taken from the budget. */
export const FAULTS = [
  'crash', // the sidecar dies; it may be started again at any time
  'host', // the sidecar and its server die
  'freeze', // the sidecar stops for as long as it likes
  'failing', // the server says that it is not ready, for as long as it likes
  'dead', // the server refuses connections, for as long as it likes
  'hung', // the server answers nothing, for as long as it likes
  'restart', // another life begins while this one goes on
  'withdraw', // SIGTERM with each mode
  'always',
  'keep',
  'evict', // marked as withdrawn from outside
  'watch', // the watch of the leases tells nothing, for as long as it likes
  'clock', // this sidecar's clock runs ahead by a tick
  'store', // the store of the leases answers nothing, for as long as it likes
  'outage', // the same, and all servers fail meanwhile
  'all-failing', // all servers say that they are not ready
  'all-hung', // all servers answer nothing
  'refused', // one request is refused
  'lost', // one request is lost
  'answer-lost', // one answer is lost
  'slow', // one request takes a tick
  'late', // one write is carried out after it was given up
] as const
export type Fault = (typeof FAULTS)[number]

/** These hit several at once, and take two from the budget. */
const hitsAll: ReadonlySet<Fault> = new Set(['outage', 'all-failing', 'all-hung'])

export interface WorldOptions {
  readonly machine: Machine
  readonly masters: 2 | 3
  /** All masters are behind one address. */
  readonly shared: boolean
  readonly faults: readonly Fault[]
  /**
   * `etcd` ends leases by its own clock. With `kubernetes` each sidecar judges by its own, and deletes what it finds over; all requests go
   * through the master's own API server.
   * @default etcd
   */
  readonly store?: 'etcd' | 'kubernetes' | undefined
  /** Reads tell renewals apart. @default false */
  readonly renewals?: boolean | undefined
}

/** Numbers that a state of the world consists of: shared ones, and those of each master. */
const LIST = 0
const STORE = 1
const GHOST = 2
const ENV = 3
const SHARED = 4
const CUR = 0
const OLD = 1
const BITS = 2
const EACH = 3

/** What has become of a sidecar. */
/** `FREEZING`: frozen in this tick, so that what it has sent may still be carried out. */
const [ABSENT, RUNNING, FREEZING, FROZEN, CRASHED, GONE] = [0, 1, 2, 3, 4, 5] as const

/** Fields of a master's bits: where they begin and how wide they are. */
const fields = {
  server: [0, 3],
  cur: [2, 7],
  old: [5, 7],
  /** Its server or sidecar had a fault, and it has not renewed since. */
  hit: [8, 1],
  /** The watch of the sidecar is broken. */
  deaf: [9, 1],
  life: [10, 3],
  /** Whether the server was not well at the beginning of this tick. */
  down: [12, 1],
} as const
type Field = keyof typeof fields

export type World = Int32Array

/** A write that may still be carried out though it was given up. */
interface Ghost {
  readonly master: number
  readonly type: 'renew' | 'mark' | 'remove'
  readonly holder: Holder
  readonly left: number
}

/** What was done, as a number, so that a trace can be played again: see {@link WorldModel.describe}. */
export type Move = number

const moves = [
  'tick',
  'done',
  ...FAULTS,
  'found-before',
  'thaw',
  'thaw-late',
  'heal',
  'rejoin',
  'old-dies',
  'hear',
  'store-back',
  'start',
  'ghost',
  'ghost-gone',
] as const
type MoveName = (typeof moves)[number]
const moveIndex = new Map(moves.map((name, index) => [name, index]))
const kinds = ['lease', 'read', 'list', 'none'] as const
type Kind = (typeof kinds)[number]

function moveOf(name: MoveName, master = 0, slot = 0, kind: Kind = 'none'): Move {
  return (((moveIndex.get(name) as number) * 4 + master) * 2 + slot) * 4 + kinds.indexOf(kind)
}

/** What is wrong in a state or with a move. */
export class Violation extends Error {
  readonly invariant: string
  constructor(invariant: string, reason: string) {
    super(`${invariant}: ${reason}`)
    this.invariant = invariant
  }
}

/** `faults`: how many it takes from the budget. */
export type Emit = (move: Move, world: World, faults: number) => void

/**
 * Masters, their API servers, the store of the leases and the list, in ticks of one second.
 *
 * Assumed, so that the space stays small:
 * - A request without a fault is carried out in the tick in which it was sent; those of different sidecars in any order, those of one
 *   in the order lease, read, list. Faults bring other orders.
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
export class WorldModel {
  readonly options: WorldOptions
  readonly processes: Processes
  readonly stores: Stores
  readonly width: number
  /** The move that {@link successors} was about when it threw. */
  trying: Move = 0
  readonly #masters: readonly number[]
  readonly #faults: ReadonlySet<Fault>
  readonly #observes: boolean
  /** What a sidecar knows changes with each renewal of another's lease. */
  readonly #tracksRenewals: boolean
  /** So many masters may be hit by the next fault: all are alike until the first one. */
  #victims = 0
  readonly #ghosts: Ghost[] = [undefined as unknown as Ghost]
  readonly #ghostIds = new Map<string, number>()

  constructor(options: WorldOptions) {
    this.options = options
    const { machine, store = 'etcd', renewals = false } = options
    this.#observes = store === 'kubernetes'
    this.#tracksRenewals = renewals || this.#observes
    this.processes = new Processes({
      machine,
      timings: modelTimings,
      observes: this.#observes,
      knowsRenewals: renewals,
    })
    this.stores = new Stores({
      ttlMs: this.#observes ? Number.POSITIVE_INFINITY : modelTimings.ttlMs,
      renewalOf: (state) => (renewals && (this.#observes || keepsLease(state)) ? SHOWN : undefined),
      viewOf: (leases) => this.processes.view(leases),
    })
    this.#masters = Array.from({ length: options.masters }, (_, index) => index)
    this.#faults = new Set(options.faults)
    this.width = SHARED + options.masters * EACH
  }

  /** Nobody has been started. */
  initial(): World {
    const world = new Int32Array(this.width)
    world[STORE] = this.stores.intern(this.#masters.map(() => undefined))
    return world
  }

  /** All that can happen next; `affordable`: with so many faults at most. Throws {@link Violation} for what must not. */
  successors(world: World, emit: Emit, isFirstFault: boolean, affordable: number): void {
    this.#victims = affordable === 0 ? 0 : isFirstFault ? 1 : this.#masters.length
    const pending = this.#pending(world)
    const blocking = pending.filter(({ isFrozen }) => !isFrozen)
    const invisible = blocking.find((one) => this.#isInvisible(world, one, pending))
    if (invisible !== undefined) {
      this.#requestMoves(world, invisible, emit)
      return
    }
    for (const one of pending) this.#requestMoves(world, one, emit)
    this.#environmentMoves(world, emit, affordable)
    if (blocking.length === 0) {
      this.#healMoves(world, emit)
      emit(moveOf('tick'), this.#tick(world), 0)
    }
  }

  /** Ends all faults that last: frozen sidecars go on, the store answers, watches tell. Servers and sidecars that are dead stay so. */
  healed(world: World): World {
    let after = world[ENV] === 1 ? this.#storeBack(world) : world.slice()
    if (after[GHOST] !== 0) after = this.#ghostDone(after)
    for (const master of this.#masters) {
      if (this.#get(after, master, 'deaf') === 1) after = this.#hear(after, master)
      for (const slot of [CUR, OLD]) {
        if (isFrozen(this.#status(after, master, slot))) after = this.#thaw(after, master, slot, false)
      }
    }
    return this.#settled(after)
  }

  /** The one move of a run without faults. */
  fairMove(world: World): World {
    const [first] = this.#pending(world)
    this.trying = first === undefined ? moveOf('tick') : moveOf('done', first.master, first.slot, first.kind)
    return first === undefined ? this.#tick(world) : this.#done(world, first)
  }

  /** Whether all that must be done before the next tick is done. */
  isQuiet(world: World): boolean {
    return this.#pending(world).length === 0
  }

  /** What is not as it should be once faults have ended long ago; undefined when all is. */
  unsettled(world: World): string | undefined {
    const listed = world[LIST] as number
    const members = this.#masters.filter((master) => this.#isMember(world, master, [CUR, OLD]))
    if (members.length === 0) return undefined
    for (const master of members) {
      if ((listed & this.#addressBit(master)) === 0) return `${nameOf(master)} lives and serves, and is not listed`
    }
    for (const master of this.#masters) {
      const bit = this.#addressBit(master)
      if ((listed & bit) === 0 || members.some((member) => this.#addressBit(member) === bit)) continue
      return `${nameOf(master)} does not serve, and is listed`
    }
    return undefined
  }

  // ---- fields

  #get(world: World, master: number, field: Field): number {
    const [shift, mask] = fields[field]
    return ((world[SHARED + master * EACH + BITS] as number) >> shift) & mask
  }

  #set(world: World, master: number, field: Field, value: number): void {
    const [shift, mask] = fields[field]
    const at = SHARED + master * EACH + BITS
    world[at] = ((world[at] as number) & ~(mask << shift)) | (value << shift)
  }

  #process(world: World, master: number, slot: number): number {
    return world[SHARED + master * EACH + slot] as number
  }

  #setProcess(world: World, master: number, slot: number, id: number): void {
    world[SHARED + master * EACH + slot] = id
  }

  #status(world: World, master: number, slot: number): number {
    return this.#get(world, master, slot === CUR ? 'cur' : 'old')
  }

  #setStatus(world: World, master: number, slot: number, status: number): void {
    this.#set(world, master, slot === CUR ? 'cur' : 'old', status)
  }

  #server(world: World, master: number): Server {
    return this.#get(world, master, 'server') as Server
  }

  #addressOf(master: number): number {
    return this.options.shared ? 0 : master
  }

  #addressBit(master: number): number {
    return 1 << this.#addressOf(master)
  }

  /** It runs, serves, wants to be listed and may be. */
  #isMember(world: World, master: number, slots: readonly number[]): boolean {
    if (this.#server(world, master) !== OK) return false
    return slots.some((slot) => {
      if (this.#status(world, master, slot) !== RUNNING) return false
      const { phase } = this.processes.of(this.#process(world, master, slot)).state
      return phase.type !== 'out' && phase.type !== 'leaving'
    })
  }

  // ---- requests

  /**
   * What each sidecar's next request is. Those that it has sent at once are carried out in this order: for the lease, the read, the
   * list. Faults bring any other: what is slow is carried out behind the rest.
   */
  #pending(world: World): Pending[] {
    const found: Pending[] = []
    for (const master of this.#masters) {
      for (const slot of [CUR, OLD]) {
        const status = this.#status(world, master, slot)
        if (status !== RUNNING && status !== FREEZING) continue
        const id = this.#process(world, master, slot)
        const { lease, read, list } = this.processes.of(id)
        const isFrozen = status === FREEZING
        if (lease === 'pending') found.push({ master, slot, id, kind: 'lease', isFrozen })
        else if (read === 'pending') found.push({ master, slot, id, kind: 'read', isFrozen })
        else if (list?.status === 'pending') found.push({ master, slot, id, kind: 'list', isFrozen })
      }
    }
    return found
  }

  /**
   * Whether nobody can tell when exactly in this tick it is carried out: a renewal that changes nothing but the time that a lease has
   * left, or a read of what this master knows already while nobody is about to write.
   */
  #isInvisible(world: World, one: Pending, pending: readonly Pending[]): boolean {
    if (one.kind === 'list' ? this.#listFails(world, one.master) : this.#isAway(world, one.master)) return true
    const process = this.processes.of(one.id)
    const { request } = process.state.lease
    if (one.kind === 'lease') {
      if (request === undefined) return true
      const { store, isRenewed } = this.stores.write(world[STORE] as number, one.master, request.type, request.holder)
      if (this.#viewOf(store) !== this.#viewOf(world[STORE] as number)) return false
      return isRenewed !== true || this.#isRenewalUnnoticed(world, one)
    }
    if (pending.some((other) => this.#writes(world, other))) return false
    return one.kind === 'read' || process.list?.stage === 'look' ? this.#doneQuietly(world, one) : false
  }

  #isRenewalUnnoticed(world: World, one: Pending): boolean {
    if (!this.#tracksRenewals) return true
    return this.#masters.every((master) =>
      [CUR, OLD].every((slot) => {
        const id = this.#process(world, master, slot)
        if (id === 0 || (master === one.master && slot === one.slot)) return true
        return this.processes.isBlindTo(id, one.master) && (!this.#observes || this.#hears(world, master, slot))
      }),
    )
  }

  /** Whether a request that is under way may change what others read. */
  #writes(world: World, { id, kind, master }: Pending): boolean {
    const { list, state } = this.processes.of(id)
    if (kind === 'list') return list?.stage === 'commit'
    if (kind === 'read' || state.lease.request === undefined) return false
    const { type, holder } = state.lease.request
    const { store } = this.stores.write(world[STORE] as number, master, type, holder)
    return this.#viewOf(store) !== this.#viewOf(world[STORE] as number)
  }

  /** Whether this read leads to nothing: no request follows from it. */
  #doneQuietly(world: World, one: Pending): boolean {
    const done = this.#done(world, one)
    const after = this.#process(done, one.master, one.slot)
    if (after === 0 || done[STORE] !== world[STORE]) return false
    const { lease, list } = this.processes.of(after)
    return lease === 'none' && list?.stage !== 'commit'
  }

  #viewOf(store: number): number {
    return this.stores.facts(store).view
  }

  #requestMoves(world: World, one: Pending, emit: Emit): void {
    const { master, slot, kind, id } = one
    const move = (name: MoveName): Move => moveOf(name, master, slot, kind)
    this.trying = move('done')
    emit(move('done'), this.#done(world, one), 0)
    if (one.isFrozen || master >= this.#victims) return
    const allows = (fault: Fault): boolean => this.#faults.has(fault)
    const with_ = (process: number): World => this.#with(world, master, slot, process)
    const server = this.#server(world, master)
    switch (kind) {
      case 'lease': {
        if (this.#isAway(world, master)) return
        if (allows('refused')) emit(move('refused'), with_(this.processes.leaseEnded(id, server, 'unknown')), 1)
        if (allows('lost')) emit(move('lost'), with_(this.processes.withLease(id, 'lost')), 1)
        if (allows('slow')) emit(move('slow'), with_(this.processes.withLease(id, 'delayed')), 1)
        if (allows('answer-lost')) emit(move('answer-lost'), this.#leaseDone(world, one, false), 1)
        if (allows('late') && world[GHOST] === 0) {
          const after = with_(this.processes.withLease(id, 'lost'))
          const { type, holder } = this.processes.of(id).state.lease.request as { type: 'renew'; holder: Holder }
          after[GHOST] = this.#ghost({ master, type, holder, left: 3 })
          emit(move('late'), after, 1)
        }
        return
      }
      case 'read':
        if (this.#isAway(world, master)) return
        if (allows('lost')) emit(move('lost'), with_(this.processes.withRead(id, 'lost', undefined)), 1)
        if (this.#observes && allows('refused')) {
          // The list is answered, and what it shows as over cannot be deleted.
          const read = this.#read(world, one, this.#viewOf(world[STORE] as number), true)
          if (this.#over(world, read) !== 0) emit(move('refused'), with_(read), 1)
        }
        if (allows('slow')) {
          const view = this.#observes ? undefined : this.#viewOf(world[STORE] as number)
          emit(move('slow'), with_(this.processes.withRead(id, 'delayed', view)), 1)
        }
        return
      case 'list': {
        const { stage } = this.processes.of(id).list as ListJob
        if (allows('refused')) emit(move('refused'), with_(this.processes.withList(id, { status: 'failing' })), 1)
        if (stage === 'look') return
        if (allows('slow')) emit(move('slow'), with_(this.processes.withList(id, { status: 'delayed' })), 1)
        if (allows('answer-lost')) emit(move('answer-lost'), this.#committed(world, one, false), 1)
      }
    }
  }

  #done(world: World, one: Pending): World {
    switch (one.kind) {
      case 'lease':
        return this.#leaseDone(world, one, true)
      case 'read': {
        const { master, slot, id } = one
        if (this.#isAway(world, master)) {
          return this.#with(world, master, slot, this.processes.withRead(id, 'lost', undefined))
        }
        const view = this.#viewOf(world[STORE] as number)
        return this.#collected(world, master, slot, this.#read(world, one, view, true))
      }
      case 'list':
        return this.#listDone(world, one)
    }
  }

  #read(world: World, { master, id, isFrozen }: Pending, view: number, asked: boolean): number {
    // What a frozen sidecar was sent waits until it goes on.
    if (isFrozen) {
      return this.#observes
        ? this.processes.withRead(id, 'lost', undefined)
        : this.processes.withRead(id, 'delayed', view)
    }
    return this.processes.leasesRead(id, this.#server(world, master), view, asked)
  }

  /** Leases that are in the store, and over for whoever has just listed them. */
  #over(world: World, id: number): number {
    return this.processes.overFor(id) & this.stores.facts(world[STORE] as number).present
  }

  /** Who has listed the leases deletes those that are over. */
  #collected(world: World, master: number, slot: number, id: number): World {
    const after = world.slice()
    this.#setProcess(after, master, slot, id)
    if (this.#observes) after[STORE] = this.stores.without(after[STORE] as number, this.#over(world, id))
    return this.#settled(this.#noticed(world, after))
  }

  #leaseDone(world: World, one: Pending, answered: boolean): World {
    const { master, slot, id } = one
    if (this.#isAway(world, master)) return this.#with(world, master, slot, this.processes.withLease(id, 'lost'))
    const server = this.#server(world, master)
    const { type, holder } = this.processes.of(id).state.lease.request as NonNullable<
      Process['state']['lease']['request']
    >
    const { store, outcome, isRenewed } = this.#written(world, master, type, holder)
    const process =
      answered && !one.isFrozen ? this.processes.leaseEnded(id, server, outcome) : this.processes.withLease(id, 'lost')
    const after = world.slice()
    after[STORE] = store
    this.#setProcess(after, master, slot, process)
    const isWell = server === OK && slot === CUR && holder.state === 'ready'
    if (isWell && answered && !one.isFrozen && type === 'renew' && outcome === 'done')
      this.#set(after, master, 'hit', 0)
    if (isRenewed) this.#renewed(world, after, master)
    return this.#settled(this.#noticed(world, after))
  }

  #written(world: World, master: number, type: 'renew' | 'mark' | 'remove', holder: Holder) {
    const before = this.stores.record(world[STORE] as number, master)
    const written = this.stores.write(world[STORE] as number, master, type, holder)
    const after = this.stores.record(written.store, master)
    // Life 0 is never started again while later ones are there.
    if (before !== undefined && before.instanceId > holder.instanceId && after?.instanceId !== before.instanceId) {
      throw new Violation('lives', `${holder.instanceId} overwrites or removes the lease of its later life`)
    }
    return written
  }

  /** Whether no request for the leases is carried out for this master. */
  #isAway(world: World, master: number): boolean {
    return world[ENV] === 1 || (this.#observes && !this.#answers(world, master))
  }

  /** Whether no list can be read or written by way of this master's API server. */
  #listFails(world: World, master: number): boolean {
    return world[ENV] === 1 || !this.#answers(world, master)
  }

  #answers(world: World, master: number): boolean {
    const server = this.#server(world, master)
    return server === OK || server === FAILING
  }

  /** Whether the watch of the leases tells this sidecar what happens. */
  #hears(world: World, master: number, slot: number): boolean {
    if (this.#status(world, master, slot) !== RUNNING) return false
    if (slot === CUR && this.#get(world, master, 'deaf') === 1) return false
    return !this.#observes || this.#answers(world, master)
  }

  #tell(world: World, master: number, slot: number): void {
    if (!this.#hears(world, master, slot)) return
    const id = this.#process(world, master, slot)
    const { present } = this.stores.facts(world[STORE] as number)
    this.#setProcess(world, master, slot, this.processes.changed(id, this.#server(world, master), present))
  }

  /** The lease of this master was renewed. */
  #renewed(before: World, world: World, renewed: number): void {
    const isNew = this.stores.record(before[STORE] as number, renewed) === undefined
    for (const master of this.#masters) {
      for (const slot of [CUR, OLD]) {
        const id = this.#process(world, master, slot)
        if (id === 0) continue
        const isTold = this.#hears(world, master, slot)
        this.#setProcess(world, master, slot, this.processes.renewed(id, renewed, isTold, isNew))
      }
    }
  }

  /** Tells the watches of a change of the store. */
  #noticed(before: World, world: World): World {
    if (this.#viewOf(before[STORE] as number) === this.#viewOf(world[STORE] as number)) return world
    for (const master of this.#masters) for (const slot of [CUR, OLD]) this.#tell(world, master, slot)
    return world
  }

  #listDone(world: World, one: Pending): World {
    const { master, slot, id } = one
    const server = this.#server(world, master)
    const job = this.processes.of(id).list as ListJob
    if (this.#listFails(world, master))
      return this.#with(world, master, slot, this.processes.withList(id, { status: 'failing' }))
    if (job.stage === 'commit') return this.#committed(world, one, true)
    // The list is read first, then the leases: here at once, because whoever writes in between makes the commit fail.
    const known = this.processes.leasesRead(id, server, this.#viewOf(world[STORE] as number), false)
    const { state } = this.processes.of(known)
    const { leases } = state.fleet
    const base = world[LIST] as number
    const ended = (outcome: 'written' | 'refused'): World =>
      this.#collected(world, master, slot, this.processes.listEnded(known, server, outcome))
    if (job.kind === 'reconcile' && state.phase.type !== 'listed') return ended('written')
    if (job.needsOthers && othersReady(leases, state.self).length === 0) return ended('refused')
    let plan = this.#planned(state, base)
    if (plan === 0) {
      if (!job.mayEmpty) return ended('refused')
      plan = base & ~this.#addressBit(master)
    }
    const { met } = this.processes.of(known)
    this.#judgePlan(world, one, base, plan, met)
    if (plan === base) return ended('written')
    const commit = { stage: 'commit' as const, base, plan, met: met & this.#awake(world) }
    return this.#collected(world, master, slot, this.processes.withList(known, commit))
  }

  /** Bits of the masters who could have kept their addresses: those that run, and have renewed since their last fault or are failing. */
  #awake(world: World): number {
    return this.#masters
      .filter((master) => this.#get(world, master, 'cur') === RUNNING)
      .filter((master) => this.#get(world, master, 'hit') === 0 || this.#server(world, master) !== OK)
      .reduce((bits, master) => bits | (1 << master), 0)
  }

  #planned(state: Membership, base: number): number {
    let bits = 0
    for (const address of listedAddresses(leasesForList(state, endpointsOf(base)))) {
      for (const master of this.#masters) {
        if (address === addressText(this.#addressOf(master))) bits |= this.#addressBit(master)
      }
    }
    return bits
  }

  #committed(world: World, one: Pending, answered: boolean): World {
    const { master, slot, id } = one
    const server = this.#server(world, master)
    const { stale, plan, met, kind, mayEmpty } = this.processes.of(id).list as ListJob
    const ended = (outcome: 'written' | 'conflict'): number =>
      answered ? this.processes.listEnded(id, server, outcome) : this.processes.withList(id, { status: 'failing' })
    if (stale) return this.#with(world, master, slot, ended('conflict'))
    const after = world.slice()
    after[LIST] = plan
    for (const other of this.#masters) {
      for (const place of [CUR, OLD]) {
        const process = this.#process(after, other, place)
        if (process === 0) continue
        const outdated = this.processes.outdated(process)
        // The watch of the objects tells: whoever wants another list compares it with the leases.
        const { state: theirs } = this.processes.of(outdated)
        const isWanted = other === master && place === slot ? true : this.#planned(theirs, plan) === plan
        this.#setProcess(after, other, place, isWanted ? outdated : this.processes.unsatisfied(outdated))
      }
    }
    this.#judgeCommit(world, after, kind === 'leave' && mayEmpty, met)
    this.#setProcess(after, master, slot, ended('written'))
    return this.#settled(after)
  }

  // ---- what must hold

  /** Whoever lives, serves and renews stays listed. */
  #judgePlan(world: World, one: Pending, base: number, plan: number, met: number): void {
    for (const master of this.#masters) {
      const bit = this.#addressBit(master)
      if ((base & ~plan & bit) === 0) continue
      if (!this.#isMember(world, master, [CUR]) || this.#get(world, master, 'hit') === 1) continue
      if (this.stores.record(world[STORE] as number, master)?.state === 'withdrawn') continue
      // It cannot know that the lease ended in an outage.
      if ((met & (1 << master)) === 0) continue
      throw new Violation(
        'healthy-stays',
        `${nameOf(one.master)} takes ${nameOf(master)} off the list, which lives, serves and renews its lease`,
      )
    }
  }

  #judgeCommit(before: World, after: World, mayEmpty: boolean, met: number): void {
    const listed = after[LIST] as number
    if (listed === 0 && !mayEmpty) throw new Violation('never-empty', 'the list is empty')
    const removed = (before[LIST] as number) & ~listed
    const gone = this.#masters.find((master) => {
      if ((met & (1 << master)) === 0 || (removed & this.#addressBit(master)) === 0) return false
      if (this.#get(after, master, 'cur') !== RUNNING) return false
      const server = this.#server(after, master)
      if (server === FAILING) return !this.#hasLetItsLeaseEnd(after, master)
      return server === OK && this.#get(after, master, 'hit') === 0
    })
    if (gone === undefined || listed === 0) return
    const serves = this.#masters.some((master) => {
      if ((listed & this.#addressBit(master)) === 0) return false
      // One whose host died cannot say so before its lease ends, nor can a later life that its server has not answered yet.
      if (this.#get(after, master, 'down') === 0 || this.#get(after, master, 'cur') !== RUNNING) return true
      const speaker = this.stores.record(after[STORE] as number, master)?.instanceId
      return speaker !== undefined && speaker !== `${nameOf(master)}${this.#get(after, master, 'life')}`
    })
    if (!serves) throw new Violation('serving', `${nameOf(gone)} goes, and nobody who is left serves`)
  }

  /** It does not leave, and makes no new lease before its server serves: the others keep its place for the recovery time only. */
  #hasLetItsLeaseEnd(world: World, master: number): boolean {
    const id = this.#process(world, master, CUR)
    const hasRecord = this.stores.record(world[STORE] as number, master) !== undefined
    return !hasRecord && id !== 0 && this.processes.of(id).state.phase.type === 'listed'
  }

  // ---- time

  #tick(world: World): World {
    const after = world.slice()
    if (after[GHOST] !== 0) {
      const ghost = this.#ghosts[after[GHOST] as number] as Ghost
      after[GHOST] = ghost.left === 1 ? 0 : this.#ghost({ ...ghost, left: ghost.left - 1 })
    }
    after[STORE] = this.stores.aged(after[STORE] as number)
    for (const master of this.#masters) {
      const server = this.#server(after, master)
      if (server !== OK) this.#set(after, master, 'down', 1)
      for (const slot of [CUR, OLD]) {
        const status = this.#status(after, master, slot)
        if (status !== RUNNING && !isFrozen(status)) continue
        if (status === FREEZING) this.#setStatus(after, master, slot, FROZEN)
        const id = this.#process(after, master, slot)
        this.#setProcess(after, master, slot, this.processes.ticked(id, server, status !== RUNNING))
      }
    }
    return this.#settled(this.#noticed(world, after))
  }

  /** Sidecars that are out have ended; departures that nobody speaks of are forgotten. */
  #settled(world: World): World {
    let mentions = this.stores.facts(world[STORE] as number).mentions
    for (const master of this.#masters) {
      for (const slot of [CUR, OLD]) {
        const id = this.#process(world, master, slot)
        if (id === 0) continue
        const facts = this.processes.facts(id)
        if (facts.hasExited && this.#status(world, master, slot) === RUNNING) {
          this.#setProcess(world, master, slot, 0)
          this.#setStatus(world, master, slot, slot === CUR ? GONE : ABSENT)
        } else {
          mentions |= facts.mentions
        }
      }
    }
    for (const master of this.#masters) {
      for (const slot of [CUR, OLD]) {
        const id = this.#process(world, master, slot)
        if (id === 0) continue
        const { process } = this.processes.facts(id)
        if (process.state.departures === 0 || world[GHOST] !== 0) continue
        if ((mentions & (1 << (master * LIVES + process.life))) === 0) {
          this.#setProcess(world, master, slot, this.processes.renumbered(id))
        }
      }
    }
    return this.#recounted(world)
  }

  /** Counts the lives of each master from the first that anybody speaks of. */
  #recounted(world: World): World {
    // A write that comes late speaks of them as well.
    if (world[GHOST] !== 0 || this.#masters.every((master) => this.#get(world, master, 'life') === 0)) return world
    let all = this.stores.facts(world[STORE] as number).lives
    for (const master of this.#masters) {
      for (const slot of [CUR, OLD]) {
        const id = this.#process(world, master, slot)
        if (id !== 0) all |= this.processes.facts(id).lives
      }
    }
    for (const master of this.#masters) {
      const lives = (all >> (master * LIVES)) & (2 ** LIVES - 1)
      const counted = countedAnew(lives)
      if (counted !== undefined) {
        world[STORE] = this.stores.recounted(world[STORE] as number, master, lives)
        for (const other of this.#masters) {
          for (const slot of [CUR, OLD]) {
            const id = this.#process(world, other, slot)
            if (id !== 0) this.#setProcess(world, other, slot, this.processes.recounted(id, master, lives))
          }
        }
      }
      // Of a life that nobody speaks of, only that it was there.
      const life = this.#process(world, master, CUR) === 0 ? 0 : this.processes.of(this.#process(world, master, CUR)).life
      const latest = lives === 0 ? 0 : 31 - Math.clz32(lives)
      this.#set(world, master, 'life', this.#process(world, master, CUR) === 0 ? (counted?.[latest] ?? latest) : life)
    }
    return world
  }

  #with(world: World, master: number, slot: number, id: number): World {
    const after = world.slice()
    this.#setProcess(after, master, slot, id)
    return this.#settled(after)
  }

  // ---- what goes wrong, and right again

  #ghost(ghost: Ghost): number {
    const key = JSON.stringify(ghost)
    const known = this.#ghostIds.get(key)
    if (known !== undefined) return known
    this.#ghosts.push(ghost)
    this.#ghostIds.set(key, this.#ghosts.length - 1)
    return this.#ghosts.length - 1
  }

  #ghostDone(world: World): World {
    const { master, type, holder } = this.#ghosts[world[GHOST] as number] as Ghost
    const after = world.slice()
    after[GHOST] = 0
    const { store, isRenewed } = this.#written(world, master, type, holder)
    after[STORE] = store
    if (isRenewed) this.#renewed(world, after, master)
    return this.#settled(this.#noticed(world, after))
  }

  #environmentMoves(world: World, emit: Emit, affordable: number): void {
    if (world[GHOST] !== 0 && world[ENV] === 0) emit(moveOf('ghost'), this.#ghostDone(world), 0)
    if (affordable === 0) return
    const allows = (fault: Fault): boolean => this.#faults.has(fault)
    const change = (fault: Fault, master: number, slot: number, edit: (after: World) => void): void => {
      const cost = hitsAll.has(fault) ? 2 : 1
      if (!allows(fault) || master >= this.#victims || cost > affordable) return
      const after = world.slice()
      edit(after)
      emit(moveOf(fault, master, slot), this.#settled(after), cost)
    }
    for (const master of this.#masters) {
      const cur = this.#get(world, master, 'cur')
      const server = this.#server(world, master)
      if (cur === RUNNING || isFrozen(cur)) {
        change('crash', master, CUR, (after) => this.#crash(after, master))
        change('host', master, CUR, (after) => {
          this.#crash(after, master)
          this.#setProcess(after, master, OLD, 0)
          this.#set(after, master, 'old', ABSENT)
          this.#serverFails(after, master, DEAD)
        })
      }
      if (cur === RUNNING) {
        change('freeze', master, CUR, (after) => {
          this.#set(after, master, 'cur', FREEZING)
          this.#set(after, master, 'hit', 1)
        })
        if (this.#get(world, master, 'deaf') === 0) {
          change('watch', master, CUR, (after) => this.#set(after, master, 'deaf', 1))
        }
        change('clock', master, CUR, (after) => {
          const id = this.#process(after, master, CUR)
          this.#setProcess(after, master, CUR, this.processes.ticked(id, server, false))
        })
        if (this.#process(world, master, OLD) === 0 && this.#get(world, master, 'life') < LIVES - 1) {
          change('restart', master, CUR, (after) => {
            const { phase } = this.processes.of(this.#process(after, master, CUR)).state
            if (phase.type === 'leaving' || phase.type === 'out') this.#set(after, master, 'hit', 1)
            this.#setProcess(after, master, OLD, this.#process(after, master, CUR))
            this.#set(after, master, 'old', RUNNING)
            this.#begin(after, master)
          })
        }
      }
      for (const slot of [CUR, OLD]) {
        if (this.#status(world, master, slot) !== RUNNING) continue
        const id = this.#process(world, master, slot)
        const { phase } = this.processes.of(id).state
        if (phase.type === 'leaving') continue
        for (const mode of ['withdraw', 'always', 'keep'] as const) {
          change(mode, master, slot, (after) => {
            this.#setProcess(after, master, slot, this.processes.stopped(id, server, mode))
            // It takes away what a later life has not made its own yet.
            const holder = this.stores.record(after[STORE] as number, master)
            const { life } = this.processes.of(id)
            if (slot === CUR && mode !== 'withdraw') this.#set(after, master, 'hit', 1)
            if (slot === OLD && holder?.instanceId === `${nameOf(master)}${life}`) this.#set(after, master, 'hit', 1)
          })
        }
        if (slot === OLD && cur === RUNNING) {
          change('freeze', master, OLD, (after) => this.#set(after, master, 'old', FREEZING))
        }
      }
      if (server === OK) {
        change('failing', master, CUR, (after) => this.#serverFails(after, master, FAILING))
        change('dead', master, CUR, (after) => this.#serverFails(after, master, DEAD))
        change('hung', master, CUR, (after) => this.#serverFails(after, master, HUNG))
      }
      const record = this.stores.record(world[STORE] as number, master)
      if (record !== undefined && record.state !== 'withdrawn' && world[ENV] === 0) {
        change('evict', master, CUR, (after) => {
          after[STORE] = this.stores.withdrawn(after[STORE] as number, master)
          this.#set(after, master, 'hit', 1)
          this.#noticed(world, after)
        })
      }
    }
    if (world[ENV] === 0) {
      change('store', 0, CUR, (after) => {
        after[ENV] = 1
      })
      change('outage', 0, CUR, (after) => {
        after[ENV] = 1
        for (const master of this.#masters) this.#serverFails(after, master, FAILING)
      })
    }
    if (this.#masters.every((master) => this.#server(world, master) === OK)) {
      change('all-failing', 0, CUR, (after) => {
        for (const master of this.#masters) this.#serverFails(after, master, FAILING)
      })
      change('all-hung', 0, CUR, (after) => {
        for (const master of this.#masters) this.#serverFails(after, master, HUNG)
      })
    }
  }

  #crash(world: World, master: number): void {
    this.#setProcess(world, master, CUR, 0)
    this.#set(world, master, 'cur', CRASHED)
    this.#set(world, master, 'hit', 1)
    this.#set(world, master, 'deaf', 0)
  }

  #serverFails(world: World, master: number, server: Server): void {
    if (this.#server(world, master) !== OK) return
    this.#set(world, master, 'server', server)
    this.#set(world, master, 'hit', 1)
    this.#set(world, master, 'down', 0)
  }

  #begin(world: World, master: number): void {
    const isFirst = this.#get(world, master, 'cur') === ABSENT
    const life = isFirst ? 0 : this.#get(world, master, 'life') + 1
    this.#set(world, master, 'life', life)
    if (isFirst) this.#set(world, master, 'hit', 1)
    this.#set(world, master, 'cur', RUNNING)
    this.#set(world, master, 'deaf', 0)
    const id = this.processes.started(master, life, this.#addressOf(master))
    this.#setProcess(world, master, CUR, this.processes.begun(id, this.#server(world, master)))
    if (this.#observes) this.#tell(world, master, CUR)
  }

  #thaw(world: World, master: number, slot: number, isLate: boolean): World {
    const after = world.slice()
    let id = this.#process(after, master, slot)
    const server = this.#server(after, master)
    if (isLate && this.processes.of(id).lease === 'pending') id = this.processes.withLease(id, 'lost')
    this.#setStatus(after, master, slot, RUNNING)
    this.#setProcess(after, master, slot, this.processes.thawed(id, server))
    this.#tell(after, master, slot)
    return this.#settled(after)
  }

  #hear(world: World, master: number): World {
    const after = world.slice()
    this.#set(after, master, 'deaf', 0)
    this.#tell(after, master, CUR)
    return this.#settled(after)
  }

  #storeBack(world: World): World {
    const after = world.slice()
    after[ENV] = 0
    for (const master of this.#masters) for (const slot of [CUR, OLD]) this.#tell(after, master, slot)
    return this.#settled(after)
  }

  #healMoves(world: World, emit: Emit): void {
    if (world[ENV] === 1) {
      emit(moveOf('store-back'), this.#storeBack(world), 0)
    }
    for (const master of this.#masters) {
      const cur = this.#get(world, master, 'cur')
      for (const slot of [CUR, OLD]) {
        if (!isFrozen(this.#status(world, master, slot))) continue
        emit(moveOf('thaw', master, slot), this.#thaw(world, master, slot, false), 0)
        if (this.processes.of(this.#process(world, master, slot)).lease === 'pending') {
          emit(moveOf('thaw-late', master, slot), this.#thaw(world, master, slot, true), 0)
        }
      }
      if (this.#get(world, master, 'deaf') === 1 && cur === RUNNING) {
        emit(moveOf('hear', master), this.#hear(world, master), 0)
      }
      if (this.#process(world, master, OLD) !== 0) {
        const after = world.slice()
        this.#setProcess(after, master, OLD, 0)
        this.#set(after, master, 'old', ABSENT)
        emit(moveOf('old-dies', master), this.#settled(after), 0)
      }
      if (this.#server(world, master) !== OK) {
        const after = world.slice()
        this.#set(after, master, 'server', OK)
        this.#set(after, master, 'down', 0)
        if (this.#observes) for (const slot of [CUR, OLD]) this.#tell(after, master, slot)
        emit(moveOf('heal', master), this.#settled(after), 0)
      }
      if (cur === ABSENT || (cur === CRASHED && this.#get(world, master, 'life') < LIVES - 1)) {
        const after = world.slice()
        this.#begin(after, master)
        emit(moveOf(cur === ABSENT ? 'start' : 'rejoin', master), this.#settled(after), 0)
      }
    }
  }

  // ---- for people

  describe(move: Move, world: World): string {
    const kind = kinds[move % 4] as Kind
    const slot = (move >> 2) % 2
    const master = (move >> 3) % 4
    const name = moves[move >> 5] as MoveName
    const who = `${nameOf(master)}${slot === OLD ? ' (earlier life)' : ''}`
    const id = this.#process(world, master, slot)
    if (kind === 'none') return name === 'tick' || id === undefined ? name : `${who} ${name}`
    const { state, list } = this.processes.of(id)
    const what =
      kind === 'lease'
        ? `${state.lease.request?.type} ${recordText(state.lease.request?.holder)}`
        : kind === 'read'
          ? 'read leases'
          : list?.stage === 'look'
            ? `${list.kind === 'leave' ? 'leaving, ' : ''}read list and leases`
            : `write list [${this.#listText(list?.plan ?? 0)}]${list?.stale ? ' conflict' : ''}`
    return `${who} ${what} -> ${name}`
  }

  lineHead(ticks: number): string {
    return `${String(ticks).padStart(3)}  `
  }

  /** What the world looks like, on one line. */
  text(world: World): string {
    const { records } = this.stores.facts(world[STORE] as number)
    const stored = records
      .flatMap((one) => (one === undefined ? [] : [`${recordText(one.holder)}${leftText(one.leftMs)}`]))
      .join(', ')
    const each = this.#masters.map((master) => {
      const server = SERVERS[this.#server(world, master)]
      const slots = [CUR, OLD].flatMap((slot) => {
        const id = this.#process(world, master, slot)
        if (id === 0) return []
        const { phase, lease } = this.processes.of(id).state
        const step = phase.type === 'leaving' ? ` ${phase.step.type}` : ''
        const frozen = isFrozen(this.#status(world, master, slot)) ? ' frozen' : ''
        const trust = lease.trust.type === 'steady' ? '' : ` ${lease.trust.type}`
        return [`${phase.type}${step}${trust}${frozen}`]
      })
      const status = ['not started', '', '', '', 'crashed', 'ended'][this.#get(world, master, 'cur')]
      return `${nameOf(master)} ${slots.join(' / ') || status}, server ${server}`
    })
    return `list [${this.#listText(world[LIST] as number)}]; store [${stored}]; ${each.join('; ')}`
  }

  #listText(bits: number): string {
    return this.options.shared
      ? bits === 0
        ? ''
        : 'the address'
      : this.#masters
          .filter((master) => bits & (1 << master))
          .map(nameOf)
          .join(' ')
  }
}

interface Pending {
  readonly master: number
  readonly slot: number
  readonly id: number
  readonly kind: 'lease' | 'read' | 'list'
  readonly isFrozen: boolean
}

const endpointsByBits: Endpoints[] = []

function endpointsOf(bits: number): Endpoints {
  let found = endpointsByBits[bits]
  if (found === undefined) {
    const addresses = [0, 1, 2].filter((index) => bits & (1 << index)).map((index) => ({ ip: addressText(index) }))
    found = { apiVersion: 'v1', kind: 'Endpoints', metadata: {}, subsets: [{ addresses, ports: [] }] } as Endpoints
    endpointsByBits[bits] = found
  }
  return found
}

function isFrozen(status: number): boolean {
  return status === FREEZING || status === FROZEN
}

function nameOf(master: number): string {
  return 'abc'[master] as string
}

function leftText(leftMs: number): string {
  return Number.isFinite(leftMs) ? ` for ${leftMs / 1000}` : ''
}

function recordText(holder: Holder | undefined): string {
  if (holder === undefined) return ''
  const departure = holder.departure === undefined ? '' : ` ${holder.departure}`
  const confirms = (holder.confirms ?? []).length === 0 ? '' : ` confirms ${holder.confirms?.join(' ')}`
  return `${holder.instanceId}: ${holder.state}${departure}${confirms}`
}
