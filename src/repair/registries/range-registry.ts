import { aborted } from '../../runtime/signals.ts'

/** The ranges for which kube-apiserver stores a bitmap, by the last part of their keys: `<prefix>/ranges/<name>`. */
export const rangeNames = ['serviceips', 'secondaryserviceips', 'servicenodeports'] as const

export type RangeName = (typeof rangeNames)[number]

/** The allocated numbers of a range. */
export interface RangeContent {
  /** The range in text, from the server that wrote it: `10.96.0.0/12`, `30000-32767`. */
  readonly range: string
  /** As Go's big.Int.Bytes(); see Bitmap. */
  readonly data: Uint8Array
}

/** The stored state of one range. */
export type StoredRange =
  | { readonly type: 'absent' }
  | (RangeContent & {
      readonly type: 'range'
      /** Identifies the write: equal in reads and watches of one write, and different for different writes. */
      readonly revision: string
      /** Why it is read but never rewritten, as the end of a sentence that begins with {@link RangeRegistry.where}. */
      readonly fixed?: string | undefined
      /** For {@link RangeRegistry.write}: the registry's own form of the state that was read. */
      readonly version: unknown
    })
  /** Must not be overwritten. The reason is the end of a sentence that begins with {@link RangeRegistry.where}. */
  | { readonly type: 'unreadable'; readonly reason: string }

/** An event of a watch: the new state of one range, or that anything may have changed unseen. */
export interface RangeChange {
  readonly name: RangeName
  readonly stored: StoredRange
}

/**
 * The store of the bitmaps; knows nothing of their contents. Reads are linearizable.
 *
 * Methods reject with a RemoteError (an EtcdError or KubeError), or with the reason of the signal. Upstream:
 * `RangeRegistry` in pkg/registry/core/rangeallocation/registry.go.
 */
export interface RangeRegistry {
  /** Whether there is a store behind it; otherwise (`none`) all ranges are absent, and nothing can be written. */
  readonly writable: boolean
  /** Names the place of a range in messages: `/registry/ranges/servicenodeports in etcd`. */
  where(name: RangeName): string
  read(name: RangeName, signal: AbortSignal): Promise<StoredRange>
  /**
   * Writes a range, if it is still in the state `previous`, in one step; `previous` comes from {@link read} or
   * {@link watch}. Unknown fields are preserved. Returns undefined when another write was first, else the stored state.
   * An `unreadable` state is never written: a TypeError; nor is a `fixed` one: a RemoteError of the nature `lasting`. A
   * write that rejects as `away` may have happened, or may yet happen after a read that does not show it.
   */
  write(
    name: RangeName,
    content: RangeContent,
    previous: StoredRange,
    signal: AbortSignal,
  ): Promise<StoredRange | undefined>
  /**
   * Calls `onChange` with every change of each range, in order; and with undefined when the watch starts and after each
   * interruption that may have missed one. Changes arrive some time after they were made: a read may show a `revision`
   * that was not yet delivered. Continues until the signal is aborted; then it resolves. Calls `report` with undefined
   * when the watch is open (again), else with the error that broke it.
   */
  watch(options: {
    readonly onChange: (change: RangeChange | undefined) => void
    readonly report: (error: unknown) => void
    readonly signal: AbortSignal
  }): Promise<void>
}

/** A registry without bitmaps: findings can be reported, but nothing can be written. */
export const noneRegistry: RangeRegistry = {
  writable: false,
  where: (name) => `${name} without a range registry`,
  async read(_name, signal) {
    signal.throwIfAborted()
    return { type: 'absent' }
  },
  async write(name) {
    throw new TypeError(`there is no range registry to write ${name} to`)
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
