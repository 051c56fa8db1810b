import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { KubeError } from './errors.ts'
import { DEEPEST_NESTING } from './transport.ts'

/**
 * The events of one watch, read from the body of its answer. `finish` is called exactly once: when the stream ends or
 * breaks, or when the consumer stops reading. Stopping, even before the first event, closes the connection.
 */
export class EventStream implements AsyncIterableIterator<unknown, undefined> {
  readonly #body: Readable
  readonly #chunks: AsyncIterator<Uint8Array>
  readonly #frames: Frames
  readonly #explain: (error: unknown) => unknown
  readonly #finish: () => void
  #values: Iterator<unknown> = [].values()
  #open = true

  constructor(
    body: Readable,
    options: {
      readonly frames: Frames
      /** Converts an error of the body into the error that the caller gets. */
      readonly explain: (error: unknown) => unknown
      readonly finish: () => void
    },
  ) {
    this.#body = body
    this.#chunks = body[Symbol.asyncIterator]()
    this.#frames = options.frames
    this.#explain = options.explain
    this.#finish = options.finish
    // An error of a body that nothing reads must not become an uncaught exception; the next read reports it.
    body.on('error', () => {})
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    try {
      while (this.#open) {
        const value = this.#values.next()
        if (!value.done) return value
        const chunk = await this.#chunks.next()
        if (!chunk.done) this.#values = this.#frames.push(chunk.value)
        else if (this.#open) {
          this.#frames.end()
          this.#close()
        }
      }
      return { done: true, value: undefined }
    } catch (error) {
      this.#close()
      throw this.#explain(error)
    }
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#close()
    return { done: true, value: undefined }
  }

  #close(): void {
    if (!this.#open) return
    this.#open = false
    this.#frames.clear()
    this.#body.destroy()
    this.#finish()
  }
}

/** Cuts a stream of bytes into events. This takes linear time, however the stream is divided into chunks. */
export interface Frames {
  /**
   * The values that `chunk` completes. Use up the iterator before the next call. Its `next` throws a BadResponse for an
   * event that cannot be read, TooLarge for one that is too long.
   */
  push(chunk: Uint8Array): Iterator<unknown, void, undefined>
  /** Throws a BadResponse if the stream ended inside an event. */
  end(): void
  /** Frees the memory of an incomplete event. Nothing may be pushed after that. */
  clear(): void
}

function tooLong(limit: number): never {
  throw new KubeError('TooLarge', `an event is longer than the limit of ${limit} bytes`)
}

function endedInside(): never {
  throw new KubeError('BadResponse', 'the stream ended inside an event')
}

const NEWLINE = 0x0a

/** JSON values, one a line. Only the byte 0x0A ends a line: strings may contain U+2028 and U+2029. */
export class JsonLines implements Frames {
  readonly #begun: ByteBuffer

  constructor(maxLineBytes: number) {
    this.#begun = new ByteBuffer(maxLineBytes, () => tooLong(maxLineBytes))
  }

  *push(chunk: Uint8Array): Generator<unknown, void, undefined> {
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const value = this.#begun.takeWith(chunk.subarray(start, end), (line) =>
        isBlank(line) ? undefined : parseJson(line),
      )
      start = end + 1
      if (value !== undefined) yield value
    }
    if (start < chunk.length) this.#begun.add(chunk.subarray(start))
  }

  end(): void {
    if (!this.#begun.take(isBlank)) endedInside()
  }

  clear(): void {
    this.#begun.clear()
  }
}

const LENGTH_BYTES = 4

/**
 * Values of any form, each preceded by its length in four bytes, big-endian: apimachinery's length-delimited framer.
 */
export class LengthDelimitedFrames implements Frames {
  readonly #limit: number
  readonly #read: (bytes: Uint8Array) => unknown
  readonly #begun: ByteBuffer
  readonly #header = Buffer.alloc(LENGTH_BYTES)
  #headerLength = 0
  /** How many bytes of the event have not arrived yet. */
  #left = 0

