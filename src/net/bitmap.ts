/**
 * A set of numbers from 0 to `size` - 1, with one bit for each. Must not be changed while it is iterated.
 *
 * Its stored form ({@link toBytes}) is that of Go's `big.Int.Bytes()`, as kube-apiserver stores an allocation
 * (`AllocationBitmap` in pkg/registry/core/service/allocator/bitmap.go): number 0 is the lowest bit of the last byte,
 * and there are no zero bytes in front.
 */
export class Bitmap {
  readonly size: number
  /** Lowest numbers first: the reverse of the stored bytes. */
  readonly #bits: Uint8Array
  /** The memory of `#bits`, four bytes at a time. */
  readonly #words: Uint32Array
  #count = 0

  /** An empty set. */
  constructor(size: number) {
    this.size = size
    this.#words = new Uint32Array(Math.ceil(size / 32))
    this.#bits = new Uint8Array(this.#words.buffer, 0, Math.ceil(size / 8))
  }

  /**
   * Reads the bytes of {@link toBytes}, with or without leading zero bytes. Undefined if they have a number above
   * `size` - 1.
   */
  static fromBytes(size: number, bytes: Uint8Array): Bitmap | undefined {
    const bitmap = new Bitmap(size)
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[bytes.length - 1 - i] as number
      if (byte === 0) continue
      if (i * 8 + 31 - Math.clz32(byte) >= size) return undefined
      bitmap.#bits[i] = byte
      bitmap.#count += bitsInWord(byte)
    }
    return bitmap
  }

  get count(): number {
    return this.#count
  }

  has(number: number): boolean {
    // Shifts take numbers modulo 2^32, so without this check an invalid number would be read as a valid one.
    return number >>> 0 === number && ((this.#bits[number >> 3] ?? 0) & (1 << (number & 7))) !== 0
  }

  /** Adds a number; false when it is already present. @throws RangeError unless it is one of 0 to `size` - 1. */
  add(number: number): boolean {
    if (!Number.isInteger(number) || number < 0 || number >= this.size) {
      throw new RangeError(`${number} is not one of the numbers 0 to ${this.size - 1}`)
    }
    if (this.has(number)) return false
    this.#bits[number >> 3] = (this.#bits[number >> 3] as number) | (1 << (number & 7))
    this.#count++
    return true
  }

  /** Removes a number; false when it is absent. */
  delete(number: number): boolean {
    if (!this.has(number)) return false
    this.#bits[number >> 3] = (this.#bits[number >> 3] as number) & ~(1 << (number & 7))
    this.#count--
    return true
  }

  /** The numbers in the set, lowest first. */
  *[Symbol.iterator](): Generator<number> {
    for (let i = 0; i < this.#bits.length; i++) {
      for (let byte = this.#bits[i] as number; byte !== 0; byte &= byte - 1) {
        yield i * 8 + 31 - Math.clz32(byte & -byte)
      }
    }
  }

  /** The numbers of this set that are not in the other one, which must have the same size. */
  minus(other: Bitmap): Bitmap {
    return this.#combine(other, (ours, theirs) => ours & ~theirs)
  }

  /** The numbers in both sets, which must have the same size. */
  and(other: Bitmap): Bitmap {
    return this.#combine(other, (ours, theirs) => ours & theirs)
  }

  /** The numbers in either set; both must have the same size. */
  or(other: Bitmap): Bitmap {
    return this.#combine(other, (ours, theirs) => ours | theirs)
  }

  #combine(other: Bitmap, combine: (ours: number, theirs: number) => number): Bitmap {
    const result = new Bitmap(this.size)
    const [ours, theirs, words] = [this.#words, other.#words, result.#words]
    let count = 0
    for (let i = 0; i < words.length; i++) {
      const word = combine(ours[i] as number, theirs[i] as number)
      words[i] = word
      if (word !== 0) count += bitsInWord(word)
    }
    result.#count = count
    return result
  }

  toBytes(): Uint8Array {
    let length = this.#bits.length
    while (length > 0 && this.#bits[length - 1] === 0) length--
    return this.#bits.slice(0, length).reverse()
  }
}

function bitsInWord(word: number): number {
  const pairs = word - ((word >>> 1) & 0x5555_5555)
  const quads = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333)
  return Math.imul((quads + (quads >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24
}
