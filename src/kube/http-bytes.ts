/** Blocks grow from the one to the other. */
const SMALLEST = 1024
const LARGEST = 64 * 1024

/**
 * Bytes that come in pieces, copied into blocks: a server that sends each byte by itself must not make an object of each.
 * What becomes of too many is up to `tooLong`, which throws.
 */
export class HttpBytes {
  readonly #limit: number
  readonly #tooLong: () => never
  readonly #blocks: Buffer[] = []
  /** What is free of the last block. */
  #free = Buffer.alloc(0)
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
    if (this.#length + piece.length > this.#limit) this.#tooLong()
    for (let at = 0; at < piece.length; ) {
      if (this.#free.length === 0) {
        this.#free = Buffer.allocUnsafeSlow(Math.min(LARGEST, Math.max(SMALLEST, this.#length, piece.length - at)))
        this.#blocks.push(this.#free)
      }
      const part = piece.subarray(at, at + this.#free.length)
      this.#free.set(part)
      this.#free = this.#free.subarray(part.length)
      this.#length += part.length
      at += part.length
    }
  }

  /** All of them, and begins anew. */
  take(): Uint8Array {
    const taken = Buffer.concat(this.#blocks.splice(0), this.#length)
    this.#free = Buffer.alloc(0)
    this.#length = 0
    return taken
  }
}
