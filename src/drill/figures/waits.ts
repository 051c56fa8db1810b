import type { FleetView } from '../fleet-view.ts'
import type { Sample } from '../report.ts'
import type { Causes } from './causes.ts'

/** Something that is to come about for an address. */
export interface Expectation {
  /** Whether it is to come about, as things are. */
  readonly isDue: (view: FleetView, address: string) => boolean
  /** Whether it has. */
  readonly isDone: (view: FleetView, address: string) => boolean
  /** Whether it counts as never come about when it is still due at the end. */
  readonly countsAtEnd: (view: FleetView) => boolean
}

const anybodyLives = (view: FleetView): boolean =>
  [...view.members.values()].some(({ address }) => view.isAlive(address))

/** What is not removed because nobody was there to do so is not counted. */
export const removal: Expectation = {
  isDue: (view, address) => !view.isAlive(address),
  isDone: (view, address) => !view.lists(address),
  countsAtEnd: anybodyLives,
}

export const detection: Expectation = {
  isDue: (view, address) => !view.isAlive(address),
  isDone: (view, address) => view.leases?.includes(address) !== true,
  countsAtEnd: anybodyLives,
}

export const addition: Expectation = {
  isDue: (view, address) => view.isWell(address),
  isDone: (view, address) => view.lists(address),
  countsAtEnd: () => true,
}

/** Measures how long an expectation is due until it is done; one that is not due any more before is no sample. */
export class Waits {
  readonly #expectation: Expectation
  readonly #samples: Sample[] = []
  readonly #open = new Map<string, Omit<Sample, 'tookMs'>>()

  constructor(expectation: Expectation) {
    this.#expectation = expectation
  }

  /** Takes in how things are from `atMs` on. */
  note(view: FleetView, causes: Causes, atMs: number): void {
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

  /** All of them, in the order in which they began. `view`: how things are at the end. */
  samples(view: FleetView): readonly Sample[] {
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
