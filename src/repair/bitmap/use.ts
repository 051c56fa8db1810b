import type { AvailabilityReporter } from '../../kube/availability.ts'
import type { Followed } from '../../kube/informer.ts'
import { isNewer, type Service } from '../../kube/resources.ts'
import { after, before, type Change } from '../../kube/store.ts'
import { Bitmap } from '../../net/bitmap.ts'
import type { Cancel, Clock } from '../../runtime/clock.ts'
import { abortable, linkedController } from '../../runtime/signals.ts'
import type { RangeChange, RangeName, RangeRegistry } from '../registries/range-registry.ts'
import { REQUEST_TIMEOUT_MS } from '../repair.ts'
import type { BitmapRange, RangeClaims } from './claims.ts'

/** After this many milliseconds both watches have delivered what one request changed: the bit and the Service. */
const JUDGED_AFTER_MS = 10_000
/**
 * The bitmap counts as unused when no server has set a bit for `addresses` new ClusterIPs in a row, and for `intervals`
 * intervals of the repair. One ClusterIP proves nothing: during an upgrade only some of the servers may use the bitmap.
 */
const UNUSED_AFTER = { addresses: 5, intervals: 3 }
/** A server sets one bit at a time. A change with more new bits than this counts as the write of a repair. */
const MOST_BITS = 16

const source = 'cluster-ip-repair bitmap'

interface BitmapUseOptions {
  readonly registry: RangeRegistry
  readonly claims: RangeClaims
  readonly services: Followed<Service>
  readonly clock: Clock
  readonly availability: AvailabilityReporter
  /** The time between two full passes of the repair, in milliseconds. */
  readonly intervalMs: number
}

/**
 * Detects whether a server that serves IPAddresses also writes the bitmaps. An existing bitmap proves nothing: an
 * upgraded cluster still has the bitmap of its old servers, which newer servers neither read nor write. A server that
 * uses the bitmap sets the bit of a ClusterIP before it stores the new Service; the repair of a master sets the bit
 * afterwards. The revisions of bit and Service show which was stored first, because kube-apiserver stores both in the
 * same etcd.
 */
export class BitmapUse {
  readonly #options: BitmapUseOptions

  constructor(options: BitmapUseOptions) {
    this.#options = options
  }

  /** Resolves when a server has set the bit of a new ClusterIP. Rejects with the signal's reason. */
  proven(signal: AbortSignal): Promise<void> {
    return this.#follow((isSet) => isSet, signal)
  }

  /** Resolves when no server uses the bitmap any more ({@link UNUSED_AFTER}). Rejects like {@link proven}. */
  unused(signal: AbortSignal): Promise<void> {
    const { clock, intervalMs } = this.#options
    const { addresses, intervals } = UNUSED_AFTER
    let inRow = 0
    let usedMs = clock.monotonicMs()
    return this.#follow((isSet) => {
      inRow = isSet ? 0 : inRow + 1
      if (isSet) usedMs = clock.monotonicMs()
      return inRow >= addresses && clock.monotonicMs() - usedMs >= intervals * intervalMs
    }, signal)
  }

  /**
   * Calls `isDecided` for each new ClusterIP, until `isDecided` returns true. `isSet`: whether a server has set the
   * bit.
   */
  async #follow(isDecided: (isSet: boolean) => boolean, signal: AbortSignal): Promise<void> {
    const { registry, services, availability } = this.#options
    const { controller, unlink } = linkedController(signal)
    await services.whenSynced(signal)
    const decided = Promise.withResolvers<void>()
    const evidence = new Evidence(this.#options, (isSet) => {
      if (isDecided(isSet)) decided.resolve()
    })
    const unsubscribe = services.subscribe((change) => evidence.serviceChanged(change), { onlyChanges: true })
    const watching = registry.watch({
      onChange: (change) => evidence.bitmapChanged(change),
      report(error) {
        if (error === undefined) availability.succeeded(source)
        else {
          availability.failed(source, error)
          // Bits may be missed until the watch opens again, and only then does the watch report the gap.
          evidence.bitmapChanged(undefined)
        }
      },
      signal: controller.signal,
    })
    try {
      await Promise.race([abortable(decided.promise, signal), watching])
      signal.throwIfAborted()
    } finally {
      unsubscribe()
      evidence.forgetServices()
      controller.abort()
      unlink()
      await watching
      availability.forget(source)
    }
  }
}

