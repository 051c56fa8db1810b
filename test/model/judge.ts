import type { Cluster } from './cluster.ts'
import { CUR, get, LIST, nameOf, OLD, processIn, RUNNING, STORE, type World } from './fields.ts'
import { DEAD, FAILING, HUNG, OK } from './processes.ts'

/** A state or a move violates an invariant. */
export class Violation extends Error {
  readonly invariant: string
  constructor(invariant: string, reason: string) {
    super(`${invariant}: ${reason}`)
    this.invariant = invariant
  }
}

/** The invariants. */
export class Judge {
  readonly #cluster: Cluster

  constructor(cluster: Cluster) {
    this.#cluster = cluster
  }

  /** What is still wrong long after faults have ended; undefined if nothing is. */
  unsettled(world: World): string | undefined {
    const listed = world[LIST] as number
    const members = this.#cluster.masters.filter((master) => this.#cluster.isMember(world, master, [CUR, OLD]))
    if (members.length === 0) return undefined
    for (const master of members) {
      if ((listed & this.#cluster.addressBit(master)) === 0)
        return `${nameOf(master)} lives and serves, and is not listed`
    }
    for (const master of this.#cluster.masters) {
      const bit = this.#cluster.addressBit(master)
      if ((listed & bit) === 0 || members.some((member) => this.#cluster.addressBit(member) === bit)) continue
      return `${nameOf(master)} does not serve, and is listed`
    }
    return undefined
  }

  /**
   * Bits of the masters that could keep their addresses: they run, and either have renewed since their last fault or
   * their server has a fault.
   */
  awake(world: World): number {
    return this.#cluster.masters
      .filter((master) => get(world, master, 'cur') === RUNNING)
      .filter((master) => get(world, master, 'hit') === 0 || this.#cluster.server(world, master) !== OK)
      .reduce((bits, master) => bits | (1 << master), 0)
  }

  /** A master that learns that it was withdrawn must leave or stay out. */
  withdrawn(id: number): void {
    const { master, state } = this.#cluster.processes.of(id)
    const { type } = state.phase
    if (type === 'out' || type === 'leaving') return
    throw new Violation('withdrawn', `${nameOf(master)} continues although it has read that it was withdrawn`)
  }

  /** A master that lives, serves and renews must stay listed. */
  plan(world: World, by: number, base: number, plan: number, met: number): void {
    for (const master of this.#cluster.masters) {
      const bit = this.#cluster.addressBit(master)
      if ((base & ~plan & bit) === 0) continue
      if (!this.#cluster.isMember(world, master, [CUR]) || get(world, master, 'hit') === 1) continue
      if (this.#cluster.stores.record(world[STORE] as number, master)?.state === 'withdrawn') continue
      // The planner cannot know that the lease expired in an outage.
      if ((met & (1 << master)) === 0) continue
      throw new Violation(
        'healthy-stays',
        `${nameOf(by)} takes ${nameOf(master)} off the list, which lives, serves and renews its lease`,
      )
    }
  }

  commit(before: World, after: World, mayEmpty: boolean, met: number): void {
    const listed = after[LIST] as number
    if (listed === 0 && !mayEmpty) throw new Violation('never-empty', 'the list is empty')
    const removed = (before[LIST] as number) & ~listed
    const gone = this.#cluster.masters.find((master) => {
      if ((met & (1 << master)) === 0 || (removed & this.#cluster.addressBit(master)) === 0) return false
      if (get(after, master, 'cur') !== RUNNING) return false
      const server = this.#cluster.server(after, master)
      if (server === FAILING) return !this.#hasLetItsLeaseEnd(after, master)
      return server === OK && get(after, master, 'hit') === 0
    })
    if (gone === undefined || listed === 0) return
    const serves = this.#cluster.masters.some((master) => {
      if ((listed & this.#cluster.addressBit(master)) === 0) return false
      // A master whose host crashed counts as serving: it cannot announce that before its lease expires. So does, on
      // `kubernetes`, a master whose own API server is dead or hangs, because its record can only be written there.
      const server = this.#cluster.server(after, master)
      if (this.#cluster.observes && (server === DEAD || server === HUNG)) return true
      // So does one whose record is still that of an earlier life: its server has not answered the new life yet.
      if (get(after, master, 'down') === 0 || get(after, master, 'cur') !== RUNNING) return true
      const speaker = this.#cluster.stores.record(after[STORE] as number, master)?.instanceId
      return speaker !== undefined && speaker !== `${nameOf(master)}${get(after, master, 'life')}`
    })
    if (!serves) throw new Violation('serving', `${nameOf(gone)} goes, and nobody who is left serves`)
  }

  /**
   * Whether the master is listed without a record: it does not leave, and creates no new lease before its server
   * serves. The other masters retain its address only for the recovery time.
   */
  #hasLetItsLeaseEnd(world: World, master: number): boolean {
    const id = processIn(world, master, CUR)
    const hasRecord = this.#cluster.stores.record(world[STORE] as number, master) !== undefined
    return !hasRecord && id !== 0 && this.#cluster.processes.of(id).state.phase.type === 'listed'
  }
}
