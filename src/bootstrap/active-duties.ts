import type { Gauge } from '../telemetry/metrics.ts'

/** Shows in a gauge which duties this process performs. A suspended duty is not performed. */
export class ActiveDuties {
  readonly #gauge: Gauge<'duty'>
  readonly #values = new Map<string, 0 | 1>()
  readonly #suspended = new Set<string>()

  constructor(gauge: Gauge<'duty'>) {
    this.#gauge = gauge
  }

  /**
   * `value`: 1 if this process performs the duty unless the duty is suspended; 0 if the duty is off or left to others.
   */
  set({ duty }: { readonly duty: string }, value: 0 | 1): void {
    this.#values.set(duty, value)
    this.#show(duty)
  }

  suspend(duty: string): void {
    this.#suspended.add(duty)
    this.#show(duty)
  }

  resume(duty: string): void {
    this.#suspended.delete(duty)
    this.#show(duty)
  }

  #show(duty: string): void {
    this.#gauge.set({ duty }, this.#suspended.has(duty) ? 0 : (this.#values.get(duty) ?? 0))
  }
}
