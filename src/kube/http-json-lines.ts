import { isUtf8 } from 'node:buffer'
import { deepestNesting } from './answer-limits.ts'
import { KubeError } from './errors.ts'
import { HttpBytes } from './http-bytes.ts'

const newline = 0x0a

/**
 * Cuts a stream of bytes into JSON values, one a line. Only the byte 0x0A ends a line: U+2028 and U+2029 may stand inside
 * strings. Each byte is looked at once, however the stream is chopped.
 */
export class JsonLines {
  readonly #begun: HttpBytes

  constructor(maxLineBytes: number) {
    this.#begun = new HttpBytes(maxLineBytes, () => {
      throw new KubeError('TooLarge', `an event is longer than the limit of ${maxLineBytes} bytes`)
    })
  }

  /** The values that `chunk` completes. Throws a BadResponse for a line that is not JSON, TooLarge for one that is too long. */
  *push(chunk: Uint8Array): Generator<unknown, void, undefined> {
    let start = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      const line = this.#take(chunk.subarray(start, end))
      start = end + 1
      if (!isBlank(line)) yield parseJson(line)
    }
    if (start < chunk.length) this.#begun.add(chunk.subarray(start))
  }

  /** Throws a BadResponse if the stream ended inside a line. */
  end(): void {
    if (!isBlank(this.#take(new Uint8Array()))) throw new KubeError('BadResponse', 'the stream ended inside an event')
  }

  #take(last: Uint8Array): Uint8Array {
    if (this.#begun.length === 0) return last
    this.#begun.add(last)
    return this.#begun.take()
  }
}

/** A JSON value from UTF-8 bytes; a BadResponse that does not quote them otherwise. */
export function parseJson(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw new KubeError('BadResponse', 'the answer is not UTF-8')
  if (nestsDeeper(bytes, deepestNesting)) {
    throw new KubeError('BadResponse', `the answer is nested more than ${deepestNesting} deep`)
  }
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'))
  } catch {
    // The engine's message quotes the text, which may hold a Secret.
    throw new KubeError('BadResponse', 'the answer is not JSON')
  }
}

/** Whether brackets outside of strings are open at more than `most` levels at once; what it says of anything but JSON means nothing. */
function nestsDeeper(bytes: Uint8Array, most: number): boolean {
  if (bytes.length <= 2 * most) return false
  let depth = 0
  let quoted = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (quoted) {
      if (byte === 0x5c) at++
      else if (byte === 0x22) quoted = false
    } else if (byte === 0x22) {
      quoted = true
    } else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > most) return true
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--
    }
  }
  return false
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)
}
