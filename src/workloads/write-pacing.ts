/**
 * How long a pause a write is followed by, in milliseconds, for what was written: addresses of Endpoints, or EndpointSlices. The first change is written at
 * once, what changes in the pause is written together after it.
 */
export type WritePause = (size: number) => number

/**
 * Spaces out the writes for each Service, so that one that has thousands of endpoints and changes all the time does not keep the API server, and each
 * kube-proxy that watches, busy. Times are of one monotonic clock.
 */
export class WritePacing {
  readonly #pause: WritePause
  readonly #untilMs = new Map<string, number>()

  constructor(pause: WritePause) {
    this.#pause = pause
  }

  /** How long the next write for a Service has to wait. */
  delayMs(key: string, nowMs: number): number {
    const untilMs = this.#untilMs.get(key)
    if (untilMs === undefined) return 0
    // What no longer holds anything back is not kept.
    if (untilMs <= nowMs) this.#untilMs.delete(key)
    return Math.max(0, untilMs - nowMs)
  }

  /** Takes in what is written now. */
  written(key: string, nowMs: number, size: number): void {
    const pauseMs = this.#pause(size)
    if (pauseMs > 0) this.#untilMs.set(key, nowMs + pauseMs)
  }

  /** Forgets a Service that is gone: one of its name does not wait. */
  delete(key: string): void {
    this.#untilMs.delete(key)
  }
}
