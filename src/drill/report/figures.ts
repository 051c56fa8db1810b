import { isOfEvents } from '../../verify/observation.ts'
import { type DrillEvent, type EventOf, ObservedFleet } from '../event.ts'
import type { Distribution, Figures, Sample } from './report.ts'

interface Run {
  readonly events: readonly DrillEvent[]
  readonly untilMs: number
}

/**
 * Computes the figures of one or more runs from their histories, from time 0 until just before `untilMs`. Sums, minima
 * and maxima are over all runs. `deadUntilMs`: how long a dead master may be listed, which is the longest TTL plus the
 * scenario's margin for a removal. Times are measured from states that last: if several events have the same time, only
 * the state after the last event counts. Pure.
 */
export function computeFigures(runs: readonly Run[], { deadUntilMs }: { readonly deadUntilMs: number }): Figures {
  const traffic = new TrafficMeter()
  const each = runs.map((run) => measure(run, traffic, deadUntilMs))
  const total = (figure: 'flaps' | 'deadListedTooLong' | 'deadListedAtEnd' | 'emptyMs' | 'deadListedMs'): number =>
    each.reduce((sum, { listing }) => sum + listing[figure], 0)
  return {
    timeToDetect: distribution(each.flatMap(({ detections }) => detections)),
    timeToRemove: distribution(each.flatMap(({ removals }) => removals)),
    timeToAddAgain: distribution(each.flatMap(({ additions }) => additions)),
    flaps: total('flaps'),
    deadListedTooLong: total('deadListedTooLong'),
    deadListedAtEnd: total('deadListedAtEnd'),
    emptyMs: total('emptyMs'),
    deadListedMs: total('deadListedMs'),
    fewestListed: each.length === 0 ? 0 : Math.min(...each.map(({ listing }) => listing.fewestListed)),
    ...traffic.figures,
  }
}

function measure({ events, untilMs }: Run, traffic: TrafficMeter, deadUntilMs: number) {
  const view = new ObservedFleet()
  const causes = new Causes()
  const listing = new ListingMeter(deadUntilMs)
  const detections = new Waits(detection)
  const removals = new Waits(removal)
  const additions = new Waits(addition)
  let sinceMs = 0
  /** Records that the state since `sinceMs` lasted until `endMs`. */
  const lasted = (endMs: number): void => {
    if (endMs <= sinceMs) return
    for (const waits of [detections, removals, additions]) waits.note(view, causes, sinceMs)
    listing.last(view, endMs - sinceMs)
    sinceMs = endMs
  }
  for (const event of events) {
    if (event.atMs >= untilMs) break
    if (event.type === 'connection' || event.type === 'served' || event.type === 'write') {
      // These frequent events change no state, so they skip the rest of the loop.
      if (event.atMs >= 0) traffic.take(event, view)
      continue
    }
    lasted(event.atMs)
    view.take(event)
    causes.take(event)
    listing.take(event)
  }
  lasted(untilMs)
  traffic.endRun()
  return {
    listing: listing.figures(view),
    detections: detections.samples(view),
    removals: removals.samples(view),
    additions: additions.samples(view),
  }
}

class ListingMeter {
  readonly #flaps = new FlapMeter()
  readonly #deadUntilMs: number
  /**
   * How long each address of a master has been listed without a break while no client was served there and some master
   * was healthy, in milliseconds.
   */
  readonly #dead = new Map<string, number>()
  #before: readonly string[] = []
  #deadListedTooLong = 0
  #emptyMs = 0
  #deadListedMs = 0
  #fewest: number | undefined

  constructor(deadUntilMs: number) {
    this.#deadUntilMs = deadUntilMs
  }

  take(event: DrillEvent): void {
    this.#flaps.take(event)
    if (event.type !== 'listed' || event.object !== 'slice' || event.damage) return
    this.#before = event.addresses ?? []
    if (event.atMs >= 0) this.#noteFewest()
  }

