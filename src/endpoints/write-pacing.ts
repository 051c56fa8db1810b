import type { Endpoints } from '../kube/resources.ts'
import { countAddresses } from './truncation.ts'

export interface WritePacingOptions {
  /**
   * How far apart two writes of the same Endpoints are at least, in milliseconds, or how far for a number of addresses: the first change is written at
   * once, what changes meanwhile is written together afterwards. @default 0
   */
  readonly minWriteDistanceMs?: number | ((addresses: number) => number) | undefined
}

/**
 * How long the next write of an object has to wait, in milliseconds: 0 for the first one and for one that comes `distanceMs` or more after the last.
 */
export function nextWriteDelayMs(lastWriteMs: number | undefined, nowMs: number, distanceMs: number): number {
  return lastWriteMs === undefined ? 0 : Math.max(0, lastWriteMs + distanceMs - nowMs)
}

/** When which Endpoints were last written, and so when they may be again. Times are of one monotonic clock. */
export class WritePacing {
  readonly #distanceMs: number | ((addresses: number) => number)
  readonly #writes = new Map<string, { readonly atMs: number; readonly distanceMs: number }>()

  constructor({ minWriteDistanceMs = 0 }: WritePacingOptions) {
    this.#distanceMs = minWriteDistanceMs
  }

  /** How long the next write has to wait. */
  delayMs(key: string, nowMs: number): number {
    const last = this.#writes.get(key)
    if (last === undefined) return 0
    const delayMs = nextWriteDelayMs(last.atMs, nowMs, last.distanceMs)
    // What no longer holds anything back is not kept.
    if (delayMs === 0) this.#writes.delete(key)
    return delayMs
  }

  /** Takes in a write that is asked for now. */
  written(key: string, nowMs: number, endpoints: Endpoints): void {
    const distanceMs =
      typeof this.#distanceMs === 'number'
        ? this.#distanceMs
        : this.#distanceMs(countAddresses(endpoints.subsets ?? []))
    if (distanceMs > 0) this.#writes.set(key, { atMs: nowMs, distanceMs })
  }

  delete(key: string): void {
    this.#writes.delete(key)
  }
}
