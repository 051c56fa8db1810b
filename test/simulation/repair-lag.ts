import type { EtcdKv } from '../../src/etcd/kv.ts'
import type { ApiRequest, Transport } from '../../src/kube/transport.ts'
import { type Clock, sleep } from '../../src/runtime/clock.ts'

/** Delays watches. The events that it holds back arrive in order when the time is over. */
export class WatchLag {
  readonly #clock: Clock
  readonly #untilMs = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Holds back the events of a resource's watches for `ms` milliseconds. `plural` names the resource; `ranges` stands
   * for the bitmaps in etcd.
   */
  hold(plural: string, ms: number): void {
    this.#untilMs.set(plural, this.#clock.monotonicMs() + ms)
  }

  end(): void {
    this.#untilMs.clear()
  }

  get lagging(): boolean {
    const nowMs = this.#clock.monotonicMs()
    return [...this.#untilMs.values()].some((untilMs) => untilMs > nowMs)
  }

  transport(inner: Transport): Transport {
    return {
      send: async (request, signal) => {
        const response = await inner.send(request, signal)
        return 'stream' in response ? { ...response, stream: this.#late(request, response.stream, signal) } : response
      },
      close: () => inner.close(),
    }
  }

  kv(inner: EtcdKv): EtcdKv {
    return {
      ...inner,
      watch: (prefix, options) => {
        let waiting = Promise.resolve()
        let ahead = 0
        const onChange: typeof options.onChange = (changes) => {
          if (ahead === 0 && !this.#holds('ranges')) {
            options.onChange(changes)
            return
          }
          ahead++
          waiting = waiting
            .then(() => this.#released('ranges', options.signal))
            .then(() => options.onChange(changes))
            .catch(() => {})
            .finally(() => ahead--)
        }
        return inner.watch(prefix, { ...options, onChange })
      },
    }
  }

  #holds(plural: string): boolean {
    return (this.#untilMs.get(plural) ?? 0) > this.#clock.monotonicMs()
  }

  async #released(plural: string, signal: AbortSignal): Promise<void> {
    while (this.#holds(plural)) {
      await sleep(this.#clock, Math.min((this.#untilMs.get(plural) ?? 0) - this.#clock.monotonicMs(), 500), signal)
    }
  }

  async *#late({ path }: ApiRequest, events: AsyncIterable<unknown>, signal: AbortSignal): AsyncGenerator<unknown> {
    const plural = path.slice(path.lastIndexOf('/') + 1)
    for await (const event of events) {
      await this.#released(plural, signal)
      yield event
    }
  }
}
