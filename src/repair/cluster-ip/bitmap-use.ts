import type { AvailabilityReporter } from '../../kube/availability.ts'
import type { Followed } from '../../kube/informer.ts'
import type { Service } from '../../kube/resources.ts'
import { Bitmap } from '../../net/bitmap.ts'
import type { Clock } from '../../runtime/clock.ts'
import { abortable, linkedController } from '../../runtime/signals.ts'
import type { RangeClaims } from '../range-claims.ts'
import type { RangeChange, RangeName, RangeRegistry } from '../registries/range-registry.ts'
import { clusterIpsOf } from '../service-claims.ts'

/** A server sets the bit before it stores the Service, and gives up after its request timeout of 60 s. */
const makingMs = 60_000

const source = 'cluster-ip-repair bitmap'

/** Addresses that something has just happened to, and when, on the monotonic clock; the oldest first. */
type Recent = Map<string, number>

export interface BitmapUseOptions {
  readonly registry: RangeRegistry
  readonly claims: RangeClaims
  readonly services: Followed<Service>
  readonly clock: Clock
  readonly availability: AvailabilityReporter
}

/**
 * Finds out whether a server that serves IPAddresses keeps the bitmaps of ClusterIPs as well, as those from 1.31 to 1.34 do. That a bitmap is there proves
 * nothing: an upgraded cluster still has the one of its old servers, and the newer ones neither read nor write it. A server that uses it sets the
 * bit of each new Service.
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

  /** Resolves when a Service was seen being made with its bit. Rejects with the signal's reason. */
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
      onChange: (change) => this.#heard(change),
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

  #heard(change: RangeChange | undefined): void {
    // What was set in a gap cannot be told from what was set long ago.
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

  /** Notes an address on one side; when it is on the other as well, that was one Service being made. */
  #note(ip: string, here: Recent, there: Recent): void {
    const nowMs = this.#options.clock.monotonicMs()
    for (const recent of [here, there]) {
      for (const [old, atMs] of recent) {
        if (nowMs - atMs <= makingMs) break
        recent.delete(old)
      }
    }
    here.delete(ip)
    here.set(ip, nowMs)
    if (there.has(ip)) this.#proven.resolve()
  }
}
