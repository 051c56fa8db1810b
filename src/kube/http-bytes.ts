const SMALL = 64 * 1024

/**
 * Bytes that come in pieces, in one buffer: a server that sends each byte by itself must not make an object of each.
 * What becomes of too many is up to `tooLong`, which throws.
 */
export class HttpBytes {
  readonly #limit: number
  readonly #tooLong: () => never
  #buffer = Buffer.alloc(0)
  #length = 0

  constructor(limit: number, tooLong: () => never) {
    this.#limit = limit
    this.#tooLong = tooLong
  }

  /** How many there are. */
  get length(): number {
    return this.#length
  }

  add(piece: Uint8Array): void {
    const length = this.#length + piece.length
    if (length > this.#limit) this.#tooLong()
    if (length > this.#buffer.length) {
      const grown = Buffer.allocUnsafeSlow(Math.min(this.#limit, Math.max(SMALL, 2 * length)))
      this.#buffer.copy(grown, 0, 0, this.#length)
      this.#buffer = grown
    }
    this.#buffer.set(piece, this.#length)
    this.#length = length
  }

  /** All of them, and begins anew. What was taken is good until the next `add`. */
  take(): Uint8Array {
    const taken = this.#buffer.subarray(0, this.#length)
    // The room for one that was long is not kept for the short ones after it.
    if (this.#buffer.length > SMALL) this.#buffer = Buffer.alloc(0)
    this.#length = 0
    return taken
  }
}
