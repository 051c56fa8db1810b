import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Random } from '../../runtime/random.ts'
import { linkedController } from '../../runtime/signals.ts'

/** What a message needs from one process to another, in milliseconds. Fixed, so that what was predicted can be compared with real runs. */
export const simulatedLatency = { fromMs: 1, toMs: 4 }

/** One for all: an error for each would cost a stack trace. */
const RESET = new Error('connection reset')

/** The way to a server, as one master finds it. */
export class Route {
  /** Black-holed: requests and events are neither refused nor answered. */
  cut = false
  /** How much longer each message takes, in milliseconds. */
  slowMs = 0
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
    for (const connection of [...this.#connections]) connection.abort(RESET)
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

/**
 * The way there and back of one request, and `slowMs` on each of them; with `spikes`, once in a while up to a fifth of a second more. A
 * request takes effect when it is sent, and all of its time is spent before the answer is heard: one event of the simulator, with the same
 * races, since whatever was read is as old when it is acted on.
 */
export function roundTrip(
  clock: Clock,
  random: Random,
  spikes: boolean,
  signal: AbortSignal,
  slowMs = 0,
): Promise<void> {
  return sleep(clock, messageMs(random, spikes) + messageMs(random, spikes) + 2 * slowMs, signal)
}

/** A few milliseconds for one message, and `slowMs`; with `spikes`, once in a while up to a fifth of a second more. */
export function latency(clock: Clock, random: Random, spikes: boolean, signal: AbortSignal, slowMs = 0): Promise<void> {
  return sleep(clock, messageMs(random, spikes) + slowMs, signal)
}

function messageMs(random: Random, spikes: boolean): number {
  const spikeMs = spikes && random.next() < 0.02 ? random.next() * 200 : 0
  const { fromMs, toMs } = simulatedLatency
  return fromMs + random.next() * (toMs - fromMs) + spikeMs
}
