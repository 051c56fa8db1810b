import type { AvailabilityReporter } from '../kube/availability.ts'
import type { Followed } from '../kube/informer.ts'
import { WriteRetry } from '../kube/reconcile-loop.ts'
import type { Service } from '../kube/resources.ts'
import { type Clock, sleep } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { linkedController, together } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { BitmapUse } from './bitmap/use.ts'
import type { RangeRegistry } from './registries/range-registry.ts'
import type { Repair } from './repair.ts'

/** The time between two checks, in milliseconds, until it is known whether the server has the IPAddress API. */
const UNDECIDED_PERIOD_MS = 200
/** A starting server may lack the IPAddress API at first, but not for this long, in milliseconds. */
const ABSENT_FOR_MS = 3_000

interface ClusterIpRepairOptions {
  /** The repair of the IPAddress objects, which servers use from 1.33 on. */
  readonly ipAddresses: Repair & { readonly served: 'unknown' | 'served' | 'absent' }
  /** Whether the server serves IPAddresses as v1beta1, as Kubernetes 1.31 and 1.32 can. */
  readonly servesBeta: (signal: AbortSignal) => Promise<boolean>
  /** Makes a repair of the bitmaps, which servers use up to 1.33. */
  readonly makeBitmaps: () => Repair
  readonly registry: RangeRegistry
  /** All Services. A server that does not serve Services has nothing to allocate. */
  readonly services: Pick<Followed<Service>, 'whenSynced'>
  /**
   * Called with true when the bitmaps are needed and there is no registry for them; with false when they are not needed
   * any more.
   */
  readonly onMissingRegistry: (isMissing: boolean) => void
  readonly use: Pick<BitmapUse, 'proven' | 'unused'>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  /**
   * The interval of the repairs, in milliseconds. While the server serves IPAddresses, the registry is checked this
   * often for a bitmap.
   */
  readonly intervalMs: number
}

/**
 * Repairs the IPAddresses if the server serves them. Repairs the bitmaps while the server serves no IPAddresses, or is
 * seen to use bitmaps too: servers of 1.33 and 1.34 may use both, as their feature gates decide. Even for these
 * servers the repair of the bitmaps is useful, because it finds leaked bits, which upstream misses.
 */
export class ClusterIpRepair implements Repair {
  readonly #options: ClusterIpRepairOptions
  readonly #noBitmaps = Promise.withResolvers<void>()
  readonly #usesBitmaps = Promise.withResolvers<Repair>()
  readonly #retry: WriteRetry
  /** Undefined while no bitmap is repaired. */
  #bitmaps: Repair | undefined
  #absentSinceMs: number | undefined

  constructor(options: ClusterIpRepairOptions) {
    this.#options = options
    this.#retry = new WriteRetry(options.random)
    this.settled = this.#settle()
  }

  readonly settled: Promise<void>

  fault(): string | undefined {
    const { ipAddresses } = this.#options
    const faults = [ipAddresses.served === 'absent' ? undefined : ipAddresses.fault(), this.#bitmaps?.fault()]
    return faults.filter((fault) => fault !== undefined).join('; ') || undefined
  }

  run(signal: AbortSignal): Promise<void> {
    const { ipAddresses } = this.#options
    return together(signal, [(ending) => ipAddresses.run(ending), (ending) => this.#repairBitmaps(ending)])
  }

  async #settle(): Promise<void> {
    const { ipAddresses } = this.#options
    const alone = this.#noBitmaps.promise.then(() => ipAddresses.settled)
    const both = this.#usesBitmaps.promise.then(async (bitmaps) => {
      await bitmaps.settled
      if (ipAddresses.served === 'served') await ipAddresses.settled
    })
    await Promise.race([alone, both])
  }

  async #repairBitmaps(signal: AbortSignal): Promise<void> {
    const { logger, services, registry, makeBitmaps, onMissingRegistry } = this.#options
    for (;;) {
      await this.#untilNeeded(signal)
      await services.whenSynced(signal)
      if (registry.writable)
        logger.info({}, 'this server stores its ClusterIPs in a bitmap; this process repairs the bitmap from now on')
      else onMissingRegistry(true)
      const bitmaps = makeBitmaps()
      this.#bitmaps = bitmaps
      this.#usesBitmaps.resolve(bitmaps)
      const { controller, unlink } = linkedController(signal)
      const unused = async (ending: AbortSignal): Promise<void> => {
        await this.#untilUnused(ending)
        controller.abort()
      }
      const warning = (ending: AbortSignal): Promise<void> => this.#warnOfBeta(ending)
      await together(controller.signal, [(ending) => bitmaps.run(ending), unused, warning]).finally(unlink)
      signal.throwIfAborted()
      this.#bitmaps = undefined
      if (registry.writable)
        logger.info(
          {},
          'no server stores new ClusterIPs in the bitmap any more; this process no longer repairs the bitmap',
        )
      else onMissingRegistry(false)
    }
  }

  /** Discovery does not show whether a server that serves v1beta1 allocates from it or from the bitmap. */
  async #warnOfBeta(signal: AbortSignal): Promise<void> {
    const { ipAddresses, servesBeta, logger } = this.#options
    if (ipAddresses.served === 'served' || !(await servesBeta(signal))) return
    logger.warn(
      {},
      'the server serves IPAddresses and ServiceCIDRs only as v1beta1, which this process cannot use: if the feature gate MultiCIDRServiceAllocator is on, turn it off or upgrade the server to Kubernetes 1.33',
    )
  }

  /**
   * Resolves when the server serves IPAddresses and no server seems to use the bitmap, as after an upgrade. A repair
   * that continued would record an Event for each new Service.
   */
  async #untilUnused(signal: AbortSignal): Promise<void> {
    const { ipAddresses, use, registry, clock, intervalMs } = this.#options
    do {
      if (registry.ordered) await use.unused(signal)
      else await sleep(clock, intervalMs, signal)
    } while (ipAddresses.served !== 'served')
  }

  async #untilNeeded(signal: AbortSignal): Promise<void> {
    const { clock, logger, intervalMs, use, registry } = this.#options
    const { controller: proving, unlink } = linkedController(signal)
    let proof: Promise<'needed'> | undefined
    try {
      for (;;) {
        const need = await this.#need(signal)
        if (need === 'needed') return
        const isDecided = need !== undefined && typeof need !== 'number'
        if (isDecided) this.#noBitmaps.resolve()
        if (need === 'if used' && proof === undefined && registry.ordered) {
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

  /**
   * Whether to repair the bitmaps; undefined while unknown. A number if the registry cannot be read: the milliseconds
   * until the next attempt.
   */
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
