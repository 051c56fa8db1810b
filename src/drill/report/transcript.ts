import { printable } from '../../runtime/errors.ts'
import type { ConnectionOutcome, DrillEvent, EventOf, MemberStatus } from '../event.ts'
import type { RunReport } from './report.ts'

/** The lines of one run in `timeline.txt`; empty if the run's events were not recorded. */
export function renderTranscript({ events = [] }: RunReport): string {
  const transcript = new Transcript()
  const lines = [...events.flatMap((event) => transcript.take(event)), ...transcript.end()]
  return lines.map((line) => `${line}\n`).join('')
}

interface Met {
  readonly sinceMs: number
  readonly address: string
  readonly outcome: ConnectionOutcome
  count: number
}

/**
 * A run in words, with one line for each event, in the order of events. One line shows the addresses that were listed
 * at time 0, and stands for all earlier events. Writes and served connections are left out. All other connections of
 * one second share a line for each address and outcome, unless another line comes between them. The connection of a
 * real client is recorded at its end, after events that happened since its begin. Its line gets the time of the latest
 * recorded event, so that the times of the lines never decrease.
 */
export class Transcript {
  #begun = false
  readonly #statuses = new Map<string, MemberStatus>()
  readonly #listed: { endpoints?: readonly string[]; slice?: readonly string[]; leases?: readonly string[] } = {}
  readonly #met = new Map<string, Met>()
  #latestMs = 0

  /** The lines that an event completes, without newlines. */
  take(event: DrillEvent): readonly string[] {
    const lines: string[] = []
    if (!this.#begun && !isOfTheStart(event)) {
      this.#begun = true
      lines.push(line(0, 'start', `${this.#listed.slice?.join(' ') || 'nobody'} listed`))
    }
    const words = this.#describe(event)
    this.#latestMs = Math.max(this.#latestMs, event.atMs)
    const [first] = this.#met.values()
    const isOver = first !== undefined && wholeSeconds(first.sinceMs) !== wholeSeconds(this.#latestMs)
    if (words !== undefined || isOver) lines.push(...this.end())
    if (event.type === 'connection') this.#count(event)
    if (words !== undefined && this.#begun) lines.push(line(event.atMs, ...words))
    return lines
  }

  /** The lines that are still open, which a later call does not return again. */
  end(): readonly string[] {
    const lines = [...this.#met.values()].map(({ sinceMs, ...met }) => line(sinceMs, 'clients', describeMet(met)))
    this.#met.clear()
    return lines
  }

  #count({ atMs, address, outcome }: EventOf<'connection'>): void {
    if (outcome === 'served' || atMs < 0) return
    const key = `${address} ${outcome}`
    const met = this.#met.get(key) ?? { sinceMs: this.#latestMs, address, outcome, count: 0 }
    met.count++
    this.#met.set(key, met)
  }

  #describe(event: DrillEvent): readonly [kind: string, text: string] | undefined {
    switch (event.type) {
      case 'step':
        return ['step', event.text]
      case 'violation':
        return ['violated', `${event.invariant}: ${event.detail}`]
      case 'state': {
        const before = this.#statuses.get(event.master)
        this.#statuses.set(event.master, event)
        return ['state', `${event.master}: ${describeChange(before, event)}`]
      }
      case 'listed': {
        const by = event.damage ? 'by damage' : event.by === undefined ? undefined : `by ${event.by}`
        return [event.object, this.#describeList(event.object, event.addresses, by)]
      }
      case 'leases':
        return ['leases', this.#describeList('leases', event.addresses, undefined)]
      case 'write':
      case 'connection':
      case 'served':
        return undefined
    }
  }

  #describeList(
    name: 'endpoints' | 'slice' | 'leases',
    addresses: readonly string[] | undefined,
    by: string | undefined,
  ): string {
    const now = addresses ?? []
    const before = this.#listed[name] ?? []
    this.#listed[name] = now
    const gone = without(before, now).map((address) => `-${address}`)
    const come = without(now, before).map((address) => `+${address}`)
    const words = addresses === undefined ? 'gone' : addresses.length === 0 ? 'nobody' : addresses.join(' ')
    // If no address stays, the new list shows the difference by itself.
    const isReplaced = gone.length === before.length
    const notes = [isReplaced ? '' : [...gone, ...come].join(' '), by ?? ''].filter((note) => note !== '')
    return notes.length === 0 ? words : `${words}  (${notes.join(', ')})`
  }
}

/** Whether an event belongs to the state at time 0. The events that complete the first list have the time 0 too. */
function isOfTheStart({ atMs, type }: DrillEvent): boolean {
  return atMs < 0 || (atMs === 0 && ['state', 'listed', 'leases', 'write', 'served'].includes(type))
}

/** The addresses of the first list that are not in the second. Each occurrence of an address counts. */
function without(first: readonly string[], second: readonly string[]): readonly string[] {
  const rest = [...second]
  return first.filter((address) => {
    const index = rest.indexOf(address)
    if (index >= 0) rest.splice(index, 1)
    return index < 0
  })
}

function wholeSeconds(atMs: number): number {
  return Math.floor(atMs / 1000)
}

function line(atMs: number, kind: string, text: string): string {
  return `${`+${(atMs / 1000).toFixed(3)}s`.padStart(10)}  ${kind.padEnd(9)} ${printable(text)}`
}

function describeMet({ address, outcome, count }: Omit<Met, 'sinceMs'>): string {
  if (outcome === 'nobody') return `${count} with no address`
  return `${count} ${outcome} ${outcome === 'refused' ? 'by' : 'at'} ${address}`
}

function describeChange(before: MemberStatus | undefined, now: MemberStatus): string {
  const facts: (string | undefined)[] = [
    before?.address === now.address ? undefined : now.address,
    before?.sidecar === now.sidecar ? undefined : `sidecar ${now.sidecar}`,
    before?.server === now.server ? undefined : `server ${now.server}`,
    before?.clientConnections === now.clientConnections ? undefined : `clients ${now.clientConnections}`,
    before?.renewing === now.renewing ? undefined : now.renewing ? 'renews' : 'does not renew',
    before?.healthy === now.healthy ? undefined : now.healthy ? 'healthy' : 'not healthy',
  ]
  return facts.filter((fact) => fact !== undefined).join(', ')
}