  /** `read` must not retain the bytes. */
  constructor(limit: number, read: (bytes: Uint8Array) => unknown) {
    this.#limit = limit
    this.#read = read
    this.#begun = new ByteBuffer(limit, () => tooLong(limit))
  }

  *push(chunk: Uint8Array): Generator<unknown, void, undefined> {
    for (let at = 0; at < chunk.length; ) {
      if (this.#headerLength < LENGTH_BYTES) {
        this.#header[this.#headerLength++] = chunk[at++] ?? 0
        if (this.#headerLength < LENGTH_BYTES) continue
        this.#left = this.#header.readUInt32BE(0)
        if (this.#left > this.#limit) tooLong(this.#limit)
      }
      const part = chunk.subarray(at, at + this.#left)
      at += part.length
      this.#left -= part.length
      if (this.#left > 0) {
        this.#begun.add(part)
        return
      }
      this.#headerLength = 0
      yield this.#begun.takeWith(part, this.#read)
    }
  }

  end(): void {
    if (this.#headerLength > 0) endedInside()
  }

  clear(): void {
    this.#begun.clear()
  }
}

/**
 * Parses a JSON value from UTF-8 bytes. `dropsManagedFields` makes each list of managedFields empty. Throws a
 * BadResponse, which quotes nothing, if the bytes are not JSON in UTF-8, or have too many or too deeply nested
 * brackets.
 */
export function parseJson(bytes: Uint8Array, dropsManagedFields = false): unknown {
  if (!isUtf8(bytes)) throw new KubeError('BadResponse', 'the answer is not UTF-8')
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  const text = dropsManagedFields ? withoutManagedFields(whole) : whole
  const fault = structureFault(text, DEEPEST_NESTING)
  if (fault !== undefined) throw new KubeError('BadResponse', `the answer ${fault}`)
  try {
    return JSON.parse(text)
  } catch {
    // The engine's message quotes the text, which may hold a Secret.
    throw new KubeError('BadResponse', 'the answer is not JSON')
  }
}

/** A peer sends on average at least this many bytes per `{` or `[`. managedFields come closest to this limit. */
const LEAST_BYTES = 6

/**
 * What is wrong with the brackets outside of strings, as the end of a sentence: they are nested more than `most` deep,
 * or there are too many. Undefined if nothing is wrong. For text that is not JSON the result has no meaning.
 */
export function structureFault(text: string, most: number): string | undefined {
  if (text.length <= 2 * most) return undefined
  let depth = 0
  let left = 1000 + text.length / LEAST_BYTES
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x22) {
      at = endOfString(text, at)
      if (at === -1) return undefined
    } else if (code === 0x7b || code === 0x5b) {
      if (++depth > most) return `is nested more than ${most} levels deep`
      if (--left < 0) return 'has too many objects and lists for its length'
    } else if (code === 0x7d || code === 0x5d) {
      depth--
    }
  }
  return undefined
}

/**
 * The key as Go writes it, without a space. A string cannot contain all of this text, because quotes in strings are
 * escaped.
 */
const MANAGED_FIELDS = '"managedFields":['

/** JSON text with `[]` in place of each list of managedFields, which saves the time and memory to parse them. */
function withoutManagedFields(text: string): string {
  const pieces: string[] = []
  let from = 0
  for (let at = text.indexOf(MANAGED_FIELDS); at !== -1; at = text.indexOf(MANAGED_FIELDS, from)) {
    const start = at + MANAGED_FIELDS.length
    // If the first quote is escaped, this is the end of a longer key such as `"x\"managedFields"`.
    const end = text.charCodeAt(at - 1) === 0x5c ? start : endOfList(text, start)
    if (end === -1) break
    pieces.push(text.slice(from, start))
    from = end
  }
  return pieces.join('') + text.slice(from)
}

/** The index of the bracket that closes the list whose contents begin at `start`; -1 if there is none. */
function endOfList(text: string, start: number): number {
  let depth = 1
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x22) {
      at = endOfString(text, at)
      if (at === -1) return -1
    } else if (code === 0x7b || code === 0x5b) {
      depth++
    } else if ((code === 0x7d || code === 0x5d) && --depth === 0) {
      return at
    }
  }
  return -1
}

