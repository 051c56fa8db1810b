import type { MemberState } from '../verify/member-state.ts'

/**
 * An observation during a drill. `atMs` is the true time since all masters were listed, in milliseconds; it is negative
 * before that. All events in their order are the history of a drill. Figures, transcript and timelines are computed
 * from this history. Events are plain JSON. Those of a simulated fleet contain no messages of Node or libraries, so
 * that a seed gives the same history on every version of Node.
 */
export type DrillEvent = { readonly atMs: number } & (
  | { readonly type: 'step'; readonly action: string; readonly masters: readonly string[]; readonly text: string }
  | ({ readonly type: 'state'; readonly master: string } & MemberStatus)
  /**
   * A new version of an object. `addresses` is undefined if the object was deleted. `by`: the master that wrote this
   * version, if known; `damage`: whether a `damage` step wrote it.
   */
  | {
      readonly type: 'listed'
      readonly object: 'endpoints' | 'slice'
      readonly addresses: readonly string[] | undefined
      readonly by: string | undefined
      readonly damage: boolean
    }
  /**
   * The addresses with leases in the store, sorted. In the lease stores `kubernetes` and `memory` an address occurs
   * twice if two masters hold a lease for it; `etcd` and `kine` have one lease for each address. With `none` and
   * `master-count` our masters have no leases.
   */
  | { readonly type: 'leases'; readonly addresses: readonly string[] }
  /**
   * A write of a master to its API server, including Lease objects and Events. Writes of real kube-apiservers are not
   * observed.
   */
  | { readonly type: 'write'; readonly master: string; readonly method: string; readonly path: string }
  /**
   * A client's connection, which began at `atMs`. With the outcome `nobody` the address is empty. In reports, `served`
   * events replace the connections with the outcome `served`.
   */
  | {
      readonly type: 'connection'
      readonly client: string
      readonly address: string
      readonly outcome: ConnectionOutcome
    }
  /** The number of served connections that began in the second from `atMs` on. Seconds without one have no event. */
  | { readonly type: 'served'; readonly count: number }
  | { readonly type: 'violation'; readonly invariant: string; readonly detail: string }
)

/** `nobody`: the client knew no address. */
export type ConnectionOutcome = 'served' | 'refused' | 'black-holed' | 'nobody'

export type EventOf<Type extends DrillEvent['type']> = Extract<DrillEvent, { readonly type: Type }>

export interface MemberStatus {
  readonly address: string
  readonly sidecar: 'running' | 'stopping' | 'frozen' | 'down'
  readonly server: 'ready' | 'unready' | 'silent' | 'down'
  /** What a client gets at the member's port. */
  readonly clientConnections: 'served' | 'refused' | 'black-holed'
  /** Whether the member may still renew its lease. */
  readonly renewing: boolean
  /** Whether the member runs and is connected, and its server is ready. */
  readonly healthy: boolean
}

export function statusOf(member: MemberState): MemberStatus {
  const { address, frozen, ended, stopping, running, answering, ready, clientConnections, renewing, healthy } = member
  return {
    address,
    sidecar: ended ? 'down' : frozen ? 'frozen' : running ? 'running' : stopping ? 'stopping' : 'down',
    server: clientConnections === 'refused' ? 'down' : !answering ? 'silent' : ready ? 'ready' : 'unready',
    clientConnections,
    renewing,
    healthy,
  }
}

export function isSameStatus(one: MemberStatus | undefined, other: MemberStatus): boolean {
  return (
    one?.address === other.address &&
    one.sidecar === other.sidecar &&
    one.server === other.server &&
    one.clientConnections === other.clientConnections &&
    one.renewing === other.renewing &&
    one.healthy === other.healthy
  )
}

/** The state of a fleet after the events that {@link ObservedFleet.take} received. */
export class ObservedFleet {
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

  /** The addresses in the EndpointSlice; undefined while there is no EndpointSlice. */
  get slice(): readonly string[] | undefined {
    return this.#slice
  }

  /** The addresses with leases in the store; undefined if they were not observed. */
  get leases(): readonly string[] | undefined {
    return this.#leases
  }

  lists(address: string): boolean {
    return this.#slice?.includes(address) === true
  }

  mastersOf(address: string): readonly string[] {
    return [...this.#members].filter(([, status]) => status.address === address).map(([master]) => master)
  }

  /** Whether some master of the address lives: it may renew its lease, was not stopped, and its API server is ready. */
  isAlive(address: string): boolean {
    return this.#any(address, ({ renewing, server }, master) => {
      return renewing && server === 'ready' && !this.#stopped.has(master)
    })
  }

  isHealthy(address: string): boolean {
    return this.#any(address, ({ healthy }) => healthy)
  }

  /** Whether no master of the address is alive, and some master of it was stopped and has not been started since. */
  isStopped(address: string): boolean {
    return !this.isAlive(address) && this.#any(address, (_, master) => this.#stopped.has(master))
  }

  /**
   * What a client gets at an address. If several masters share a virtual address, one serving master is enough, because
   * the virtual address leads clients to that master. An address without a master does not answer.
   */
  meets(address: string): MemberStatus['clientConnections'] {
    if (this.#any(address, ({ clientConnections }) => clientConnections === 'served')) return 'served'
    const silent = this.#any(address, ({ clientConnections }) => clientConnections === 'black-holed')
    return silent || this.mastersOf(address).length === 0 ? 'black-holed' : 'refused'
  }

  #any(address: string, predicate: (status: MemberStatus, master: string) => boolean): boolean {
    for (const [master, status] of this.#members) {
      if (status.address === address && predicate(status, master)) return true
    }
    return false
  }
}
