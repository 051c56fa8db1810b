import { type Random, randomInteger } from '../runtime/random.ts'
import { type ConnectionOutcome, type DrillEvent, type EventOf, ObservedFleet } from './event.ts'
import type { ClientsPlan } from './scenario/scenario.ts'

type Met = EventOf<'connection' | 'served'>

type Change = { readonly atMs: number } & (
  | { readonly addresses: readonly string[] }
  | { readonly address: string; readonly outcome: ConnectionOutcome }
)

/**
 * Computes, from a history, the connections that simulated clients begin between time 0 and `untilMs`. Each client
 * begins a connection every `intervalMs`, whatever the result of its earlier connections. The clients take turns at
 * nearly even intervals, with some randomness. Each client learns of a change of the EndpointSlice `watchDelayMs` after
 * the change, as its kube-proxy does. For each connection the client picks one of the addresses that it knows, with
 * equal probability. {@link ObservedFleet.meets} determines the outcome. A connection without an answer for `timeoutMs`
 * is black-holed. Served connections are counted by the second. The result is in the order of time. Pure.
 */
export function simulateClients(
  events: readonly DrillEvent[],
  plan: ClientsPlan,
  options: { readonly random: Random; readonly untilMs: number },
): readonly Met[] {
  const { count, intervalMs } = plan
  const { random, untilMs } = options
  const phases = Array.from({ length: count }, (_, index) => ((index + random.next()) / count) * intervalMs)
  const served = new ServedCounter()
  const failed: EventOf<'connection'>[] = []
  const outcomes = new Map<string, ConnectionOutcome>()
  const meets = (address: string): ConnectionOutcome => outcomes.get(address) ?? 'black-holed'
  let known: readonly string[] = []
  let connections = 0

  /**
   * Makes all connections that begin before `endMs`. Call this before each change of the known addresses or of an
   * outcome.
   */
  const connectUntil = (endMs: number): void => {
    const allServe = known.length > 0 && known.every((address) => meets(address) === 'served')
    for (; count > 0; connections++) {
      const index = connections % count
      const atMs = (phases[index] ?? 0) + Math.floor(connections / count) * intervalMs
      if (atMs >= endMs) return
      const address = allServe ? '' : (known[randomInteger(random, known.length)] ?? '')
      const outcome = allServe ? 'served' : address === '' ? 'nobody' : meets(address)
      if (outcome === 'served') served.count(atMs)
      else failed.push({ atMs: rounded(atMs), type: 'connection', client: `client-${index + 1}`, address, outcome })
    }
  }
  for (const change of changesOf(events, plan)) {
    connectUntil(Math.min(change.atMs, untilMs))
    if ('addresses' in change) known = change.addresses
    else outcomes.set(change.address, change.outcome)
  }
  connectUntil(untilMs)
  return inOrder([...served.events(), ...failed])
}

/**
 * Replaces the served connections with one `served` event for each second in which there are any. The result is in the
 * order of time.
 */
export function condenseServed(events: readonly DrillEvent[]): readonly DrillEvent[] {
  const served = new ServedCounter()
  const others = events.filter((event) => {
    const isServed = event.type === 'connection' && event.outcome === 'served'
    if (isServed) served.count(event.atMs)
    return !isServed
  })
  return inOrder([...others, ...served.events()])
}

/** The same events in the order of time. Events of one moment keep their order. */
export function inOrder<Each extends DrillEvent>(events: readonly Each[]): readonly Each[] {
  return events.toSorted((a, b) => a.atMs - b.atMs)
}

class ServedCounter {
  readonly #counts = new Map<number, number>()

  count(atMs: number): void {
    const second = Math.floor(atMs / 1000)
    this.#counts.set(second, (this.#counts.get(second) ?? 0) + 1)
  }

  events(): readonly EventOf<'served'>[] {
    return [...this.#counts].map(([second, count]) => ({ atMs: second * 1000, type: 'served', count }))
  }
}

function changesOf(events: readonly DrillEvent[], { watchDelayMs, timeoutMs }: ClientsPlan): readonly Change[] {
  const view = new ObservedFleet()
  const changes: Change[] = []
  const outcomes = new Map<string, { readonly outcome: ConnectionOutcome; readonly sinceMs: number }>()
  for (const event of events) {
    if (event.type === 'listed' && event.object === 'slice') {
      // Clients know a list of time 0 or before without a delay.
      const knownAtMs = event.atMs <= 0 ? event.atMs : event.atMs + watchDelayMs
      changes.push({ atMs: knownAtMs, addresses: event.addresses ?? [] })
    }
    const moved = event.type === 'state' ? view.members.get(event.master)?.address : undefined
    view.take(event)
    if (event.type !== 'state') continue
    for (const address of new Set([event.address, moved ?? event.address])) {
      const before = outcomes.get(address)
      const outcome = view.meets(address)
      if (before?.outcome === outcome) continue
      outcomes.set(address, { outcome, sinceMs: event.atMs })
      // A waiting client gets its answer when a master comes back. So the new outcome also applies to connections that
      // began earlier and whose timeout has not passed.
      const waited = before?.outcome === 'black-holed' ? Math.min(timeoutMs, event.atMs - before.sinceMs) : 0
      changes.push({ atMs: event.atMs - waited, address, outcome })
    }
  }
  return changes.sort((a, b) => a.atMs - b.atMs)
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000
}
