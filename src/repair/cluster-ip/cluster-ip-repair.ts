import type { AvailabilityReporter } from '../../kube/availability.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { linkedController } from '../../runtime/signals.ts'
import { together } from '../../runtime/together.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { RangeRegistry } from '../registries/range-registry.ts'
import type { Repair } from '../repair.ts'

/** How often to look again while it is not known what the server has. */
const undecidedPeriodMs = 200
/** A server that is starting may not serve all groups yet; one that says for this long that it has no IPAddresses has none. */
const absentForMs = 3_000

export interface ClusterIpRepairOptions {
  /** The IPAddress objects of servers from 1.33 on. */
  readonly ipAddresses: Repair & { readonly served: 'unknown' | 'served' | 'absent' }
  /** The bitmaps of servers up to 1.34. */
  readonly bitmaps: Repair
  readonly registry: RangeRegistry
  /** Tells when a server is seen to use a bitmap that is there. */
  readonly use: { proven(signal: AbortSignal): Promise<void> }
  readonly clock: Clock
  readonly logger: Logger
  readonly availability: AvailabilityReporter
  /** How often a server that has no bitmap is looked at for one, in milliseconds. */
  readonly intervalMs: number
}

/**
 * The repair of ClusterIPs: of the IPAddress objects where the server serves them; of the bitmaps where it serves none, or where it is seen to use
 * them as well. Servers that write both (1.31 to 1.34) have both repaired, so that a bit that leaked is found, which upstream leaves.
 */
export class ClusterIpRepair implements Repair {
  readonly #options: ClusterIpRepairOptions
  readonly #noBitmaps = Promise.withResolvers<void>()
  readonly #keepsBitmaps = Promise.withResolvers<void>()
  #bitmapsKept = false
  #absentSinceMs: number | undefined

  constructor(options: ClusterIpRepairOptions) {
    this.#options = options
    this.settled = this.#settle()
  }

  readonly settled: Promise<void>

  fault(): string | undefined {
    const { ipAddresses, bitmaps } = this.#options
    const faults = [
      ipAddresses.served === 'absent' ? undefined : ipAddresses.fault(),
      this.#bitmapsKept ? bitmaps.fault() : undefined,
    ]
    return faults.filter((fault) => fault !== undefined).join('; ') || undefined
  }

  run(signal: AbortSignal): Promise<void> {
    const { ipAddresses } = this.#options
    return together(signal, [(ending) => ipAddresses.run(ending), (ending) => this.#keepBitmaps(ending)])
  }

  async #settle(): Promise<void> {
    const { ipAddresses, bitmaps } = this.#options
    const alone = this.#noBitmaps.promise.then(() => ipAddresses.settled)
    const both = this.#keepsBitmaps.promise.then(async () => {
      await bitmaps.settled
      if (ipAddresses.served === 'served') await ipAddresses.settled
    })
    await Promise.race([alone, both])
  }

  async #keepBitmaps(signal: AbortSignal): Promise<void> {
    const { logger, bitmaps } = this.#options
    await this.#untilNeeded(signal)
    logger.info({}, 'the ClusterIPs of this server are in a bitmap, which is kept right')
    this.#bitmapsKept = true
    this.#keepsBitmaps.resolve()
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
        if (need !== undefined) this.#noBitmaps.resolve()
        if (need === 'if used' && proof === undefined) {
          logger.info({}, 'there is a bitmap of ClusterIPs as well; it is kept right once a server is seen to use it')
          proof = use.proven(proving.signal).then(() => 'needed' as const)
          proof.catch(() => {})
        }
        const next = sleep(clock, need === undefined ? undecidedPeriodMs : intervalMs, proving.signal)
        next.catch(() => {})
        if ((await Promise.race([next, ...(proof === undefined ? [] : [proof])])) === 'needed') return
      }
    } finally {
      proving.abort()
      unlink()
    }
  }

  /** Whether the bitmaps must be kept; undefined while it cannot be known. */
  async #need(signal: AbortSignal): Promise<'needed' | 'if used' | 'unneeded' | undefined> {
    const { ipAddresses, registry, clock, availability } = this.#options
    const { served } = ipAddresses
    if (served === 'unknown') return undefined
    if (served === 'absent') {
      this.#absentSinceMs ??= clock.monotonicMs()
      return clock.monotonicMs() - this.#absentSinceMs >= absentForMs ? 'needed' : undefined
    }
    this.#absentSinceMs = undefined
    if (!registry.writable) return 'unneeded'
    try {
      const stored = await registry.read('serviceips', signal)
      availability.succeeded('cluster-ip-repair')
      return stored.type === 'absent' ? 'unneeded' : 'if used'
    } catch (error) {
      signal.throwIfAborted()
      availability.failed('cluster-ip-repair', error)
      return undefined
    }
  }
}
