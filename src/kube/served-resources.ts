import type { Clock } from '../runtime/clock.ts'
import { getOrMake } from '../runtime/memo.ts'
import { abortable } from '../runtime/signals.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Discovery } from './discovery.ts'
import { isKubeError } from './errors.ts'
import { type KubeObject, qualifiedPlural, type Resource } from './resources.ts'

/** A resource denied for this long, in milliseconds, is unserved. A starting server may not serve everything yet. */
const HOLD_MS = 4_000
/** If denials are further apart than this, in milliseconds, we assume that the resource was served in between. */
const FORGET_MS = 30_000
/**
 * After a resource has become missing, discovery is asked at intervals that double, from the first to the second of
 * these, in milliseconds.
 */
const FIRST_DISCOVERY_MS = 2_000
const LAST_DISCOVERY_MS = 60_000

export type Serving =
  | { readonly type: 'served' }
  /** Discovery denies the resource, perhaps only while the server starts. */
  | { readonly type: 'denied'; readonly sinceMs: number; readonly lastMs: number }
  | { readonly type: 'unserved' }
  /** The resource was unserved, and discovery gave no clear answer. Only a request for the resource can decide. */
  | { readonly type: 'uncertain' }

/**
 * The state of a resource after another answer. `served` is undefined if there was no answer that counts: an error, or
 * a denial by a server that is not ready. Pure.
 */
export function nextServing(before: Serving, served: boolean | undefined, nowMs: number): Serving {
  if (served === true) return { type: 'served' }
  if (served === undefined) return before.type === 'unserved' ? { type: 'uncertain' } : before
  if (before.type === 'unserved' || before.type === 'uncertain') return { type: 'unserved' }
  if (before.type === 'served' || nowMs - before.lastMs > FORGET_MS) {
    return { type: 'denied', sinceMs: nowMs, lastMs: nowMs }
  }
  return nowMs - before.sinceMs >= HOLD_MS ? { type: 'unserved' } : { ...before, lastMs: nowMs }
}

interface ServedResourcesOptions {
  readonly discovery: Discovery
  /** Whether the API server is ready, according to its last answer. */
  readonly isReady: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

interface Entry {
  readonly resource: Resource<KubeObject>
  serving: Serving
  /** Resolves when the resource is worth a request again. */
  appeared: PromiseWithResolvers<void>
}

/**
 * Knows which resources the server does not serve.
 *
 * A 404 alone proves nothing: a server that is starting also answers 404 for resources that it will serve. The server's
 * own discovery must deny the resource for four seconds while the server is ready. After that discovery is asked at
 * growing intervals, and at once after {@link expedite}. As soon as discovery lists the resource, or gives no clear
 * answer, the resource itself is requested again.
 */
export class ServedResources {
  readonly #options: ServedResourcesOptions
  readonly #entries = new Map<string, Entry>()
  readonly #handlers = new Set<() => void>()
  readonly #requests = new Trigger<'ask'>()
  #discoverAfterMs = LAST_DISCOVERY_MS

  constructor(options: ServedResourcesOptions) {
    this.#options = options
  }

  /** Whether the server has denied a resource for long enough that we believe it. */
  isUnserved(resource: Resource<KubeObject>): boolean {
    return this.#entries.get(qualifiedPlural(resource))?.serving.type === 'unserved'
  }

  /** Whether the server does not serve a resource, or did not when discovery last gave a clear answer. */
  isMissing(resource: Resource<KubeObject>): boolean {
    return isMissing(this.#entries.get(qualifiedPlural(resource)))
  }

  /** Records that a request for the resource itself succeeded. */
  seen(resource: Resource<KubeObject>): void {
    const entry = this.#entries.get(qualifiedPlural(resource))
    if (entry !== undefined) this.#become(entry, { type: 'served' })
  }

  /** Asks discovery about a resource now, for a caller that received 404. Then resolves with {@link isUnserved}. */
  async confirmUnserved(resource: Resource<KubeObject>, signal: AbortSignal): Promise<boolean> {
    await this.#ask(this.#entryOf(resource), signal)
    return this.isUnserved(resource)
  }

  /**
   * Resolves when a resource is worth a request: when {@link isUnserved} is false. Rejects with the signal's reason.
   */
  async untilUndenied(resource: Resource<KubeObject>, signal: AbortSignal): Promise<void> {
    if (this.isUnserved(resource)) await abortable(this.#entryOf(resource).appeared.promise, signal)
  }

  /** Calls `handler` when {@link isMissing} has changed for a resource. */
  subscribe(handler: () => void): void {
    this.#handlers.add(handler)
  }

  /** Asks discovery about all missing resources now, because the server may have been replaced. */
  expedite(): void {
    this.#requests.fire('ask')
  }

  async run(signal: AbortSignal): Promise<never> {
    const { clock } = this.#options
    for (;;) {
      const cancel = clock.schedule(this.#discoverAfterMs, () => this.expedite())
      const reasons = await this.#requests.take(signal).finally(cancel)
      // Without a reason, the wait ended because discovery has just confirmed that a resource is missing: only the
      // interval starts again.
      if (reasons.size === 0) continue
      this.#discoverAfterMs = Math.min(2 * this.#discoverAfterMs, LAST_DISCOVERY_MS)
      await Promise.all([...this.#entries.values()].filter(isMissing).map((entry) => this.#ask(entry, signal)))
    }
  }

  async #ask(entry: Entry, signal: AbortSignal): Promise<void> {
    const { discovery, isReady, clock, logger } = this.#options
    const { resource } = entry
    const answer = await discovery.serves(resource, signal).catch((error: unknown) => {
      if (signal.aborted || !isKubeError(error)) throw error
      logger.debug({ resource: qualifiedPlural(resource), error }, 'discovery was not answered')
      return undefined
    })
    const served = answer === false && !isReady() ? undefined : answer
    this.#become(entry, nextServing(entry.serving, served, clock.monotonicMs()))
  }

  #become(entry: Entry, serving: Serving): void {
    const before = entry.serving
    const wasMissing = isMissing(entry)
    entry.serving = serving
    if (before.type === 'unserved' && serving.type !== 'unserved') {
      entry.appeared.resolve()
      entry.appeared = Promise.withResolvers()
    }
    if (wasMissing === isMissing(entry)) return
    if (!wasMissing) {
      this.#discoverAfterMs = FIRST_DISCOVERY_MS
      this.#requests.wake()
    }
    for (const handler of this.#handlers) handler()
  }

  #entryOf(resource: Resource<KubeObject>): Entry {
    return getOrMake(this.#entries, qualifiedPlural(resource), () => ({
      resource,
      serving: { type: 'served' },
      appeared: Promise.withResolvers(),
    }))
  }
}

function isMissing(entry: Entry | undefined): boolean {
  return entry?.serving.type === 'unserved' || entry?.serving.type === 'uncertain'
}
