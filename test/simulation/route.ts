import { type Clock, sleep } from '../../src/runtime/clock.ts'
import type { Random } from '../../src/runtime/random.ts'
import { linkedController } from '../../src/runtime/signals.ts'

/** The way to a server, as one master finds it. */
export class Route {
  /** Black-holed: requests and events are neither refused nor answered. */
  cut = false
  /** How often all connections were reset. */
  resets = 0
  readonly #connections = new Set<AbortController>()

  heal(): void {
    this.cut = false
    this.breakStreams()
  }

  /** Resets every connection that is open. */
  breakStreams(): void {
    this.resets++
    for (const connection of [...this.#connections]) connection.abort()
  }

  /** Connections that are open: watches, and requests that are black-holed. */
  get streams(): number {
    return this.#connections.size
  }

  addStream(connection: AbortController): () => void {
    this.#connections.add(connection)
    return () => this.#connections.delete(connection)
  }

  /** What becomes of a request that is sent into a black hole: `reset` when the connection is, else `timeout`. */
  async swallow(clock: Clock, timeoutMs: number, signal: AbortSignal): Promise<'reset' | 'timeout'> {
    const { controller, unlink } = linkedController(signal)
    const forget = this.addStream(controller)
    try {
      await sleep(clock, timeoutMs, controller.signal)
      return 'timeout'
    } catch {
      signal.throwIfAborted()
      return 'reset'
    } finally {
      forget()
      unlink()
    }
  }
}

/** A few milliseconds; with `spikes`, once in a while up to a fifth of a second. */
export async function latency(clock: Clock, random: Random, spikes: boolean, signal: AbortSignal): Promise<void> {
  const spikeMs = spikes && random.next() < 0.02 ? random.next() * 200 : 0
  await sleep(clock, 1 + random.next() * 3 + spikeMs, signal)
}
