import { Bitmap } from '../../net/bitmap.ts'
import { aborted } from '../../runtime/signals.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { RangeChange, RangeContent, RangeName, RangeRegistry, StoredRange } from './range-registry.ts'

type Content = RangeContent | { readonly unreadable: string }

/** The ranges of all masters of one process, lost when the process exits. No call is answered synchronously. */
export class MemoryRangeRegistry implements RangeRegistry {
  readonly writable = true
  readonly #ranges = new Map<RangeName, { readonly content: Content; readonly revision: number }>()
  readonly #watchers = new Set<(change: RangeChange) => void>()
  #revision = 0

  where(name: RangeName): string {
    return `${name} in memory`
  }

  async read(name: RangeName, signal: AbortSignal): Promise<StoredRange> {
    await turn(signal)
    return this.#stored(name)
  }

  async write(
    name: RangeName,
    content: RangeContent,
    previous: StoredRange,
    signal: AbortSignal,
  ): Promise<StoredRange | undefined> {
    if (previous.type === 'unreadable') throw new TypeError(`${this.where(name)} was not readable`)
    await turn(signal)
    if (this.#ranges.get(name)?.revision !== (previous.type === 'range' ? previous.version : undefined))
      return undefined
    this.put(name, { range: content.range, data: content.data })
    return this.#stored(name)
  }

  async watch({ onChange, report, signal }: Parameters<RangeRegistry['watch']>[0]): Promise<void> {
    if (signal.aborted) return
    await undefined
    if (signal.aborted) return
    const notify = (change: RangeChange): void => {
      if (!signal.aborted) onChange(change)
    }
    this.#watchers.add(notify)
    report(undefined)
    onChange(undefined)
    await aborted(signal)
    this.#watchers.delete(notify)
  }

  /** Stores a range in any state, as a foreign writer might; undefined deletes the range. */
  put(name: RangeName, content: Content | undefined): void {
    if (content === undefined) this.#ranges.delete(name)
    else this.#ranges.set(name, { content: copyOf(content), revision: ++this.#revision })
    for (const notify of [...this.#watchers]) notify({ name, stored: this.#stored(name) })
  }

  #stored(name: RangeName): StoredRange {
    const entry = this.#ranges.get(name)
    if (entry === undefined) return { type: 'absent' }
    const { content, revision } = entry
    if ('unreadable' in content) return { type: 'unreadable', reason: content.unreadable }
    return { type: 'range', ...copyOf(content), revision: String(revision), version: revision }
  }
}

/** Copies the data with a constructor: the `slice` of a Buffer would share its memory. */
function copyOf<T extends Content>(content: T): T {
  return 'unreadable' in content ? content : { ...content, data: new Uint8Array(content.data) }
}

async function turn(signal: AbortSignal): Promise<void> {
  await undefined
  signal.throwIfAborted()
}

/** A log line names at most this many numbers, and gives the count of all. */
const NAMED_NUMBERS = 5

/**
 * Writes nothing. Logs each write, unless it equals the last logged one of its range. `write` resolves with `previous`,
 * even if that is `fixed`.
 */
export class DryRunRangeRegistry implements RangeRegistry {
  readonly writable: boolean
  readonly ordered: boolean
  readonly #inner: RangeRegistry
  readonly #logger: Logger
  readonly #planned = new Map<RangeName, string>()

  constructor(inner: RangeRegistry, logger: Logger) {
    this.writable = inner.writable
    this.ordered = inner.ordered ?? false
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
      this.#log(name, 'dry run: would not write', { where, reason: previous.fixed })
      return previous
    }
    const before = previous.type === 'range' ? bitsOf(previous.data) : new Bitmap(0)
    const after = bitsOf(content.data)
    this.#log(name, 'dry run: would write', {
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

  #log(name: RangeName, message: string, fields: Readonly<Record<string, string>>): void {
    const plan = JSON.stringify({ message, fields })
    if (this.#planned.get(name) === plan) return
    this.#planned.set(name, plan)
    this.#logger.info(fields, message)
  }
}

function bitsOf(data: Uint8Array): Bitmap {
  return Bitmap.fromBytes(data.length * 8, data) as Bitmap
}

/** The numbers that are in `bitmap` but not in `other`, as their count and the first few of them: `3: 0, 7, 9`. */
function numbersIn(bitmap: Bitmap, other: Bitmap): string {
  const named: number[] = []
  let count = 0
  for (const number of bitmap) {
    if (!other.has(number) && ++count <= NAMED_NUMBERS) named.push(number)
  }
  return count === 0 ? '0' : `${count}: ${named.join(', ')}${count > named.length ? ', …' : ''}`
}
