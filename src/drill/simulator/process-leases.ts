import type { Holder, MasterLease, MasterLeases } from '../../kubernetes-service/leases/master-leases.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'

/**
 * Leases in a shared memory, as one process reaches them: by its own clock, so that one that is frozen or dead neither reads nor
 * writes nor hears anything.
 */
export class ProcessLeases implements MasterLeases {
  readonly #inner: MasterLeases
  readonly #clock: Clock

  constructor(inner: MasterLeases, clock: Clock) {
    this.#inner = inner
    this.#clock = clock
  }

  async list(signal: AbortSignal): Promise<readonly MasterLease[]> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.list(signal)
  }

  async update(holder: Holder, signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.update(holder, signal)
  }

  async mark(holder: Holder, signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.mark(holder, signal)
  }

  async remove(holder: Holder, signal: AbortSignal): Promise<void> {
    await sleep(this.#clock, 0, signal)
    return this.#inner.remove(holder, signal)
  }

  watch(look: () => void, signal: AbortSignal): Promise<void> {
    return this.#inner.watch(() => void this.#clock.schedule(0, look), signal)
  }
}
