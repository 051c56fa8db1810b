import type { AvailabilityReporter } from '../kube/availability.ts'
import type { Followed } from '../kube/informer.ts'
import { WriteRetry } from '../kube/reconcile-loop.ts'
import type { Service } from '../kube/resources.ts'
import { Bitmap } from '../net/bitmap.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { abortable, linkedController, together } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { RangeClaims } from './bitmap/claims.ts'
import type { RangeChange, RangeName, RangeRegistry } from './registries/range-registry.ts'
import { REQUEST_TIMEOUT_MS, type Repair } from './repair.ts'
import { clusterIpsOf } from './service-claims.ts'

/** The time between two checks, in milliseconds, while it is unknown whether the server has the IPAddress API. */
const UNDECIDED_PERIOD_MS = 200
/** A starting server may lack the IPAddress API at first, but not for this long, in milliseconds. */
const ABSENT_FOR_MS = 3_000

interface ClusterIpRepairOptions {
  /** The IPAddress objects of servers from 1.33 on. */
  readonly ipAddresses: Repair & { readonly served: 'unknown' | 'served' | 'absent' }
  /** The bitmaps of servers up to 1.34. */
  readonly bitmaps: Repair
  readonly registry: RangeRegistry
  /** All Services. A server that does not serve Services has nothing to allocate. */
  readonly services: Pick<Followed<Service>, 'whenSynced'>
  /** Called when the bitmaps are needed and there is no registry for them. @default nothing */
  readonly onMissingRegistry?: (() => void) | undefined
  readonly use: { proven(signal: AbortSignal): Promise<void> }
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  /** The time between two reads of the registry, in milliseconds, once the server is known to serve IPAddresses. */
  readonly intervalMs: number
}

/**
 * Repairs the IPAddresses if the server serves them. Repairs the bitmaps if the server serves no IPAddresses, or is
 * seen to use bitmaps too. Servers from 1.31 to 1.34 may use both, by their feature gates. For them the repair of the
 * bitmaps finds leaked bits, which upstream misses.
 */
export class ClusterIpRepair implements Repair {
  readonly #options: ClusterIpRepairOptions
  readonly #noBitmaps = Promise.withResolvers<void>()
  readonly #usesBitmaps = Promise.withResolvers<void>()
  readonly #retry: WriteRetry
  #bitmapsInUse = false
  #absentSinceMs: number | undefined

  constructor(options: ClusterIpRepairOptions) {
    this.#options = options
    this.#retry = new WriteRetry(options.random)
    this.settled = this.#settle()
  }

  readonly settled: Promise<void>

  fault(): string | undefined {
    const { ipAddresses, bitmaps } = this.#options
    const faults = [
      ipAddresses.served === 'absent' ? undefined : ipAddresses.fault(),
      this.#bitmapsInUse ? bitmaps.fault() : undefined,
    ]
    return faults.filter((fault) => fault !== undefined).join('; ') || undefined
  }

  run(signal: AbortSignal): Promise<void> {
    const { ipAddresses } = this.#options
    return together(signal, [(ending) => ipAddresses.run(ending), (ending) => this.#repairBitmaps(ending)])
  }

  async #settle(): Promise<void> {
    const { ipAddresses, bitmaps } = this.#options
    const alone = this.#noBitmaps.promise.then(() => ipAddresses.settled)
    const both = this.#usesBitmaps.promise.then(async () => {
      await bitmaps.settled
      if (ipAddresses.served === 'served') await ipAddresses.settled
    })
    await Promise.race([alone, both])
  }

  async #repairBitmaps(signal: AbortSignal): Promise<void> {
    const { logger, bitmaps, services, registry, onMissingRegistry } = this.#options
    await this.#untilNeeded(signal)
    await services.whenSynced(signal)
    if (registry.writable) logger.info({}, 'this server stores its ClusterIPs in a bitmap, which is now repaired')
    else onMissingRegistry?.()
    this.#bitmapsInUse = true
    this.#usesBitmaps.resolve()
    await bitmaps.run(signal)
  }

  async #untilNeeded(signal: AbortSignal): Promise<void> {
    const { clock, logger, intervalMs, use } = this.#options
    const { controller: proving, unlink } = linkedController(signal)
    let proof: Promise<'needed'> | undefined
    try {
      for (;;) {
        const need = await this.#need(signal)
        if (need === 'needed') return
        const isDecided = need !== undefined && typeof need !== 'number'
        if (isDecided) this.#noBitmaps.resolve()
        if (need === 'if used' && proof === undefined) {
          logger.info({}, 'a bitmap of ClusterIPs also exists; it will be repaired once a server uses it')
          proof = use.proven(proving.signal).then(() => 'needed' as const)
          proof.catch(() => {})
        }
        const next = sleep(clock, isDecided ? intervalMs : (need ?? UNDECIDED_PERIOD_MS), proving.signal)
        next.catch(() => {})
        if ((await Promise.race([next, ...(proof === undefined ? [] : [proof])])) === 'needed') return
      }
    } finally {
      proving.abort()
      unlink()
    }
  }

  /** Undefined while unknown. A number if the registry cannot be read: the milliseconds until the next attempt. */
  async #need(signal: AbortSignal): Promise<'needed' | 'if used' | 'unneeded' | number | undefined> {
    const { ipAddresses, registry, clock, availability } = this.#options
    const { served } = ipAddresses
    if (served === 'unknown') return undefined
    if (served === 'absent') {
      this.#absentSinceMs ??= clock.monotonicMs()
      return clock.monotonicMs() - this.#absentSinceMs >= ABSENT_FOR_MS ? 'needed' : undefined
    }
    this.#absentSinceMs = undefined
    if (!registry.writable) return 'unneeded'
    try {
      const stored = await registry.read('serviceips', signal)
      availability.succeeded('cluster-ip-repair')
      this.#retry.reset()
      return stored.type === 'absent' ? 'unneeded' : 'if used'
    } catch (error) {
      signal.throwIfAborted()
      availability.failed('cluster-ip-repair', error)
      return this.#retry.next(error)
    }
  }
}

