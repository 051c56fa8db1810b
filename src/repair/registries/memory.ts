import { aborted } from '../../runtime/signals.ts'
import type { RangeChange, RangeContent, RangeName, RangeRegistry, StoredRange } from './range-registry.ts'

type Content = RangeContent | { readonly unreadable: string }

/** What the masters of one process share; it ends with it. No call is answered before the caller's turn has ended. */
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
    const tell = (change: RangeChange): void => {
      if (!signal.aborted) onChange(change)
    }
    this.#watchers.add(tell)
    report(undefined)
    onChange(undefined)
    await aborted(signal)
    this.#watchers.delete(tell)
  }

  /** Puts a range there, something that is none, or nothing, whatever is there: as somebody else might. */
  put(name: RangeName, content: Content | undefined): void {
    if (content === undefined) this.#ranges.delete(name)
    else this.#ranges.set(name, { content: copyOf(content), revision: ++this.#revision })
    for (const tell of [...this.#watchers]) tell({ name, stored: this.#stored(name) })
  }

  #stored(name: RangeName): StoredRange {
    const entry = this.#ranges.get(name)
    if (entry === undefined) return { type: 'absent' }
    const { content, revision } = entry
    if ('unreadable' in content) return { type: 'unreadable', reason: content.unreadable }
    return { type: 'range', ...copyOf(content), revision: String(revision), version: revision }
  }
}

/** Not slice: that of a Buffer shares its memory. */
function copyOf<T extends Content>(content: T): T {
  return 'unreadable' in content ? content : { ...content, data: new Uint8Array(content.data) }
}

async function turn(signal: AbortSignal): Promise<void> {
  await undefined
  signal.throwIfAborted()
}
