import type { AvailabilityReporter } from '../../kube/availability.ts'
import type { Followed } from '../../kube/informer.ts'
import { isNewer, type Service } from '../../kube/resources.ts'
import { after, before, type Change } from '../../kube/store.ts'
import { Bitmap } from '../../net/bitmap.ts'
import type { Cancel, Clock } from '../../runtime/clock.ts'
import { abortable, linkedController } from '../../runtime/signals.ts'
import type { RangeChange, RangeName, RangeRegistry } from '../registries/range-registry.ts'
import { REQUEST_TIMEOUT_MS } from '../repair.ts'
import type { RangeClaims } from './claims.ts'

/** After this many milliseconds both watches have delivered the bit and the Service of one request. */
const JUDGED_AFTER_MS = 10_000
/** The bitmap counts as unused after this many new ClusterIPs in a row without a bit from a server. */
const UNUSED_AFTER = 5

const source = 'cluster-ip-repair bitmap'

interface BitmapUseOptions {
  readonly registry: RangeRegistry
  readonly claims: RangeClaims
  readonly services: Followed<Service>
  readonly clock: Clock
  readonly availability: AvailabilityReporter
}

/**
 * Detects whether a server that serves IPAddresses also writes the bitmaps. An existing bitmap proves nothing: an
 * upgraded cluster still has the bitmap of its old servers, which newer servers neither read nor write. A server that
 * uses the bitmap sets a bit before it stores a new Service; the repair of a master sets it later. Revisions show which
 * was first, because kube-apiserver stores both in the same etcd.
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

  /** Resolves when the last {@link UNUSED_AFTER} new ClusterIPs got no bit from a server. Rejects as {@link proven}. */
  unused(signal: AbortSignal): Promise<void> {
    let inRow = 0
    return this.#follow((isSet) => {
      inRow = isSet ? 0 : inRow + 1
      return inRow >= UNUSED_AFTER
    }, signal)
  }

  /** Calls `isDecided` for each new ClusterIP, with whether a server has set its bit, until it returns true. */
  async #follow(isDecided: (isSet: boolean) => boolean, signal: AbortSignal): Promise<void> {
    const { registry, services, availability } = this.#options
    const { controller, unlink } = linkedController(signal)
    await services.whenSynced(signal)
    const decided = Promise.withResolvers<void>()
    const evidence = new Evidence(this.#options, (isSet) => {
      if (isDecided(isSet)) decided.resolve()
    })
    let present = true
    const unsubscribe = services.subscribe((change) => {
      if (!present) evidence.serviceChanged(change)
    })
    present = false
    const watching = registry.watch({
      onChange: (change) => evidence.bitmapChanged(change),
      report(error) {
        if (error === undefined) availability.succeeded(source)
        else availability.failed(source, error)
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

/** Matches new ClusterIPs of Services with new bits. */
class Evidence {
  readonly #options: Pick<BitmapUseOptions, 'claims' | 'clock'>
  readonly #judge: (isSet: boolean) => void
  readonly #known = new Map<RangeName, { readonly range: string; readonly taken: Bitmap }>()
  /** The bits that were set in the last minute, by address, the oldest first. */
  readonly #bits = new Map<string, { readonly revision: string; readonly atMs: number }>()
  /** The Services that have just got an address, by address. */
  readonly #services = new Map<string, { readonly service: Service; readonly cancel: Cancel }>()

  constructor(options: Pick<BitmapUseOptions, 'claims' | 'clock'>, judge: (isSet: boolean) => void) {
    this.#options = options
    this.#judge = judge
  }

  serviceChanged(change: Change<Service>): void {
    const [old, service] = [before(change), after(change)]
    if (service === undefined) return
    const held = old === undefined ? undefined : this.#recordable(old)
    for (const ip of this.#recordable(service)) {
      if (held?.has(ip)) continue
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
    const nowMs = this.#options.clock.monotonicMs()
    for (const [ip, { atMs }] of this.#bits) {
      if (nowMs - atMs <= REQUEST_TIMEOUT_MS) break
      this.#bits.delete(ip)
    }
    for (const offset of taken.minus(known.taken)) {
      const ip = range.textAt(offset)
      this.#bits.delete(ip)
      this.#bits.set(ip, { revision: stored.revision, atMs: nowMs })
      this.#match(ip)
    }
  }

  /** Call this at the end too: it cancels the timers. */
  forgetServices(): void {
    for (const { cancel } of this.#services.values()) cancel()
    this.#services.clear()
  }

  /** The addresses of a Service for which a bitmap is known that could have their bits. */
  #recordable(service: Service): ReadonlySet<string> {
    const { claims } = this.#options
    const addresses = new Set<string>()
    claims.visit(service, (index, offset) => {
      const range = claims.ranges[index]
      if (range !== undefined && this.#known.has(range.name)) addresses.add(range.textAt(offset))
    })
    return addresses
  }

  #match(ip: string): void {
    const [found, bit] = [this.#services.get(ip), this.#bits.get(ip)]
    if (found === undefined || bit === undefined) return
    if (this.#options.clock.monotonicMs() - bit.atMs > REQUEST_TIMEOUT_MS) return
    if (!isNewer(found.service, { metadata: { resourceVersion: bit.revision } })) return
    found.cancel()
    this.#services.delete(ip)
    this.#judge(true)
  }
}
