import type { DrillEvent, EventOf, MemberStatus } from '../../event.ts'
import { count, type Group, type Html, html, seconds, table } from './html.ts'

/** The states of a master, in the order of the tables. `dead`: listed, but no client was served there. */
interface States {
  readonly sidecar: MemberStatus['sidecar']
  readonly server: MemberStatus['server']
  readonly clients: MemberStatus['clientConnections']
  readonly endpoints: 'listed' | 'dead'
  readonly slice: 'listed' | 'dead'
  readonly lease: 'held'
}

const trackNames = ['sidecar', 'server', 'clients', 'endpoints', 'slice', 'lease'] as const

export interface MasterHistory {
  readonly name: string
  /** The addresses that the master had, in the order of time. */
  readonly addresses: readonly string[]
  readonly tracks: { readonly [Name in keyof States]: readonly Span<States[Name]>[] }
}

/** Times are in milliseconds since all masters were listed. */
export interface RunHistory {
  readonly untilMs: number
  readonly masters: readonly MasterHistory[]
  /** Addresses that were in the EndpointSlice while no master had them. */
  readonly unownedAddresses: readonly { readonly address: string; readonly slice: readonly Span<'listed'>[] }[]
  readonly steps: readonly EventOf<'step'>[]
  readonly violations: readonly EventOf<'violation'>[]
  readonly occurrences: Bins<Occurrence>
  readonly seen: { readonly leases: boolean; readonly writes: boolean }
}

const occurrenceKinds = ['write', 'served', 'refused', 'black-holed', 'nobody'] as const

/** A write, or a connection by its outcome. Of a served connection only the second of its begin is known. */
export type Occurrence = (typeof occurrenceKinds)[number]

type Tracks = { readonly [Name in keyof States]: Track<States[Name]> }

/** `events` must be in the order of time. The history ends at `untilMs` or, if later, at the last event. */
export function readHistory(events: readonly DrillEvent[], untilMs: number): RunHistory {
  const endMs = events.reduce((latest, { atMs }) => Math.max(latest, atMs), untilMs)
  const fleet = new FleetTracks()
  for (const event of events) fleet.take(event)
  const of = <Type extends DrillEvent['type']>(type: Type) =>
    events.filter((event): event is EventOf<Type> => event.type === type)
  const writes = of('write').map(({ atMs }) => ({ atMs, kind: 'write' as const }))
  const served = of('served').map(({ atMs, count }) => ({ atMs, kind: 'served' as const, times: count }))
  const errors = of('connection')
    .filter(({ outcome }) => outcome !== 'served')
    .map(({ atMs, outcome }) => ({ atMs, kind: outcome }))
  return {
    untilMs: endMs,
    ...fleet.end(endMs),
    steps: of('step'),
    violations: of('violation'),
    occurrences: binned(occurrenceKinds, [...writes, ...served, ...errors], endMs),
    seen: { leases: of('leases').length > 0, writes: writes.length > 0 },
  }
}

interface Member {
  status: MemberStatus
  /** When a process of the member last ran. */
  aliveMs: number
  readonly addresses: Set<string>
  readonly tracks: Tracks
}

/** Follows members, listings and leases together, because the tracks of a master depend on all three. */
class FleetTracks {
  readonly #members = new Map<string, Member>()
  readonly #unownedAddresses = new Map<string, Track<'listed'>>()
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

