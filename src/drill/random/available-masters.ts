import { type Random, randomInteger } from '../../runtime/random.ts'
import { successorName } from '../scenario/names.ts'
import type { MasterPlan } from '../scenario/scenario.ts'

/**
 * Tracks when each master of a fleet exists, and until when a fault that was drawn for its processes lasts, so that the
 * next such fault begins later. Masters that `scale` adds are not tracked.
 */
export class AvailableMasters {
  readonly #busyUntilMs = new Map<string, number>()
  readonly #masters: { readonly name: string; readonly kind: MasterPlan['kind']; readonly fromMs: number }[]
  readonly #replacements = new Set<string>()
  /** Whether a fault already adds and removes masters. One such fault in a scenario is enough. */
  scaled = false

  constructor(masters: readonly MasterPlan[]) {
    this.#masters = masters.map(({ name, kind }) => ({ name, kind, fromMs: 0 }))
  }

  get replaced(): number {
    return this.#replacements.size
  }

  /** The masters that exist at `atMs`. Without `kind`, of both kinds. */
  names(atMs: number, kind?: MasterPlan['kind']): readonly string[] {
    return this.#masters
      .filter((one) => one.fromMs <= atMs && (kind === undefined || one.kind === kind))
      .map(({ name }) => name)
  }

  /** The masters whose processes have no fault at `atMs`. Without `kind`, of both kinds. */
  free(atMs: number, kind?: MasterPlan['kind']): readonly string[] {
    return this.#masters
      .filter((one) => (kind === undefined || one.kind === kind) && (this.#busyUntilMs.get(one.name) ?? 0) <= atMs)
      .map(({ name }) => name)
  }

  /** Marks the processes of these masters as affected by a fault until `untilMs`. */
  occupy(names: readonly string[], untilMs: number): void {
    for (const name of names) this.#busyUntilMs.set(name, Math.max(untilMs, this.#busyUntilMs.get(name) ?? 0))
  }

  /** Replaces a master with its successor, whose processes run from `fromMs` on. */
  replace(name: string, fromMs: number): void {
    const index = this.#masters.findIndex((one) => one.name === name)
    const before = this.#masters[index]
    if (before === undefined) return
    this.#masters[index] = { ...before, name: successorName(name), fromMs }
    this.#busyUntilMs.set(successorName(name), fromMs)
    this.#replacements.add(successorName(name))
  }

  isReplacement(name: string): boolean {
    return this.#replacements.has(name)
  }
}

export class Draw {
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability
  }

  /** A time from `fromMs` to at most `toMs`, in steps of 100 ms. */
  ms(fromMs: number, toMs: number): number {
    return fromMs + 100 * randomInteger(this.#random, Math.floor((toMs - fromMs) / 100) + 1)
  }

  /** A whole number from `from` to `to`, both included. */
  integer(from: number, to: number): number {
    return from + randomInteger(this.#random, to - from + 1)
  }

  pick<T>(from: readonly T[]): T {
    return from[randomInteger(this.#random, from.length)] as T
  }

  /** At least one of the items, in their order; an empty list if there are none. */
  any<T>(from: readonly T[]): readonly T[] {
    return this.some(from, this.integer(1, from.length))
  }

  /** `count` of the items, in their order; all if there are fewer. */
  some<T>(from: readonly T[], count: number): readonly T[] {
    const left = [...from.keys()]
    while (left.length > count) left.splice(randomInteger(this.#random, left.length), 1)
    return left.map((index) => from[index] as T)
  }
}
