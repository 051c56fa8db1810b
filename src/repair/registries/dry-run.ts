import { Bitmap } from '../../net/bitmap.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { RangeContent, RangeName, RangeRegistry, StoredRange } from './range-registry.ts'

/** So many numbers are named; of the rest it is said how many there are. */
const namedNumbers = 5

/**
 * A registry that reads for real, and logs each write instead of making it: once, until another write of that range is planned. It
 * answers with what is there.
 */
export class DryRunRangeRegistry implements RangeRegistry {
  readonly writable: boolean
  readonly #inner: RangeRegistry
  readonly #logger: Logger
  readonly #planned = new Map<RangeName, string>()

  constructor(inner: RangeRegistry, logger: Logger) {
    this.writable = inner.writable
    this.#inner = inner
    this.#logger = logger
  }

  where(name: RangeName): string {
    return this.#inner.where(name)
  }

  read(name: RangeName, signal: AbortSignal): Promise<StoredRange> {
    return this.#inner.read(name, signal)
  }

  async write(name: RangeName, content: RangeContent, previous: StoredRange): Promise<StoredRange> {
    const where = this.where(name)
    if (!this.writable) throw new TypeError(`${where} cannot be written`)
    if (previous.type === 'unreadable') throw new TypeError(`${where} ${previous.reason}`)
    if (previous.type === 'range' && previous.fixed !== undefined) {
      this.#say(name, 'dry run: would not write', { where, reason: previous.fixed })
      return previous
    }
    const before = previous.type === 'range' ? bitsOf(previous.data) : new Bitmap(0)
    const after = bitsOf(content.data)
    this.#say(name, 'dry run: would write', {
      where,
      range: content.range,
      ...(previous.type === 'range' && previous.range !== content.range && { previousRange: previous.range }),
      added: numbersIn(after, before),
      removed: numbersIn(before, after),
    })
    return previous
  }

  watch(options: Parameters<RangeRegistry['watch']>[0]): Promise<void> {
    return this.#inner.watch(options)
  }

  #say(name: RangeName, message: string, fields: Readonly<Record<string, string>>): void {
    const plan = JSON.stringify({ message, fields })
    if (this.#planned.get(name) === plan) return
    this.#planned.set(name, plan)
    this.#logger.info(fields, message)
  }
}

function bitsOf(data: Uint8Array): Bitmap {
  return Bitmap.fromBytes(data.length * 8, data) as Bitmap
}

/** What is in one and not in the other: `3: 0, 7, 9`. */
function numbersIn(bitmap: Bitmap, other: Bitmap): string {
  const named: number[] = []
  let count = 0
  for (const number of bitmap) {
    if (!other.has(number) && ++count <= namedNumbers) named.push(number)
  }
  return count === 0 ? '0' : `${count}: ${named.join(', ')}${count > named.length ? ', …' : ''}`
}