  end(atMs: number): Pick<RunHistory, 'masters' | 'unownedAddresses'> {
    const ended = <State extends string>(track: Track<State>): readonly Span<State>[] => {
      track.end(atMs)
      return track.spans
    }
    const masters = [...this.#members].map(([name, { addresses, tracks }]) => ({
      name,
      addresses: [...addresses],
      tracks: Object.fromEntries(
        trackNames.map((track) => [track, ended<string>(tracks[track])]),
      ) as unknown as MasterHistory['tracks'],
    }))
    const unownedAddresses = [...this.#unownedAddresses].map(([address, track]) => ({ address, slice: ended(track) }))
    return { masters, unownedAddresses: unownedAddresses.filter(({ slice }) => slice.length > 0) }
  }

  #note(atMs: number): void {
    const members = [...this.#members.values()]
    for (const member of members) if (hasProcess(member.status)) member.aliveMs = atMs
    for (const member of members) {
      const { status, tracks } = member
      const sharing = members.filter((other) => other.status.address === status.address)
      const isListed = shownMasters(sharing, ({ clientConnections }) => clientConnections === 'served').includes(member)
      const isLeased = shownMasters(sharing, ({ renewing }) => renewing).includes(member)
      const state = status.clientConnections === 'served' ? 'listed' : 'dead'
      tracks.sidecar.set(atMs, status.sidecar)
      tracks.server.set(atMs, status.server)
      tracks.clients.set(atMs, status.clientConnections)
      for (const object of ['endpoints', 'slice'] as const) {
        const listed = isListed && this.#listed[object].includes(status.address)
        tracks[object].set(atMs, listed ? state : undefined)
      }
      tracks.lease.set(atMs, isLeased && this.#leases.includes(status.address) ? 'held' : undefined)
    }
    const known = new Set(members.map(({ status }) => status.address))
    for (const address of this.#listed.slice) {
      if (!known.has(address) && !this.#unownedAddresses.has(address)) this.#unownedAddresses.set(address, new Track())
    }
    for (const [address, track] of this.#unownedAddresses) {
      track.set(atMs, this.#listed.slice.includes(address) && !known.has(address) ? 'listed' : undefined)
    }
  }
}

/**
 * Several masters may share an address. Those for which `does` is true are shown as listed, or as holders of the lease.
 * If there is none, those with a running process are shown; if there is none either, those that ended last.
 */
function shownMasters(sharing: readonly Member[], does: (status: MemberStatus) => boolean): readonly Member[] {
  const doing = sharing.filter(({ status }) => does(status))
  if (doing.length > 0) return doing
  const latestMs = Math.max(...sharing.map(({ aliveMs }) => aliveMs))
  return sharing.filter(({ aliveMs }) => aliveMs === latestMs)
}

function hasProcess({ sidecar, server }: MemberStatus): boolean {
  return sidecar !== 'down' || server !== 'down'
}

function newTracks(): Tracks {
  return Object.fromEntries(trackNames.map((name) => [name, new Track()])) as unknown as Tracks
}

/** Counts of occurrences in equal parts of the time from 0 on. */
export interface Bins<Kind extends string> {
  readonly widthMs: number
  readonly counts: readonly Readonly<Record<Kind, number>>[]
}

const widths = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 60_000]
const MOST_BINS = 120

/** The width of bins in milliseconds: the smallest round width with at most {@link MOST_BINS} bins up to `untilMs`. */
export function binWidth(untilMs: number): number {
  const fits = (widthMs: number): boolean => untilMs / widthMs <= MOST_BINS
  return widths.find(fits) ?? Math.ceil(untilMs / MOST_BINS / 60_000) * 60_000
}

/** Occurrences before time 0 are left out. Occurrences after `untilMs` count in the last bin. */
export function binned<Kind extends string>(
  kinds: readonly Kind[],
  events: readonly { readonly atMs: number; readonly kind: Kind; readonly times?: number }[],
  untilMs: number,
): Bins<Kind> {
  const widthMs = binWidth(untilMs)
  const length = Math.max(1, Math.ceil(untilMs / widthMs))
  const nothing = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<Kind, number>
  const counts = Array.from({ length }, () => ({ ...nothing }))
  for (const { atMs, kind, times = 1 } of events) {
    const bin = counts[Math.min(Math.floor(atMs / widthMs), length - 1)]
    if (bin !== undefined) bin[kind] += times
  }
  return { widthMs, counts }
}

/** The highest rate in any bin, per second, of these kinds together. */
export function mostPerSecond<Kind extends string>({ widthMs, counts }: Bins<Kind>, kinds: readonly Kind[]): number {
  const totals = counts.map((bin) => kinds.reduce((sum, kind) => sum + bin[kind], 0))
  return (Math.max(0, ...totals) / widthMs) * 1000
}

export interface Span<State extends string = string> {
  readonly fromMs: number
  readonly toMs: number
  readonly state: State
}

/** Computes the spans of a state. Calls must be in the order of time. The time before 0 is left out. */
class Track<State extends string> {
  readonly spans: Span<State>[] = []
  #state: State | undefined
  #sinceMs = 0

  /** Sets the state from `atMs` on. Undefined gives no span. */
  set(atMs: number, state: State | undefined): void {
    if (state === this.#state) return
    this.end(atMs)
    this.#state = state
    this.#sinceMs = Math.max(atMs, 0)
  }

  end(atMs: number): void {
    const { fromMs, toMs, state } = { fromMs: this.#sinceMs, toMs: Math.max(atMs, 0), state: this.#state }
    this.#state = undefined
    if (state === undefined || toMs <= fromMs) return
    const last = this.spans.at(-1)
    if (last?.state === state && last.toMs === fromMs) this.spans[this.spans.length - 1] = { ...last, toMs }
    else this.spans.push({ fromMs, toMs, state })
  }
}

export function lengthOf({ fromMs, toMs }: Span): number {
  return toMs - fromMs
}

/**
 * The contents of a chart as tables, for readers who cannot see the chart or want the exact times. At most `most` rows
 * of states, and half of that number of steps, are in the tables.
 */
export function facts(history: RunHistory, { name, most }: { readonly name: string; readonly most: number }): Html {
  const { steps, seen, occurrences } = history
  const { widthMs } = occurrences
  const listedSteps = steps.length > VISIBLE_STEPS ? stepList(history, Math.floor(most / 2)) : undefined
  const counts = occurrences.counts
    .map((bin, index) => ({ ...bin, fromMs: index * widthMs }))
    .filter((bin) => bin.write + bin.refused + bin['black-holed'] + bin.nobody > 0)
  return html`<details><summary>Exact times of ${name}</summary>
${listedSteps}
${lives(history, name, most)}
${
  counts.length === 0
    ? html`<p class="small">${seen.writes ? 'No' : 'Writes were not observed, and no'} client error was counted.</p>`
    : table({
        label: `Writes and client errors of ${name}`,
        caption: html`Writes and client errors <span class="aside">in each ${seconds(widthMs)}; parts with neither are left out</span>`,
        columns: [
          { name: 'from' },
          ...['writes', 'served', 'refused', 'black-holed', 'no address known'].map((text) => ({
            name: text,
            numbers: true,
          })),
        ],
        groups: [
          {
            rows: counts.map(({ fromMs, write, served, refused, 'black-holed': blackHoled, nobody }) => [
              seconds(fromMs),
              seen.writes ? count(write) : '–',
              ...[served, refused, blackHoled, nobody].map(count),
            ]),
          },
        ],
        tall: true,
      })
}</details>
`
}

/** If a run has more steps than this, their list is among the tables that open below the chart. */
export const VISIBLE_STEPS = 12

export function stepList({ steps }: RunHistory, most: number): Html {
  const shown = steps.slice(0, most)
  return html`<ol class="steps" aria-label="Steps">${shown.map(
    ({ atMs, text }) => html`<li>${seconds(atMs)}: ${text}\n`,
  )}</ol>${omitted(steps.length - shown.length)}`
}

function lives({ masters, unownedAddresses }: RunHistory, name: string, most: number): Html {
  let left = most
  let dropped = 0
  const groupOf = (
    title: string,
    tracks: readonly { readonly what: string; readonly spans: readonly Span[] }[],
  ): Group => {
    const rows = tracks.flatMap(({ what, spans }) =>
      spans.map((span) => {
        const { fromMs, toMs, state } = span
        return [what, words[state] ?? state, ...[fromMs, toMs, lengthOf(span)].map(seconds)]
      }),
    )
    const shown = rows.slice(0, left)
    left -= shown.length
    dropped += rows.length - shown.length
    return { name: title, rows: shown }
  }
  const groups = masters.map((one) =>
    groupOf(
      `${one.name} (${one.addresses.join(', then ')})`,
      trackNames.map((name) => ({ what: titles[name] ?? name, spans: one.tracks[name] })),
    ),
  )
  const others = unownedAddresses.map(({ address, slice }) =>
    groupOf(`${address} (no master)`, [{ what: 'EndpointSlice', spans: slice }]),
  )
  return html`${table({
    label: `States over time of ${name}`,
    caption: 'States over time',
    columns: [
      { name: 'what' },
      { name: 'state' },
      ...['from', 'to', 'for'].map((text) => ({ name: text, numbers: true })),
    ],
    groups: [...groups, ...others],
    tall: true,
  })}${omitted(dropped)}`
}

const titles: Readonly<Record<string, string>> = { endpoints: 'Endpoints', slice: 'EndpointSlice' }
const words: Readonly<Record<string, string>> = { dead: 'listed, no client served' }

function omitted(number: number): Html | undefined {
  return number === 0 ? undefined : html`<p class="aside small">${count(number)} more are in report.json.</p>`
}
