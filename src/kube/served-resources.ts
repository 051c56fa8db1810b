import type { Clock } from '../runtime/clock.ts'
import { abortable } from '../runtime/signals.ts'
import { Trigger } from '../runtime/trigger.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Discovery } from './discovery.ts'
import { isKubeError } from './errors.ts'
import type { KubeObject, Resource } from './resources.ts'

/** The server must deny a resource for this long: one that is starting may not serve everything yet. */
const HOLD_MS = 4_000
/** How often the server is asked for a resource that it does not serve. */
const ASK_MS = 60_000

/** Whether a resource is served, by the answers about it. */
export type Serving =
  /** As far as we know. */
  | { readonly type: 'served' }
  /** The server denies it, perhaps only while it starts. */
  | { readonly type: 'denied'; readonly sinceMs: number }
  | { readonly type: 'unserved' }

/** What is known of a resource after another answer; undefined is no answer, and changes nothing. Pure. */
export function nextServing(before: Serving, served: boolean | undefined, nowMs: number): Serving {
  if (served === undefined) return before
  if (served) return { type: 'served' }
  if (before.type === 'served') return { type: 'denied', sinceMs: nowMs }
  return before.type === 'denied' && nowMs - before.sinceMs >= HOLD_MS ? { type: 'unserved' } : before
}

export interface ServedResourcesOptions {
  readonly discovery: Discovery
  /** Whether the API server is ready, by its last answer. */
  readonly isReady: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

interface Entry {
  readonly resource: Resource<KubeObject>
  serving: Serving
  /** Resolves when an unserved resource appears. */
  appeared: PromiseWithResolvers<void>
}

/**
 * Knows which resources the server does not serve.
 *
 * A 404 alone proves nothing: a server that is starting answers so for resources that it will serve. The server's own
 * discovery must deny the resource for four seconds, and the server must be ready. From then on discovery is asked once
 * a minute, and at once after {@link expedite}, until the resource appears.
 */
export class ServedResources {
  readonly #options: ServedResourcesOptions
  readonly #entries = new Map<string, Entry>()
  readonly #handlers = new Set<() => void>()
  readonly #requests = new Trigger<'ask'>()

  constructor(options: ServedResourcesOptions) {
    this.#options = options
  }

  /** Whether the server is known not to serve a resource. */
  isUnserved(resource: Resource<KubeObject>): boolean {
    return this.#entries.get(nameOf(resource))?.serving.type === 'unserved'
  }

  /** The same after an answer of now, for a caller that received 404. */
  async confirmUnserved(resource: Resource<KubeObject>, signal: AbortSignal): Promise<boolean> {
    await this.#ask(this.#entryOf(resource), signal)
    return this.isUnserved(resource)
  }

  /** Resolves when the server serves a resource, as far as we know. Rejects with the signal's reason. */
  async untilServed(resource: Resource<KubeObject>, signal: AbortSignal): Promise<void> {
    if (this.isUnserved(resource)) await abortable(this.#entryOf(resource).appeared.promise, signal)
  }

  /** Calls `handler` when a resource has become unserved, or has appeared. */
  subscribe(handler: () => void): void {
    this.#handlers.add(handler)
  }

  /** Asks for all unserved resources now: the server may be another one. */
  expedite(): void {
    this.#requests.fire('ask')
  }

  /** Asks for unserved resources until the signal is aborted. */
  async run(signal: AbortSignal): Promise<never> {
    const { clock } = this.#options
    for (;;) {
      const cancel = clock.schedule(ASK_MS, () => this.expedite())
      await this.#requests.take(signal).finally(cancel)
      const unserved = [...this.#entries.values()].filter(({ resource }) => this.isUnserved(resource))
      await Promise.all(unserved.map((entry) => this.#ask(entry, signal)))
    }
  }

  async #ask(entry: Entry, signal: AbortSignal): Promise<void> {
    const { discovery, isReady, clock, logger } = this.#options
    const { resource } = entry
    const answer = await discovery.serves(resource, signal).catch((error: unknown) => {
      if (signal.aborted || !isKubeError(error)) throw error
      logger.debug({ resource: nameOf(resource), error }, 'discovery was not answered')
      return undefined
    })
    const before = entry.serving
    entry.serving = nextServing(before, answer === false && !isReady() ? undefined : answer, clock.monotonicMs())
    if ((before.type === 'unserved') === (entry.serving.type === 'unserved')) return
    if (before.type === 'unserved') {
      entry.appeared.resolve()
      entry.appeared = Promise.withResolvers()
    }
    for (const handler of this.#handlers) handler()
  }

  #entryOf(resource: Resource<KubeObject>): Entry {
    const name = nameOf(resource)
    const entry = this.#entries.get(name) ?? {
      resource,
      serving: { type: 'served' as const },
      appeared: Promise.withResolvers<void>(),
    }
    this.#entries.set(name, entry)
    return entry
  }
}

/** `services`, `servicecidrs.networking.k8s.io`. */
export function nameOf({ group, plural }: Resource<KubeObject>): string {
  return group === '' ? plural : `${plural}.${group}`
}