const source = 'cluster-ip-repair bitmap'

/** Addresses that changed recently, and when, on the monotonic clock; the oldest change first. */
type Recent = Map<string, number>

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
 * uses the bitmap sets a bit for each new Service.
 */
export class BitmapUse {
  readonly #options: BitmapUseOptions
  readonly #known = new Map<RangeName, ReadonlySet<string>>()
  readonly #set: Recent = new Map()
  readonly #held: Recent = new Map()
  readonly #proven = Promise.withResolvers<void>()

  constructor(options: BitmapUseOptions) {
    this.#options = options
  }

  /**
   * Resolves when a Service and the bitmap have got the same address at most {@link REQUEST_TIMEOUT_MS} apart. Rejects
   * with the signal's reason.
   */
  async proven(signal: AbortSignal): Promise<void> {
    const { registry, services, availability } = this.#options
    const { controller, unlink } = linkedController(signal)
    await services.whenSynced(signal)
    let present = true
    const unsubscribe = services.subscribe((change) => {
      if (present || change.type === 'deleted') return
      const before = change.type === 'updated' ? clusterIpsOf(change.old) : []
      for (const ip of clusterIpsOf(change.object)) if (!before.includes(ip)) this.#note(ip, this.#held, this.#set)
    })
    present = false
    const watching = registry.watch({
      onChange: (change) => this.#changed(change),
      report(error) {
        if (error === undefined) availability.succeeded(source)
        else availability.failed(source, error)
      },
      signal: controller.signal,
    })
    try {
      await Promise.race([abortable(this.#proven.promise, signal), watching])
      signal.throwIfAborted()
    } finally {
      unsubscribe()
      controller.abort()
      unlink()
      await watching
      availability.forget(source)
    }
  }

  #changed(change: RangeChange | undefined): void {
    // Bits that were set during a gap in the watch cannot be distinguished from old ones.
    if (change === undefined) this.#known.clear()
    else {
      const taken = this.#takenIn(change)
      const before = this.#known.get(change.name)
      this.#known.set(change.name, taken)
      if (before === undefined) return
      for (const ip of taken) if (!before.has(ip)) this.#note(ip, this.#set, this.#held)
    }
  }

  #takenIn({ name, stored }: RangeChange): ReadonlySet<string> {
    if (name === 'servicenodeports' || stored.type !== 'range') return new Set()
    const range = this.#options.claims.parse(stored.range)
    const bitmap = range && Bitmap.fromBytes(range.size, stored.data)
    return new Set(range && bitmap ? [...bitmap].map((offset) => range.textAt(offset)) : [])
  }

  /** Records that a Service or the bitmap got an address. If both got the address, the server uses the bitmap. */
  #note(ip: string, here: Recent, there: Recent): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const recent of [here, there]) {
      for (const [old, atMs] of recent) {
        if (nowMs - atMs <= REQUEST_TIMEOUT_MS) break
        recent.delete(old)
      }
    }
    here.delete(ip)
    here.set(ip, nowMs)
    if (there.has(ip)) this.#proven.resolve()
  }
}
