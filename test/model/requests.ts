import type { Endpoints } from '../../src/kube/resources.ts'
import { addressesIn } from '../../src/kubernetes-service/identity.ts'
import type { Holder } from '../../src/kubernetes-service/leases/master-leases.ts'
import { listedAddresses, othersPerhapsReady } from '../../src/kubernetes-service/members.ts'
import { leasesForList } from '../../src/kubernetes-service/membership/fleet.ts'
import type { Membership } from '../../src/kubernetes-service/membership/state.ts'
import type { Cluster } from './cluster.ts'
import {
  CUR,
  FREEZING,
  GHOST,
  LIST,
  OLD,
  processIn,
  RUNNING,
  STORE,
  set,
  setProcess,
  statusOf,
  type World,
} from './fields.ts'
import { type Judge, Violation } from './judge.ts'
import { addressText } from './machine.ts'
import { type Emit, type Fault, type Move, type MoveName, moveOf } from './moves.ts'
import type { ListJob, Process } from './process.ts'
import { OK } from './processes.ts'

export interface Pending {
  readonly master: number
  readonly slot: number
  readonly id: number
  readonly kind: 'lease' | 'read' | 'list'
  readonly isFrozen: boolean
}

/** The requests of the sidecars, how each may end, and the state after that. */
export class Requests {
  readonly #cluster: Cluster
  readonly #judge: Judge
  /** The move that was tried when something threw. */
  trying: Move = 0

  constructor(cluster: Cluster, judge: Judge) {
    this.#cluster = cluster
    this.#judge = judge
  }

  /**
   * The next request of each sidecar. Requests that a sidecar sent at the same time are executed in the order lease,
   * read, list. Faults bring other orders: a slow request is executed after the rest.
   */
  pending(world: World): Pending[] {
    const found: Pending[] = []
    for (const master of this.#cluster.masters) {
      for (const slot of [CUR, OLD]) {
        const status = statusOf(world, master, slot)
        if (status !== RUNNING && status !== FREEZING) continue
        const id = processIn(world, master, slot)
        const { lease, read, list } = this.#cluster.processes.of(id)
        const isFrozen = status === FREEZING
        if (lease === 'pending') found.push({ master, slot, id, kind: 'lease', isFrozen })
        else if (read === 'pending') found.push({ master, slot, id, kind: 'read', isFrozen })
        else if (list?.status === 'pending') found.push({ master, slot, id, kind: 'list', isFrozen })
      }
    }
    return found
  }

