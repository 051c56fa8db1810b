import type { Service } from '../kube/resources.ts'
import type { Change } from '../kube/store.ts'
import { Bitmap } from '../net/bitmap.ts'
import type { RangeClaims } from './range-claims.ts'

/**
 * Which numbers are held now, kept up to date with each change of a Service: so a look need not go through all of them. It knows how many hold a
 * number, not who.
 */
export class RangeHoldings {
  readonly #claims: RangeClaims
  /** How often each number is held. Always equal to what the Services told of hold. */
  readonly #counts: readonly Uint32Array[]
  readonly #held: readonly Bitmap[]

  constructor(claims: RangeClaims) {
    this.#claims = claims
    this.#counts = claims.ranges.map(({ size }) => new Uint32Array(size))
    this.#held = claims.ranges.map(({ size }) => new Bitmap(size))
  }

  /** What is held of a range. It changes with the next change: not to be kept. */
  held(range: number): Bitmap {
    return this.#held[range] as Bitmap
  }

  /** Takes in one change; every one must come here, in order. */
  apply(change: Change<Service>): void {
    if (change.type !== 'deleted') this.#claims.visit(change.object, this.#add)
    if (change.type !== 'added') this.#claims.visit(change.old, this.#remove)
  }

  readonly #add = (range: number, offset: number): void => {
    const counts = this.#counts[range] as Uint32Array
    const count = counts[offset] as number
    counts[offset] = count + 1
    if (count === 0) this.held(range).add(offset)
  }

  readonly #remove = (range: number, offset: number): void => {
    const counts = this.#counts[range] as Uint32Array
    const count = (counts[offset] as number) - 1
    counts[offset] = count
    if (count === 0) this.held(range).delete(offset)
  }
}
