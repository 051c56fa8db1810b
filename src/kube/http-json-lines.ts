import { isUtf8 } from 'node:buffer'
import { KubeError } from './errors.ts'

const newline = 0x0a

/**
 * Cuts a stream of bytes into JSON values, one a line. Only the byte 0x0A ends a line: U+2028 and U+2029 may stand inside
 * strings. Each byte is looked at once, however the stream is chopped.
 */
export class JsonLines {
  readonly #maxLineBytes: number
  #parts: Uint8Array[] = []
  #pendingBytes = 0

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes
  }

  /** The values that `chunk` completes. Throws a BadResponse for a line that is not JSON or is too long. */
  *push(chunk: Uint8Array): Generator<unknown, void, undefined> {
    let start = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      const line = this.#take(chunk.subarray(start, end))
      start = end + 1
      if (!isBlank(line)) yield parseJson(line)
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start))
  }

  /** Throws a BadResponse if the stream ended inside a line. */
  end(): void {
    if (!isBlank(this.#take(new Uint8Array()))) throw new KubeError('BadResponse', 'the stream ended inside an event')
  }

  #keep(part: Uint8Array): void {
    this.#pendingBytes += part.length
    if (this.#pendingBytes > this.#maxLineBytes) {
      throw new KubeError('BadResponse', `an event is longer than ${this.#maxLineBytes} bytes`)
    }
    this.#parts.push(part)
  }

  #take(last: Uint8Array): Uint8Array {
    if (this.#parts.length === 0) return last
    const line = Buffer.concat([...this.#parts, last])
    this.#parts = []
    this.#pendingBytes = 0
    return line
  }
}

/** A JSON value from UTF-8 bytes; a BadResponse that does not quote them otherwise. */
export function parseJson(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw new KubeError('BadResponse', 'the answer is not UTF-8')
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'))
  } catch {
    // The engine's message quotes the text, which may hold a Secret.
    throw new KubeError('BadResponse', 'the answer is not JSON')
  }
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)
}
