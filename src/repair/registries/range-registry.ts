import { aborted } from '../../runtime/signals.ts'

/** The ranges for which kube-apiserver stores a bitmap, by the last part of their keys: `<prefix>/ranges/<name>`. */
export const rangeNames = ['serviceips', 'secondaryserviceips', 'servicenodeports'] as const

export type RangeName = (typeof rangeNames)[number]

export interface RangeContent {
  /** The range as text, in the form that the server uses: `10.96.0.0/12`, `30000-32767`. */
  readonly range: string
  /** The bitmap in the format of Go's big.Int.Bytes(); see Bitmap. */
  readonly data: Uint8Array
}

export type StoredRange =
  | { readonly type: 'absent' }
  | (RangeContent & {
      readonly type: 'range'
      /** Identifies the write that stored this state. Reads and watches show the same revision for the same write. */
      readonly revision: string
      /** Why the range is read-only: the end of a sentence that begins with {@link RangeRegistry.where}. */
      readonly fixed?: string | undefined
      /** The registry's own representation of this state, for {@link RangeRegistry.write}. */
      readonly version: unknown
    })
  /** A state that must not be overwritten. `reason` ends a sentence that begins with {@link RangeRegistry.where}. */
  | { readonly type: 'unreadable'; readonly reason: string }

export interface RangeChange {
  readonly name: RangeName
  readonly stored: StoredRange
}

/**
 * Stores the bitmaps, and does not interpret them. Reads are linearizable. Methods reject with a RemoteError, or with
 * the reason of the signal. Upstream: `RangeRegistry` in pkg/registry/core/rangeallocation/registry.go.
 */
export interface RangeRegistry {
  /** Whether the registry has a store. Without one (`none`), all ranges are absent and nothing can be written. */
  readonly writable: boolean
  /**
   * Whether the registry's revisions and the resourceVersions of Services count the writes to one store, so that they
   * show which write was first. @default false
   */
  readonly ordered?: boolean
  /** Describes in messages where a range is stored: `/registry/ranges/servicenodeports in etcd`. */
  where(name: RangeName): string
  read(name: RangeName, signal: AbortSignal): Promise<StoredRange>
  /**
   * Writes a range atomically, if it is still in the state `previous`, which comes from {@link read} or {@link watch}.
   * Unknown fields are preserved. Resolves with the stored state, or with undefined if another write came first.
   *
   * Rejects with a TypeError if `previous` is `unreadable`, and with a RemoteError of the nature `lasting` if it is
   * `fixed`. After a rejection of the nature `away` the outcome is unknown: the write may have happened, or may still
   * happen after a read that does not show it.
   */
  write(
    name: RangeName,
    content: RangeContent,
    previous: StoredRange,
    signal: AbortSignal,
  ): Promise<StoredRange | undefined>
  /**
   * Watches all ranges. Resolves when the signal is aborted.
   *
   * Calls `onChange` with every change of each range, in order. Calls it with undefined when the watch starts, and
   * after each interruption in which changes may have been missed. A change arrives some time after it was made, so a
   * read may show a `revision` that the watch has not delivered yet.
   *
   * Calls `report` with the error when the watch breaks, and with undefined when it opens or reopens.
   */
  watch(options: {
    readonly onChange: (change: RangeChange | undefined) => void
    readonly report: (error: unknown) => void
    readonly signal: AbortSignal
  }): Promise<void>
}

/** A registry without a store: all ranges are absent, and a write rejects with a TypeError. */
export const noneRegistry: RangeRegistry = {
  writable: false,
  where: (name) => `${name} without a range registry`,
  async read(_name, signal) {
    signal.throwIfAborted()
    return { type: 'absent' }
  },
  async write(name) {
    throw new TypeError(`cannot write ${name}: no range registry is configured`)
  },
  async watch({ onChange, report, signal }) {
    if (signal.aborted) return
    await undefined
    if (signal.aborted) return
    report(undefined)
    onChange(undefined)
    await aborted(signal)
  },
}
