import type { DrillEvent, EventOf } from '../../event.ts'
import type { MemberStatus } from '../../member-status.ts'
import { type Bins, binned } from './bins.ts'
import { type Span, Track } from './spans.ts'

/** `dead`: no client was served at the address. */
export type ListedState = 'listed' | 'dead'

export interface MasterHistory {
  readonly name: string
  /** Those that it had, in their order. */
  readonly addresses: readonly string[]
  readonly sidecar: readonly Span<MemberStatus['sidecar']>[]
  readonly server: readonly Span<MemberStatus['server']>[]
  readonly clients: readonly Span<MemberStatus['clientsMeet']>[]
  readonly endpoints: readonly Span<ListedState>[]
  readonly slice: readonly Span<ListedState>[]
  readonly lease: readonly Span<'held'>[]
}

/** What a history shows, as spans. Times are in milliseconds from the moment that everybody was listed. */
export interface RunHistory {
  readonly untilMs: number
  readonly masters: readonly MasterHistory[]
  /** Addresses that were listed, and are no master's. */
  readonly strangers: readonly { readonly address: string; readonly slice: readonly Span<'listed'>[] }[]
  readonly steps: readonly EventOf<'step'>[]
  readonly violations: readonly EventOf<'violation'>[]
  readonly writes: Bins<'write'>
  readonly errors: Bins<'refused' | 'black-holed' | 'nobody'>
  /** Connections, by the moment that they began; of the served ones the second is known. */
  readonly served: Bins<'served'>
  readonly seen: { readonly leases: boolean; readonly writes: boolean }
}

type Tracks = {
  readonly [Key in Exclude<keyof MasterHistory, 'name' | 'addresses'>]: Track<MasterHistory[Key][number]['state']>
}

/** Puts a history together. `events` are in the order of time; `untilMs` is when it ended at the earliest. */
export function readHistory(events: readonly DrillEvent[], untilMs: number): RunHistory {
  const endMs = events.reduce((latest, { atMs }) => Math.max(latest, atMs), untilMs)
  const fleet = new FleetTracks()
  for (const event of events) fleet.take(event)
  const of = <Type extends DrillEvent['type']>(type: Type) =>
    events.filter((event): event is EventOf<Type> => event.type === type)
  const errors = of('connection').flatMap(({ atMs, outcome }) =>
    outcome === 'served' ? [] : [{ atMs, kind: outcome }],
  )
  const writes = of('write').map(({ atMs }) => ({ atMs, kind: 'write' as const }))
  const served = of('served').map(({ atMs, count }) => ({ atMs, kind: 'served' as const, times: count }))
  return {
    untilMs: endMs,
    ...fleet.end(endMs),
    steps: of('step'),
    violations: of('violation'),
    writes: binned(['write'], writes, endMs),
    errors: binned(['refused', 'black-holed', 'nobody'], errors, endMs),
    served: binned(['served'], served, endMs),
    seen: { leases: of('leases').length > 0, writes: writes.length > 0 },
  }
}

interface Member {
  status: MemberStatus
  /** When it was last alive. */
  aliveMs: number
  readonly addresses: Set<string>
  readonly tracks: Tracks
}

/** Follows the members, what is listed and the leases together, because what one means depends on the others. */
class FleetTracks {
  readonly #members = new Map<string, Member>()
  readonly #strangers = new Map<string, Track<'listed'>>()
  readonly #listed: Record<'endpoints' | 'slice', readonly string[]> = { endpoints: [], slice: [] }
  #leases: readonly string[] = []

  take(event: DrillEvent): void {
    if (event.type === 'state') {
      const member = this.#members.get(event.master)
      if (member === undefined) {
        const addresses = new Set([event.address])
        this.#members.set(event.master, { status: event, aliveMs: event.atMs, addresses, tracks: newTracks() })
      } else {
        member.status = event
        member.addresses.add(event.address)
      }
    } else if (event.type === 'listed') this.#listed[event.object] = event.addresses ?? []
    else if (event.type === 'leases') this.#leases = event.addresses
    else return
    this.#note(event.atMs)
  }

  end(atMs: number): Pick<RunHistory, 'masters' | 'strangers'> {
    const ended = <State extends string>(track: Track<State>): readonly Span<State>[] => {
      track.end(atMs)
      return track.spans
    }
    const masters = [...this.#members].map(([name, { addresses, tracks }]) => ({
      name,
      addresses: [...addresses],
      sidecar: ended(tracks.sidecar),
      server: ended(tracks.server),
      clients: ended(tracks.clients),
      endpoints: ended(tracks.endpoints),
      slice: ended(tracks.slice),
      lease: ended(tracks.lease),
    }))
    const strangers = [...this.#strangers].map(([address, track]) => ({ address, slice: ended(track) }))
    return { masters, strangers: strangers.filter(({ slice }) => slice.length > 0) }
  }

  #note(atMs: number): void {
    const members = [...this.#members.values()]
    for (const member of members) if (isAlive(member.status)) member.aliveMs = atMs
    for (const member of members) {
      const { status, tracks } = member
      const sharing = members.filter((other) => other.status.address === status.address)
      const isListed = heirs(sharing, ({ clientsMeet }) => clientsMeet === 'served').includes(member)
      const isLeased = heirs(sharing, ({ renewing }) => renewing).includes(member)
      const state = status.clientsMeet === 'served' ? 'listed' : 'dead'
      tracks.sidecar.set(atMs, status.sidecar)
      tracks.server.set(atMs, status.server)
      tracks.clients.set(atMs, status.clientsMeet)
      for (const object of ['endpoints', 'slice'] as const) {
        const listed = isListed && this.#listed[object].includes(status.address)
        tracks[object].set(atMs, listed ? state : undefined)
      }
      tracks.lease.set(atMs, isLeased && this.#leases.includes(status.address) ? 'held' : undefined)
    }
    const known = new Set(members.map(({ status }) => status.address))
    for (const address of this.#listed.slice) {
      if (!known.has(address) && !this.#strangers.has(address)) this.#strangers.set(address, new Track())
    }
    for (const [address, track] of this.#strangers) {
      track.set(atMs, this.#listed.slice.includes(address) && !known.has(address) ? 'listed' : undefined)
    }
  }
}

/** Of the masters with one address, behind it together or one after the other, those whose it is: who does it, else lives, else died last. */
function heirs(sharing: readonly Member[], does: (status: MemberStatus) => boolean): readonly Member[] {
  const doing = sharing.filter(({ status }) => does(status))
  if (doing.length > 0) return doing
  const latestMs = Math.max(...sharing.map(({ aliveMs }) => aliveMs))
  return sharing.filter(({ aliveMs }) => aliveMs === latestMs)
}

function isAlive({ sidecar, server }: MemberStatus): boolean {
  return sidecar !== 'down' || server !== 'down'
}

function newTracks(): Tracks {
  return {
    sidecar: new Track(),
    server: new Track(),
    clients: new Track(),
    endpoints: new Track(),
    slice: new Track(),
    lease: new Track(),
  }
}
