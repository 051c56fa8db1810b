/** The ranges that kube-apiserver keeps a bitmap of, by the last part of their keys: `<prefix>/ranges/<name>`. */
export const rangeNames = ['serviceips', 'secondaryserviceips', 'servicenodeports'] as const

export type RangeName = (typeof rangeNames)[number]

/** Which numbers of a range are taken. */
export interface RangeContent {
  /** The range in text, as the server that wrote it was told: `10.96.0.0/12`, `30000-32767`. */
  readonly range: string
  /** As Go's big.Int.Bytes(); see Bitmap. */
  readonly data: Uint8Array
}

/** What is stored of one range. */
export type StoredRange =
  | { readonly type: 'absent' }
  | (RangeContent & {
      readonly type: 'range'
      /** Names this very write: reads and watches tell the same of one write, and of two writes never the same. */
      readonly revision: string
      /** Why it is read but never rewritten, as a line that ends a sentence that begins with what {@link RangeRegistry.where} says. */
      readonly fixed?: string | undefined
      /** The registry's own, for {@link RangeRegistry.write}: what exactly was read. */
      readonly version: unknown
    })
  /** Must not be overwritten. The reason is one line and ends a sentence that begins with what {@link RangeRegistry.where} says. */
  | { readonly type: 'unreadable'; readonly reason: string }

/** What a watch tells: the new state of one range, or that anything may have changed unseen. */
export interface RangeChange {
  readonly name: RangeName
  readonly stored: StoredRange
}

/**
 * Where the bitmaps are. Knows nothing of what is in them. Reads are linearizable.
 *
 * Methods reject with a RemoteError (an EtcdError or KubeError), or with the reason of the signal.
 * Upstream: `RangeRegistry` in pkg/registry/core/rangeallocation/registry.go.
 */
export interface RangeRegistry {
  /** Whether there is anything behind it; where not (`none`), all is absent, and nothing can be written. */
  readonly writable: boolean
  /** Names the place of a range in messages: `/registry/ranges/servicenodeports in etcd`. */
  where(name: RangeName): string
  read(name: RangeName, signal: AbortSignal): Promise<StoredRange>
  /**
   * Writes a range, if it still is what `previous` says, in one step; `previous` comes from {@link read} or {@link watch}. Fields that are not
   * described here stay as they are. Undefined when it was overtaken, else what is stored now. What is `unreadable` is never written: a
   * TypeError; nor is what is `fixed`: a RemoteError of the nature `lasting`. A write that rejects as `away` may have
   * happened, or may yet happen after a read that does not show it.
   */
  write(
    name: RangeName,
    content: RangeContent,
    previous: StoredRange,
    signal: AbortSignal,
  ): Promise<StoredRange | undefined>
  /**
   * Calls `onChange` with every change of each range, in order; and with undefined when the watch stands and after each interruption in which
   * one may have been missed: "look, anything may have changed". Changes come some time after they were made: a read may show a `revision` that
   * was not told of yet. Goes on until the signal is aborted; then it resolves. `report` hears how it fares: undefined when it stands (again),
   * else what broke it.
   */
  watch(options: {
    readonly onChange: (change: RangeChange | undefined) => void
    readonly report: (error: unknown) => void
    readonly signal: AbortSignal
  }): Promise<void>
}
