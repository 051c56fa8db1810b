import { type Random, randomInteger } from '../../runtime/random.ts'

/** What is drawn from a source of randomness, as those who make up scenarios need it. */
export class Draw {
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability
  }

  /** A whole number of tenths of a second, both ends included, in milliseconds. */
  ms(fromMs: number, toMs: number): number {
    return fromMs + 100 * randomInteger(this.#random, Math.floor((toMs - fromMs) / 100) + 1)
  }

  /** A whole number from `from` to `to`, both included. */
  integer(from: number, to: number): number {
    return from + randomInteger(this.#random, to - from + 1)
  }

  /** A whole number between minus `limit` and `limit`. */
  around(limit: number): number {
    return randomInteger(this.#random, 2 * limit + 1) - limit
  }

  pick<T>(from: readonly T[]): T {
    return from[randomInteger(this.#random, from.length)] as T
  }

  /** `count` of them, in their order; all when there are fewer. */
  some<T>(from: readonly T[], count: number): readonly T[] {
    const left = [...from.keys()]
    while (left.length > count) left.splice(randomInteger(this.#random, left.length), 1)
    return left.map((index) => from[index] as T)
  }
}
