import type { DrillEvent } from './event.ts'
import type { MemberStatus } from './member-status.ts'

/** What a history says of a fleet at one moment: that of the last event that was taken in. */
export class FleetView {
  readonly #members = new Map<string, MemberStatus>()
  readonly #stopped = new Set<string>()
  #slice: readonly string[] | undefined
  #leases: readonly string[] | undefined

  take(event: DrillEvent): void {
    switch (event.type) {
      case 'state': {
        const { type: _, atMs: __, master, ...status } = event
        this.#members.set(master, status)
        if (status.sidecar === 'stopping') this.#stopped.add(master)
        if (status.sidecar === 'running') this.#stopped.delete(master)
        break
      }
      case 'listed':
        if (event.object === 'slice') this.#slice = event.addresses
        break
      case 'leases':
        this.#leases = event.addresses
        break
    }
  }

  get members(): ReadonlyMap<string, MemberStatus> {
    return this.#members
  }

  /** What the EndpointSlice lists; undefined while it is gone. */
  get slice(): readonly string[] | undefined {
    return this.#slice
  }

  /** Whose leases are in the store; undefined where that was not seen. */
  get leases(): readonly string[] | undefined {
    return this.#leases
  }

  lists(address: string): boolean {
    return this.#slice?.includes(address) === true
  }

  mastersOf(address: string): readonly string[] {
    return [...this.#members].filter(([, status]) => status.address === address).map(([master]) => master)
  }

  /** Some master of the address lives: it may renew its lease, nobody has told it to stop, and its API server is ready. */
  isAlive(address: string): boolean {
    return this.#any(address, ({ renewing, server }, master) => {
      return renewing && server === 'ready' && !this.#stopped.has(master)
    })
  }

  /** Some master of the address is well. */
  isWell(address: string): boolean {
    return this.#any(address, ({ well }) => well)
  }

  /** Some master of the address was told to stop and has not been started since, and none lives. */
  isStopped(address: string): boolean {
    return !this.isAlive(address) && this.#any(address, (_, master) => this.#stopped.has(master))
  }

  /**
   * What a client meets at an address. One of several masters that serves is enough: what is before them sends clients there. Where
   * nobody is, nobody answers.
   */
  meets(address: string): MemberStatus['clientsMeet'] {
    if (this.#any(address, ({ clientsMeet }) => clientsMeet === 'served')) return 'served'
    const silent = this.#any(address, ({ clientsMeet }) => clientsMeet === 'black-holed')
    return silent || this.mastersOf(address).length === 0 ? 'black-holed' : 'refused'
  }

  #any(address: string, predicate: (status: MemberStatus, master: string) => boolean): boolean {
    for (const [master, status] of this.#members) {
      if (status.address === address && predicate(status, master)) return true
    }
    return false
  }
}