  /**
   * Whether it makes no difference when in this tick the request is executed: it fails anyway, it is a renewal that
   * changes only the remaining time of a lease, or it is a read that causes no request while no pending request may
   * write.
   */
  isInvisible(world: World, one: Pending, pending: readonly Pending[]): boolean {
    if (one.kind === 'list' ? this.#cluster.listFails(world, one.master) : this.#cluster.isAway(world, one.master))
      return true
    const process = this.#cluster.processes.of(one.id)
    const { request } = process.state.lease
    if (one.kind === 'lease') {
      if (request === undefined) return true
      const { store, isRenewed } = this.#cluster.stores.write(
        world[STORE] as number,
        one.master,
        request.type,
        request.holder,
      )
      if (this.#cluster.viewOf(store) !== this.#cluster.viewOf(world[STORE] as number)) return false
      return isRenewed !== true || this.#isRenewalUnnoticed(world, one)
    }
    if (pending.some((other) => this.#writes(world, other))) return false
    return one.kind === 'read' || process.list?.stage === 'read' ? this.#doneQuietly(world, one) : false
  }

  #isRenewalUnnoticed(world: World, one: Pending): boolean {
    if (!this.#cluster.tracksRenewals) return true
    return this.#cluster.masters.every((master) =>
      [CUR, OLD].every((slot) => {
        const id = processIn(world, master, slot)
        if (id === 0 || (master === one.master && slot === one.slot)) return true
        return (
          this.#cluster.processes.isBlindTo(id, one.master) &&
          (!this.#cluster.observes || this.#cluster.receives(world, master, slot))
        )
      }),
    )
  }

  /** Whether a pending request may change what others read. */
  #writes(world: World, { id, kind, master }: Pending): boolean {
    const { list, state } = this.#cluster.processes.of(id)
    if (kind === 'list') return list?.stage === 'commit'
    if (kind === 'read' || state.lease.request === undefined) return false
    const { type, holder } = state.lease.request
    const { store } = this.#cluster.stores.write(world[STORE] as number, master, type, holder)
    return this.#cluster.viewOf(store) !== this.#cluster.viewOf(world[STORE] as number)
  }

  /** Whether no request follows from this read. */
  #doneQuietly(world: World, one: Pending): boolean {
    const done = this.done(world, one)
    const after = processIn(done, one.master, one.slot)
    if (after === 0 || done[STORE] !== world[STORE]) return false
    const { lease, list } = this.#cluster.processes.of(after)
    return lease === 'none' && list?.stage !== 'commit'
  }

  moves(world: World, one: Pending, emit: Emit, victims: number): void {
    const { master, slot, kind, id } = one
    const move = (name: MoveName): Move => moveOf(name, master, slot, kind)
    this.trying = move('done')
    emit(move('done'), this.done(world, one), 0)
    if (one.isFrozen || master >= victims) return
    const allows = (fault: Fault): boolean => this.#cluster.allows(fault)
    const with_ = (process: number): World => this.#cluster.with(world, master, slot, process)
    const server = this.#cluster.server(world, master)
    switch (kind) {
      case 'lease': {
        if (this.#cluster.isAway(world, master)) return
        if (allows('refused'))
          emit(move('refused'), with_(this.#cluster.processes.leaseEnded(id, server, 'unknown')), 1)
        if (allows('lost')) emit(move('lost'), with_(this.#cluster.processes.withLease(id, 'lost')), 1)
        if (allows('slow')) emit(move('slow'), with_(this.#cluster.processes.withLease(id, 'delayed')), 1)
        if (allows('answer-lost')) emit(move('answer-lost'), this.#leaseDone(world, one, false), 1)
        if (allows('late') && world[GHOST] === 0) {
          const after = with_(this.#cluster.processes.withLease(id, 'lost'))
          const { type, holder } = this.#cluster.processes.of(id).state.lease.request as {
            type: 'renew'
            holder: Holder
          }
          after[GHOST] = this.#cluster.ghost({ master, type, holder, left: 3 })
          emit(move('late'), after, 1)
        }
        return
      }
      case 'read':
        if (this.#cluster.isAway(world, master)) return
        if (allows('lost')) emit(move('lost'), with_(this.#cluster.processes.withRead(id, 'lost', undefined)), 1)
        if (this.#cluster.observes && allows('refused')) {
          // The list of the leases succeeds, and the deletion of those that are over is refused.
          const read = this.#read(world, one, this.#cluster.viewOf(world[STORE] as number), true)
          if (this.#over(world, read) !== 0) emit(move('refused'), with_(read), 1)
        }
        if (allows('slow')) {
          const view = this.#cluster.observes ? undefined : this.#cluster.viewOf(world[STORE] as number)
          emit(move('slow'), with_(this.#cluster.processes.withRead(id, 'delayed', view)), 1)
        }
        return
      case 'list': {
        const { stage } = this.#cluster.processes.of(id).list as ListJob
        if (allows('refused'))
          emit(move('refused'), with_(this.#cluster.processes.withList(id, { status: 'failing' })), 1)
        if (stage === 'read') return
        if (allows('slow')) emit(move('slow'), with_(this.#cluster.processes.withList(id, { status: 'delayed' })), 1)
        if (allows('answer-lost')) emit(move('answer-lost'), this.#committed(world, one, false), 1)
      }
    }
  }

  done(world: World, one: Pending): World {
    switch (one.kind) {
      case 'lease':
        return this.#leaseDone(world, one, true)
      case 'read': {
        const { master, slot, id } = one
        if (this.#cluster.isAway(world, master)) {
          return this.#cluster.with(world, master, slot, this.#cluster.processes.withRead(id, 'lost', undefined))
        }
        const view = this.#cluster.viewOf(world[STORE] as number)
        return this.#collected(world, master, slot, this.#read(world, one, view, true))
      }
      case 'list':
        return this.#listDone(world, one)
    }
  }

  #read(world: World, { master, id, isFrozen }: Pending, view: number, asked: boolean): number {
    // A frozen sidecar receives the answer when it thaws; with the store `kubernetes` the answer is lost.
    if (isFrozen) {
      return this.#cluster.observes
        ? this.#cluster.processes.withRead(id, 'lost', undefined)
        : this.#cluster.processes.withRead(id, 'delayed', view)
    }
    return this.#cluster.processes.leasesRead(id, this.#cluster.server(world, master), view, asked)
  }

  /** Bits of the masters whose stored leases are over for the sidecar that has just listed them. */
  #over(world: World, id: number): number {
    return this.#cluster.processes.overFor(id) & this.#cluster.stores.facts(world[STORE] as number).present
  }

  /** A sidecar that has listed the leases deletes those that are over. */
  #collected(world: World, master: number, slot: number, id: number): World {
    const after = world.slice()
    setProcess(after, master, slot, id)
    if (this.#cluster.observes)
      after[STORE] = this.#cluster.stores.without(after[STORE] as number, this.#over(world, id))
    return this.#cluster.settled(this.#cluster.noticed(world, after))
  }

  #leaseDone(world: World, one: Pending, answered: boolean): World {
    const { master, slot, id } = one
    if (this.#cluster.isAway(world, master))
      return this.#cluster.with(world, master, slot, this.#cluster.processes.withLease(id, 'lost'))
    const server = this.#cluster.server(world, master)
    const { type, holder } = this.#cluster.processes.of(id).state.lease.request as NonNullable<
      Process['state']['lease']['request']
    >
    const { store, outcome, isRenewed } = this.written(world, master, type, holder)
    const process =
      answered && !one.isFrozen
        ? this.#cluster.processes.leaseEnded(id, server, outcome)
        : this.#cluster.processes.withLease(id, 'lost')
    if (answered && !one.isFrozen && outcome === 'withdrawn') this.#judge.withdrawn(process)
    const after = world.slice()
    after[STORE] = store
    // Each store checks what a write is based on. So it does not execute a late write after a newer one.
    if ((store !== world[STORE] || isRenewed) && this.#cluster.ghostIn(world)?.master === master) after[GHOST] = 0
    setProcess(after, master, slot, process)
    // A renewal that was sent before the stop does not protect a master that leaves.
    const isLeaving = this.#cluster.processes.of(process).state.phase.type === 'leaving'
    const isReady = server === OK && slot === CUR && holder.state === 'ready' && !isLeaving
    if (isReady && answered && !one.isFrozen && type === 'renew' && outcome === 'done') set(after, master, 'hit', 0)
    if (isRenewed) this.#cluster.renewed(world, after, master)
    return this.#cluster.settled(this.#cluster.noticed(world, after))
  }

  written(world: World, master: number, type: 'renew' | 'mark' | 'remove', holder: Holder) {
    const before = this.#cluster.stores.record(world[STORE] as number, master)
    const written = this.#cluster.stores.write(world[STORE] as number, master, type, holder)
    const after = this.#cluster.stores.record(written.store, master)
    // The ids are in order: life 0 does not start again while later lives exist.
    if (before !== undefined && before.instanceId > holder.instanceId && after?.instanceId !== before.instanceId) {
      throw new Violation('lives', `${holder.instanceId} overwrites or removes the lease of its later life`)
    }
    return written
  }

  #listDone(world: World, one: Pending): World {
    const { master, slot, id } = one
    const server = this.#cluster.server(world, master)
    const job = this.#cluster.processes.of(id).list as ListJob
    if (this.#cluster.listFails(world, master))
      return this.#cluster.with(world, master, slot, this.#cluster.processes.withList(id, { status: 'failing' }))
    if (job.stage === 'commit') return this.#committed(world, one, true)
    // The sidecar reads the list first, then the leases. The model reads both at once, because a write of the list in
    // between makes the commit fail.
    const known = this.#cluster.processes.leasesRead(id, server, this.#cluster.viewOf(world[STORE] as number), false)
    const { state } = this.#cluster.processes.of(known)
    const { leases } = state.fleet
    const base = world[LIST] as number
    const ended = (outcome: 'written' | 'refused'): World =>
      this.#collected(world, master, slot, this.#cluster.processes.listEnded(known, server, outcome))
    if (job.kind === 'reconcile' && state.phase.type !== 'listed') return ended('written')
    if (job.needsOthers && othersPerhapsReady(leases, state.self).length === 0) return ended('refused')
    let plan = this.#planned(state, base)
    if (plan === 0) {
      if (!job.mayEmpty) return ended('refused')
      plan = base & ~this.#cluster.addressBit(master)
    }
    const { met } = this.#cluster.processes.of(known)
    this.#judge.plan(world, master, base, plan, met)
    if (plan === base) return ended('written')
    const commit = { stage: 'commit' as const, base, plan, met: met & this.#judge.awake(world) }
    return this.#collected(world, master, slot, this.#cluster.processes.withList(known, commit))
  }

  #planned(state: Membership, base: number): number {
    let bits = 0
    const current = endpointsOf(base)
    // No other client adds addresses in this model.
    const known = { endpoints: current, slice: undefined, secondSlices: [], listedBefore: addressesIn(current) }
    for (const address of listedAddresses(leasesForList(state, known))) {
      for (const master of this.#cluster.masters) {
        if (address === addressText(this.#cluster.addressOf(master))) bits |= this.#cluster.addressBit(master)
      }
    }
    return bits
  }

  #committed(world: World, one: Pending, answered: boolean): World {
    const { master, slot, id } = one
    const server = this.#cluster.server(world, master)
    const { stale, plan, met, kind, mayEmpty } = this.#cluster.processes.of(id).list as ListJob
    const ended = (outcome: 'written' | 'conflict'): number =>
      answered
        ? this.#cluster.processes.listEnded(id, server, outcome)
        : this.#cluster.processes.withList(id, { status: 'failing' })
    if (stale) return this.#cluster.with(world, master, slot, ended('conflict'))
    const after = world.slice()
    after[LIST] = plan
    for (const other of this.#cluster.masters) {
      for (const place of [CUR, OLD]) {
        const process = processIn(after, other, place)
        if (process === 0) continue
        const outdated = this.#cluster.processes.outdated(process)
        // The watch of the objects reports the write. A sidecar with another desired state compares the list with the
        // leases again.
        const { state: theirs } = this.#cluster.processes.of(outdated)
        const isWanted = other === master && place === slot ? true : this.#planned(theirs, plan) === plan
        setProcess(after, other, place, isWanted ? outdated : this.#cluster.processes.unsatisfied(outdated))
      }
    }
    this.#judge.commit(world, after, kind === 'leave' && mayEmpty, met)
    setProcess(after, master, slot, ended('written'))
    return this.#cluster.settled(after)
  }
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