/**
 * Matches new ClusterIPs of Services with new bits. Calls `judge` for each new ClusterIP: whether a server set its bit.
 */
class Evidence {
  readonly #options: Pick<BitmapUseOptions, 'claims' | 'clock'>
  readonly #judge: (isSet: boolean) => void
  /** The last bitmap of each range, from the watch. */
  readonly #known = new Map<RangeName, { readonly range: string; readonly taken: Bitmap }>()
  /**
   * The bits that were set in about the last minute, by address, the oldest first. `atMs`: monotonic time of arrival.
   */
  readonly #bits = new Map<string, { readonly revision: string; readonly atMs: number }>()
  /** The Services with a new ClusterIP that is not judged yet, by that ClusterIP. */
  readonly #services = new Map<string, { readonly service: Service; readonly cancel: Cancel }>()

  constructor(options: Pick<BitmapUseOptions, 'claims' | 'clock'>, judge: (isSet: boolean) => void) {
    this.#options = options
    this.#judge = judge
  }

  serviceChanged(change: Change<Service>): void {
    const [old, service] = [before(change), after(change)]
    const held = old && this.#recordable(old)
    this.#forgetOldBits()
    if (service === undefined) {
      // The bit of the deleted Service must not count for a later Service with the same address.
      for (const ip of held?.keys() ?? []) this.#bits.delete(ip)
      return
    }
    for (const [ip, isSet] of this.#recordable(service)) {
      // If the bit is set, but no change in the last minute set it, this Service may just have arrived late.
      if (held?.has(ip) || (isSet && !this.#bits.has(ip))) continue
      this.#services.get(ip)?.cancel()
      const cancel = this.#options.clock.schedule(JUDGED_AFTER_MS, () => {
        this.#services.delete(ip)
        this.#judge(false)
      })
      this.#services.set(ip, { service, cancel })
      this.#match(ip)
    }
  }

  bitmapChanged(change: RangeChange | undefined): void {
    // Bits that were set during a gap in the watch cannot be distinguished from old ones.
    if (change === undefined) {
      this.#known.clear()
      this.forgetServices()
      return
    }
    const { name, stored } = change
    const known = this.#known.get(name)
    this.#known.delete(name)
    if (name === 'servicenodeports' || stored.type !== 'range') return
    const range = this.#options.claims.parse(stored.range)
    const taken = range && Bitmap.fromBytes(range.size, stored.data)
    if (range === undefined || taken === undefined) return
    this.#known.set(name, { range: stored.range, taken })
    if (known?.range !== stored.range) return
    this.#forgetOldBits()
    const nowMs = this.#options.clock.monotonicMs()
    for (const offset of known.taken.minus(taken)) this.#bits.delete(range.textAt(offset))
    const added = taken.minus(known.taken)
    if (added.count > MOST_BITS) return
    for (const offset of added) {
      const ip = range.textAt(offset)
      this.#bits.set(ip, { revision: stored.revision, atMs: nowMs })
      this.#match(ip)
    }
  }

  /** Forgets the ClusterIPs that are not judged yet, and cancels their timers. Call this at the end too. */
  forgetServices(): void {
    for (const { cancel } of this.#services.values()) cancel()
    this.#services.clear()
  }

  /** The ClusterIPs of a Service for whose range a bitmap is known, and whether their bits are set. */
  #recordable(service: Service): ReadonlyMap<string, boolean> {
    const { claims } = this.#options
    const addresses = new Map<string, boolean>()
    claims.visit(service, (index, offset) => {
      const range = claims.ranges[index] as BitmapRange
      const known = this.#known.get(range.name)
      if (range.text === known?.range) addresses.set(range.textAt(offset), known.taken.has(offset))
    })
    return addresses
  }

  #forgetOldBits(): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const [ip, { atMs }] of this.#bits) {
      if (nowMs - atMs <= REQUEST_TIMEOUT_MS) return
      this.#bits.delete(ip)
    }
  }

  #match(ip: string): void {
    const [found, bit] = [this.#services.get(ip), this.#bits.get(ip)]
    if (found === undefined || bit === undefined) return
    if (!isNewer(found.service, { metadata: { resourceVersion: bit.revision } })) return
    found.cancel()
    this.#services.delete(ip)
    this.#bits.delete(ip)
    this.#judge(true)
  }
}
