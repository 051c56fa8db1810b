import type { EtcdWay } from './etcd-ways.ts'
import { TcpProxy } from './tcp-proxy.ts'

/** One master's ways to the endpoints of the etcd. */
export class StoreWays {
  /** What to give as `--etcd-servers`. */
  readonly urls: readonly string[]
  cut = false
  away = false
  #delayMs = 0
  readonly #proxies: readonly TcpProxy[]

  private constructor(urls: readonly string[], proxies: readonly TcpProxy[]) {
    this.urls = urls
    this.#proxies = proxies
  }

  static async open(ways: readonly EtcdWay[]): Promise<StoreWays> {
    const proxies: TcpProxy[] = []
    for (const { target } of ways) proxies.push(await TcpProxy.open(target))
    await Promise.all(proxies.map((proxy) => proxy.accept()))
    return new StoreWays(
      ways.map(({ scheme, host }, index) => `${scheme}://${host}:${proxies[index]?.port}`),
      proxies,
    )
  }

  get delayMs(): number {
    return this.#delayMs
  }

  setCut(cut: boolean): void {
    if (cut === this.cut) return
    this.cut = cut
    for (const proxy of this.#proxies) {
      if (cut) proxy.hold('cut')
      else {
        proxy.release('cut')
        proxy.reset()
      }
    }
  }

  /** Nobody listens there, as if the etcd had been killed; or it does again. */
  async setAway(away: boolean): Promise<void> {
    if (away === this.away) return
    this.away = away
    await Promise.all(this.#proxies.map((proxy) => (away ? proxy.refuse() : proxy.accept())))
  }

  slow(delayMs: number): void {
    this.#delayMs = delayMs
    for (const proxy of this.#proxies) proxy.delay(delayMs)
  }

  reset(): void {
    for (const proxy of this.#proxies) proxy.reset()
  }

  async close(): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy.close()))
  }
}
