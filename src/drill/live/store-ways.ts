import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import type { EtcdWay } from './etcd-ways.ts'
import { TcpProxy } from './tcp-proxy.ts'

/** The longest path of a socket, in bytes, less what is below the directory of a drill. */
const MAX_DIRECTORY = 107 - '/s123456/99'.length

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

  /** Sockets are in the directory, which must be open to this user alone, and fit for them. */
  static async open(ways: readonly EtcdWay[], directory: string): Promise<StoreWays> {
    const sockets = await mkdtemp(join(directory, 's'))
    const urls: string[] = []
    const proxies: TcpProxy[] = []
    for (const { target, tlsHost } of ways) {
      const path = join(sockets, `${proxies.length}`)
      const proxy = tlsHost === undefined ? TcpProxy.at(path, target) : await TcpProxy.open(target)
      proxies.push(proxy)
      urls.push(tlsHost === undefined ? `unix://${path}` : `https://${tlsHost}:${proxy.port}`)
    }
    await Promise.all(proxies.map((proxy) => proxy.accept()))
    return new StoreWays(urls, proxies)
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

/** Why sockets in a directory cannot be named in a list of endpoints; undefined when they can. kube-apiserver reads such a list as CSV, of URLs. */
export function socketFault(directory: string): string | undefined {
  if (Buffer.byteLength(directory) > MAX_DIRECTORY) return `is longer than ${MAX_DIRECTORY} bytes`
  return /[,"%?#\p{Cc}]/u.test(directory) ? 'has a character that no list of URLs takes' : undefined
}
