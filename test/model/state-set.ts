/**
 * States by a 64-bit hash of their numbers, each with the state and the move that it came from. Two states with the
 * same hash count as one; among ten million states the probability of such a pair is below one in 100,000.
 */
export class StateSet {
  #high = new Uint32Array(2 ** 16)
  #low = new Uint32Array(2 ** 16)
  #slots = new Int32Array(2 ** 17).fill(-1)
  #parents = new Int32Array(2 ** 16)
  #moves = new Uint16Array(2 ** 16)
  readonly #sought = { high: 0, low: 0 }
  size = 0

  has(world: Int32Array): boolean {
    return this.#find(world) < 0
  }

  /** The number of a new state; −1 for a known one. */
  add(world: Int32Array, parent: number, move: number): number {
    const slot = this.#find(world)
    if (slot < 0) return -1
    if (this.size === this.#high.length) this.#grow()
    const index = this.size++
    this.#high[index] = this.#sought.high
    this.#low[index] = this.#sought.low
    this.#parents[index] = parent
    this.#moves[index] = move
    this.#slots[slot] = index
    if (this.size * 2 > this.#slots.length) this.#rehash()
    return index
  }

  /** The slot for a new state; −1 for a known one. */
  #find(world: Int32Array): number {
    let high = 0x9e3779b9
    let low = 0x85ebca6b
    for (let index = 0; index < world.length; index++) {
      const value = world[index] as number
      high = Math.imul(high ^ value, 0xcc9e2d51)
      high = (high << 15) | (high >>> 17)
      high = Math.imul(high ^ (high >>> 13), 0x1b873593) + index
      low = Math.imul(low ^ (value + 0x7ed55d16), 0x2545f491)
      low = (low << 13) | (low >>> 19)
      low = Math.imul(low ^ (low >>> 16), 0x9e3779b1) + 7 * index
    }
    high = mixed(high ^ Math.imul(low, 3)) >>> 0
    low = mixed(low ^ Math.imul(high, 5)) >>> 0
    this.#sought.high = high
    this.#sought.low = low
    const mask = this.#slots.length - 1
    let slot = low & mask
    for (;;) {
      const index = this.#slots[slot] as number
      if (index === -1) break
      if (this.#high[index] === high && this.#low[index] === low) return -1
      slot = (slot + 1) & mask
    }
    return slot
  }

  parent(index: number): number {
    return this.#parents[index] as number
  }

  move(index: number): number {
    return this.#moves[index] as number
  }

  #grow(): void {
    const larger = <T extends Uint32Array | Int32Array | Uint16Array>(from: T, to: T): T => {
      to.set(from)
      return to
    }
    const length = this.#high.length * 2
    this.#high = larger(this.#high, new Uint32Array(length))
    this.#low = larger(this.#low, new Uint32Array(length))
    this.#parents = larger(this.#parents, new Int32Array(length))
    this.#moves = larger(this.#moves, new Uint16Array(length))
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2).fill(-1)
    const mask = slots.length - 1
    for (let index = 0; index < this.size; index++) {
      let slot = (this.#low[index] as number) & mask
      while (slots[slot] !== -1) slot = (slot + 1) & mask
      slots[slot] = index
    }
    this.#slots = slots
  }
}

function mixed(value: number): number {
  let mixing = value ^ (value >>> 16)
  mixing = Math.imul(mixing, 0x85ebca6b)
  mixing ^= mixing >>> 13
  mixing = Math.imul(mixing, 0xc2b2ae35)
  return mixing ^ (mixing >>> 16)
}