  /** Records that the state in `view` lasted for `forMs`. */
  last(view: ObservedFleet, forMs: number): void {
    // The list at time 0 counts too.
    if (this.#fewest === undefined) this.#noteFewest()
    const { slice = [] } = view
    const anyHealthy = [...view.members.values()].some(({ healthy }) => healthy)
    if (slice.length === 0 && anyHealthy) this.#emptyMs += forMs
    const dead = slice.filter((address) => view.meets(address) !== 'served')
    if (dead.length > 0) this.#deadListedMs += forMs
    this.#noteDead(anyHealthy ? dead.filter((address) => view.mastersOf(address).length > 0) : [], forMs)
  }

  /** `view`: the state at the end. */
  figures(view: ObservedFleet) {
    return {
      flaps: this.#flaps.count,
      deadListedTooLong: this.#deadListedTooLong,
      deadListedAtEnd: new Set(view.slice?.filter((address) => !view.isAlive(address))).size,
      emptyMs: Math.round(this.#emptyMs),
      deadListedMs: Math.round(this.#deadListedMs),
      fewestListed: this.#fewest ?? 0,
    }
  }

  #noteDead(dead: readonly string[], forMs: number): void {
    for (const address of this.#dead.keys()) if (!dead.includes(address)) this.#dead.delete(address)
    for (const address of dead) {
      const beforeMs = this.#dead.get(address) ?? 0
      this.#dead.set(address, beforeMs + forMs)
      if (beforeMs <= this.#deadUntilMs && beforeMs + forMs > this.#deadUntilMs) this.#deadListedTooLong++
    }
  }

  #noteFewest(): void {
    const count = new Set(this.#before).size
    this.#fewest = Math.min(this.#fewest ?? count, count)
  }
}

interface Expectation {
  readonly isDue: (view: ObservedFleet, address: string) => boolean
  readonly isDone: (view: ObservedFleet, address: string) => boolean
  /** Whether a change that is still expected at the end gives a sample without a time. */
  readonly countsAtEnd: (view: ObservedFleet) => boolean
}

const anybodyLives = (view: ObservedFleet): boolean =>
  [...view.members.values()].some(({ address }) => view.isAlive(address))

/** A dead address must be removed. A missing removal gives a sample only if some master is alive at the end. */
const removal: Expectation = {
  isDue: (view, address) => !view.isAlive(address),
  isDone: (view, address) => !view.lists(address),
  countsAtEnd: anybodyLives,
}

const detection: Expectation = {
  isDue: (view, address) => !view.isAlive(address),
  isDone: (view, address) => view.leases?.includes(address) !== true,
  countsAtEnd: anybodyLives,
}

const addition: Expectation = {
  isDue: (view, address) => view.isHealthy(address),
  isDone: (view, address) => view.lists(address),
  countsAtEnd: () => true,
}

/** Measures how long each expected change takes. A change that ceases to be due before it is done gives no sample. */
class Waits {
  readonly #expectation: Expectation
  readonly #samples: Sample[] = []
  readonly #open = new Map<string, Omit<Sample, 'tookMs'>>()

  constructor(expectation: Expectation) {
    this.#expectation = expectation
  }

  note(view: ObservedFleet, causes: Causes, atMs: number): void {
    const { isDue, isDone } = this.#expectation
    for (const address of causes.addresses) {
      const begun = this.#open.get(address)
      if (begun !== undefined && isDone(view, address)) this.#end(address, begun, atMs - begun.atMs)
      else if (!isDue(view, address)) this.#open.delete(address)
      else if (begun === undefined && !isDone(view, address)) {
        this.#open.set(address, { master: causes.masterOf(address), cause: causes.actionOn(address), atMs })
      }
    }
  }

  /** All samples, in the order in which they began. `view`: the state at the end. */
  samples(view: ObservedFleet): readonly Sample[] {
    for (const [address, begun] of this.#open) {
      if (this.#expectation.countsAtEnd(view)) this.#end(address, begun, undefined)
    }
    return this.#samples.toSorted((a, b) => a.atMs - b.atMs)
  }

  #end(address: string, begun: Omit<Sample, 'tookMs'>, tookMs: number | undefined): void {
    this.#open.delete(address)
    this.#samples.push({ ...begun, tookMs: tookMs === undefined ? undefined : Math.round(tookMs * 1000) / 1000 })
  }
}

class Causes {
  /** For each address, all masters that have had it, in the order of the last changes of their states. */
  readonly #masters = new Map<string, string[]>()
  readonly #steps: { readonly action: string; readonly masters: readonly string[] }[] = []

  take(event: DrillEvent): void {
    if (event.type === 'step') this.#steps.push(event)
    if (event.type !== 'state') return
    const { address, master } = event
    const others = (this.#masters.get(address) ?? []).filter((other) => other !== master)
    this.#masters.set(address, [...others, master])
  }

  get addresses(): Iterable<string> {
    return this.#masters.keys()
  }

  /** Of the masters of an address, the one whose state changed last. */
  masterOf(address: string): string {
    return this.#masters.get(address)?.at(-1) ?? ''
  }

  /** The last action that named a master of the address, or no master at all; `nothing` without such an action. */
  actionOn(address: string): string {
    const own = this.#masters.get(address) ?? []
    const concerns = (masters: readonly string[]): boolean =>
      masters.length === 0 || masters.some((master) => own.includes(master))
    return this.#steps.findLast(({ masters }) => concerns(masters))?.action ?? 'nothing'
  }
}

/**
 * How long a master must have been healthy before its removal counts as a flap, in milliseconds. A removal that was
 * decided before the master became healthy may still take effect within this time.
 */
const HEALTHY_MS = 6_000

/**
 * Counts how often an address leaves the EndpointSlice, other than by damage, although one of its masters has been
 * healthy for {@link HEALTHY_MS}.
 */
export class FlapMeter {
  readonly #masters = new Map<string, { readonly address: string; readonly healthySinceMs: number }>()
  #listed: readonly string[] = []
  #count = 0

  take(event: DrillEvent): void {
    if (event.type === 'state') {
      const { master, address, healthy, atMs } = event
      if (!healthy) this.#masters.delete(master)
      else if (this.#masters.get(master)?.address !== address)
        this.#masters.set(master, { address, healthySinceMs: atMs })
    }
    if (event.type !== 'listed' || event.object !== 'slice' || event.damage) return
    const { addresses = [], atMs } = event
    const gone = this.#listed.filter((address) => !addresses.includes(address))
    this.#listed = addresses
    const settled = [...this.#masters.values()].filter(({ healthySinceMs }) => atMs - healthySinceMs >= HEALTHY_MS)
    if (atMs >= 0) this.#count += gone.filter((one) => settled.some(({ address }) => address === one)).length
  }

  /** The flaps from time 0 on. */
  get count(): number {
    return this.#count
  }
}

const WINDOW_MS = 10_000

class TrafficMeter {
  readonly #met = { served: 0, refused: 0, 'black-holed': 0, nobody: 0 }
  #notServedAfterStop = 0
  #writes = 0
  #mostWrites = 0
  #recent = new Map<string, number[]>()

  /** `view`: the state at the time of the event. */
  take(event: EventOf<'connection' | 'served' | 'write'>, view: ObservedFleet): void {
    if (event.type === 'served') this.#met.served += event.count
    if (event.type === 'connection') {
      this.#met[event.outcome]++
      if (event.outcome !== 'served' && view.isStopped(event.address)) this.#notServedAfterStop++
    }
    if (event.type === 'write' && !isOfEvents(event.path)) this.#write(event.master, event.atMs)
  }

  /** Ends a run, so that the times of its writes do not count for the next run. */
  endRun(): void {
    this.#recent = new Map()
  }

  get figures(): Pick<Figures, 'connections' | 'writes'> {
    const { served, refused, 'black-holed': blackHoled, nobody } = this.#met
    const total = served + refused + blackHoled + nobody
    const deadShare = total === 0 ? 0 : (total - served) / total
    const notServedAfterStop = this.#notServedAfterStop
    return {
      connections: { total, served, refused, blackHoled, nobody, deadShare, notServedAfterStop },
      writes: { total: this.#writes, mostInTenSeconds: this.#mostWrites },
    }
  }

  #write(master: string, atMs: number): void {
    this.#writes++
    const recent = (this.#recent.get(master) ?? []).filter((earlier) => earlier > atMs - WINDOW_MS)
    recent.push(atMs)
    this.#recent.set(master, recent)
    this.#mostWrites = Math.max(this.#mostWrites, recent.length)
  }
}

export function distribution(samples: readonly Sample[]): Distribution {
  const sorted = samples.flatMap(({ tookMs }) => (tookMs === undefined ? [] : [tookMs])).sort((a, b) => a - b)
  return {
    count: sorted.length,
    never: samples.length - sorted.length,
    p50Ms: percentile(sorted, 50),
    p99Ms: percentile(sorted, 99),
    maxMs: sorted.at(-1),
    samples,
  }
}

/**
 * A percentile by nearest rank: the smallest value such that at least `percent` % of all values do not exceed it.
 * `sorted` must be ascending. Undefined if `sorted` is empty.
 */
export function percentile(sorted: readonly number[], percent: number): number | undefined {
  return sorted[Math.max(Math.ceil((percent * sorted.length) / 100), 1) - 1]
}
