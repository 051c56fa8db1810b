import type { DrillEvent } from '../event.ts'
import type { FleetView } from '../fleet-view.ts'
import type { Figures } from '../report.ts'
import { FlapMeter } from './flaps.ts'

type ListingFigures = Pick<
  Figures,
  'flaps' | 'keptDead' | 'deadListedAtEnd' | 'emptyMs' | 'deadListedMs' | 'fewestListed'
>

/** What the EndpointSlice listed in one run. */
export class ListingMeter {
  readonly #flaps = new FlapMeter()
  readonly #deadUntilMs: number
  /** For how long each has been listed and dead for clients by now. */
  readonly #dead = new Map<string, number>()
  #before: readonly string[] = []
  #keptDead = 0
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

  /** Takes in that things are so for so long. */
  last(view: FleetView, forMs: number): void {
    // What is listed at time 0 counts as well.
    if (this.#fewest === undefined) this.#noteFewest()
    const { slice = [] } = view
    const anyWell = [...view.members.values()].some(({ well }) => well)
    if (slice.length === 0 && anyWell) this.#emptyMs += forMs
    const dead = slice.filter((address) => view.meets(address) !== 'served')
    if (dead.length > 0) this.#deadListedMs += forMs
    this.#noteDead(anyWell ? dead.filter((address) => view.mastersOf(address).length > 0) : [], forMs)
  }

  /** `view`: how things are at the end. */
  figures(view: FleetView): ListingFigures {
    return {
      flaps: this.#flaps.count,
      keptDead: this.#keptDead,
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
      if (beforeMs <= this.#deadUntilMs && beforeMs + forMs > this.#deadUntilMs) this.#keptDead++
    }
  }

  #noteFewest(): void {
    const count = new Set(this.#before).size
    this.#fewest = Math.min(this.#fewest ?? count, count)
  }
}
