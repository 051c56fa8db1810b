import dns, { type LookupAddress, type LookupOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'

type Addresses = readonly LookupAddress[]

/** After this time without an answer the last addresses of a name are used, in milliseconds. */
const LATE_MS = 500
/** How old the last addresses of a name may be, in milliseconds: RFC 8767 recommends one to three days. */
const STALE_MS = 24 * 3_600_000

/**
 * Resolves host names for `net.connect` and `tls.connect`, also while DNS fails. It asks the system each time, as
 * Node's own lookup does. If the system fails, or does not answer within 500 ms, it uses the last addresses of the
 * name, which are at most a day old (RFC 8767, serve-stale). The answer that a name does not exist is no such failure.
 *
 * Resolves each name only once at a time. Node uses one of four threads for a lookup, and the same threads read files.
 * While DNS fails, a lookup keeps its thread busy for 10 s or more.
 */
export class NameLookup {
  readonly #nowMs: () => number
  readonly #last = new Map<string, { readonly addresses: Addresses; readonly atMs: number }>()
  readonly #running = new Map<string, Promise<Addresses>>()

  /** @param nowMs - a clock that never goes back, in milliseconds */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** The `lookup` option of `net.connect`. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    this.#resolve(hostname, options).then(
      (addresses) => {
        const [first] = addresses
        if (options.all === true) callback(null, [...addresses])
        else callback(null, first?.address ?? '', first?.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, ''),
    )
  }

  async #resolve(hostname: string, options: LookupOptions): Promise<Addresses> {
    const key = `${options.family ?? 0} ${hostname}`
    const running = this.#running.get(key) ?? this.#ask(key, hostname, options)
    const last = this.#last.get(key)
    if (last === undefined || this.#nowMs() - last.atMs > STALE_MS) return running
    const late = Promise.withResolvers<Addresses>()
    const timer = setTimeout(() => late.resolve(last.addresses), LATE_MS)
    try {
      return await Promise.race([running, late.promise])
    } catch (error) {
      if (isMissing(error)) throw error
      return last.addresses
    } finally {
      clearTimeout(timer)
    }
  }

  #ask(key: string, hostname: string, options: LookupOptions): Promise<Addresses> {
    const { promise, resolve, reject } = Promise.withResolvers<Addresses>()
    this.#running.set(key, promise)
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      this.#running.delete(key)
      if (error === null) {
        this.#last.set(key, { addresses, atMs: this.#nowMs() })
        resolve(addresses)
      } else {
        if (isMissing(error)) this.#last.delete(key)
        reject(error)
      }
    })
    return promise
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOTFOUND'
}

/** For all connections of this process: one name has the same addresses for all of them. */
export const { lookup: sharedLookup } = new NameLookup()
