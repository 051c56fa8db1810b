import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/errors.ts'
import type { KubeApi, WriteOptions } from './api.ts'
import { readsOf } from './api-wrappers.ts'
import { isKubeError } from './errors.ts'
import type { KubeObject, Resource } from './resources.ts'

/**
 * After its start an API server refuses all writes for some seconds, until it has read its RBAC rules. So a right
 * counts as missing only when a write is refused again this many milliseconds after the first refusal.
 */
const RULES_MS = 10_000

/** The message of an authorizer. Admission, such as a quota or a policy, also answers 403, for single objects. */
const LACKS_RIGHT = / cannot (?:create|update|patch|delete) resource "/

/**
 * Records the kinds of writes (verb and resource) that an API server refuses because a right is missing. A kind is
 * forgotten when a write of that kind succeeds.
 */
export class MissingRights {
  readonly #clock: Clock
  readonly #refused = new Map<string, { readonly reason: string; readonly sinceMs: number; readonly lasts: boolean }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The error message of a kind of write that was refused again at least {@link RULES_MS} after its first refusal;
   * undefined if there is none.
   */
  fault(): string | undefined {
    for (const { reason, lasts } of this.#refused.values()) if (lasts) return reason
    return undefined
  }

  forget(): void {
    this.#refused.clear()
  }

  /** The same API, whose refused and successful writes are recorded here. */
  recorded(api: KubeApi): KubeApi {
    return {
      ...readsOf(api),
      create: (resource, object, options) =>
        this.#record('create', resource, options, api.create(resource, object, options)),
      update: (resource, object, options) =>
        this.#record('update', resource, options, api.update(resource, object, options)),
      patch: (resource, ref, patch, options) =>
        this.#record('patch', resource, options, api.patch(resource, ref, patch, options)),
      delete: (resource, ref, options) =>
        this.#record('delete', resource, undefined, api.delete(resource, ref, options)),
    }
  }

  async #record<T>(
    verb: string,
    { plural }: Resource<KubeObject>,
    options: WriteOptions | undefined,
    write: Promise<T>,
  ): Promise<T> {
    const kind = `${verb} ${plural} ${options?.subresource ?? ''}`
    try {
      const answer = await write
      this.#refused.delete(kind)
      return answer
    } catch (error) {
      const reason = messageOf(error)
      if (isKubeError(error, 'Forbidden') && LACKS_RIGHT.test(reason)) {
        const nowMs = this.#clock.monotonicMs()
        const sinceMs = this.#refused.get(kind)?.sinceMs ?? nowMs
        this.#refused.set(kind, { reason, sinceMs, lasts: nowMs - sinceMs >= RULES_MS })
      }
      throw error
    }
  }
}