/** The index of the quote that ends the string at `start`, after an even number of backslashes; -1 if there is none. */
function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = at
    while (text.charCodeAt(escapes - 1) === 0x5c) escapes--
    if ((at - escapes) % 2 === 0) return at
  }
  return -1
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)
}

/** The sizes of the smallest and the largest block, in bytes. */
const SMALLEST = 1024
const LARGEST = 64 * 1024

/**
 * Collects bytes that arrive in pieces. It copies them, so that a server that sends single bytes does not cause one
 * object per byte. Calls `tooLong`, which must throw, when there are more bytes than the limit.
 *
 * Up to {@link LARGEST} bytes are in ordinary blocks. More bytes are in one resizable buffer, whose pages return to the
 * system as soon as it is emptied. Blocks come from the C library's heap, where freed memory mostly stays resident.
 */
export class ByteBuffer {
  readonly #limit: number
  readonly #tooLong: () => never
  readonly #blocks: Buffer[] = []
  /** The unused part of the last block. */
  #free = Buffer.alloc(0)
  #large: ArrayBuffer | undefined
  #length = 0

  constructor(limit: number, tooLong: () => never) {
    this.#limit = limit
    this.#tooLong = tooLong
  }

  get length(): number {
    return this.#length
  }

  add(piece: Uint8Array): void {
    const length = this.#length + piece.length
    if (length > this.#limit) this.#tooLong()
    if (length > LARGEST) this.#addLarge(piece)
    else this.#addSmall(piece)
    this.#length = length
  }

  /** Passes all bytes to `use`, and starts again empty. `use` must not retain them. */
  take<T>(use: (bytes: Uint8Array) => T): T {
    try {
      return use(
        this.#large === undefined
          ? Buffer.concat(this.#blocks, this.#length)
          : new Uint8Array(this.#large, 0, this.#length),
      )
    } finally {
      this.clear()
    }
  }

  /** As {@link take}, with `last` added. If the buffer is empty, `last` is not copied, and the limit is not checked. */
  takeWith<T>(last: Uint8Array, use: (bytes: Uint8Array) => T): T {
    if (this.#length === 0) return use(last)
    this.add(last)
    return this.take(use)
  }

  clear(): void {
    this.#large?.resize(0)
    this.#large = undefined
    this.#blocks.length = 0
    this.#free = Buffer.alloc(0)
    this.#length = 0
  }

  #addSmall(piece: Uint8Array): void {
    for (let at = 0; at < piece.length; ) {
      if (this.#free.length === 0) {
        const size = Math.max(SMALLEST, this.#length, piece.length - at)
        this.#free = Buffer.allocUnsafeSlow(Math.min(LARGEST, size))
        this.#blocks.push(this.#free)
      }
      const part = piece.subarray(at, at + this.#free.length)
      this.#free.set(part)
      this.#free = this.#free.subarray(part.length)
      at += part.length
    }
  }

  #addLarge(piece: Uint8Array): void {
    const length = this.#length + piece.length
    const large = this.#large ?? new ArrayBuffer(0, { maxByteLength: this.#limit })
    // Pages that were never written cost nothing.
    if (large.byteLength < length) large.resize(Math.min(this.#limit, Math.max(2 * large.byteLength, length)))
    const bytes = new Uint8Array(large)
    if (this.#large === undefined) {
      let at = 0
      for (const block of this.#blocks.splice(0)) {
        const used = block.subarray(0, this.#length - at)
        bytes.set(used, at)
        at += used.length
      }
      this.#free = Buffer.alloc(0)
    }
    this.#large = large
    bytes.set(piece, this.#length)
  }
}
