import dns, { type LookupAddress, type LookupOptions } from 'node:dns'
import type { LookupFunction } from 'node:net'

type Addresses = readonly LookupAddress[]

interface Running {
  readonly addresses: Promise<Addresses>
  readonly sinceMs: number
}

/** After this time without an answer the last addresses of a name are used, in milliseconds. */
const LATE_MS = 500
/**
 * After this time without an answer a second lookup of the same name begins, in milliseconds. A lookup asks the name
 * servers that were configured when it began, and may try each of them several times.
 */
const AGAIN_MS = 10_000
const MOST_RUNNING = 2

/**
 * Makes the `lookup` option of `net.connect` and `tls.connect`. It resolves names that it has resolved before also
 * while DNS fails. It asks the system for each connection, as Node's own lookup does. If the system fails, or does not
 * answer within 500 ms, the result is the addresses of the last answer. They may be of any age, because a process whose
 * connections are stable resolves a name only once.
 *
 * The answer that a name does not exist counts as a failure too. The C library also gives this answer if a name has
 * only IPv4 addresses and its A records cannot be read, and if only the right one of several search domains fails.
 *
 * Callers share a lookup of the same name that is in progress; after 10 s without an answer they share a second one.
 * Node runs only two lookups at a time, so many lookups of one name would delay those of other names.
 *
 * @param nowMs - a clock that never goes back, in milliseconds
 */
export function nameLookup(nowMs: () => number = () => performance.now()): LookupFunction {
  const answered = new Map<string, Addresses>()
  const lookups = new Map<string, readonly Running[]>()

  /** The answer of the newest running lookup, or of a new one. */
  const ask = (key: string, hostname: string, options: LookupOptions): Promise<Addresses> => {
    const running = lookups.get(key) ?? []
    const newest = running.at(-1)
    const beganMs = nowMs()
    if (newest !== undefined && (running.length >= MOST_RUNNING || beganMs - newest.sinceMs < AGAIN_MS)) {
      return newest.addresses
    }
    const { promise, resolve, reject } = Promise.withResolvers<Addresses>()
    const own: Running = { addresses: promise, sinceMs: beganMs }
    dns.lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const others = (lookups.get(key) ?? []).filter((one) => one !== own)
      lookups.set(key, others)
      if (error !== null) {
        reject(error)
      } else if (addresses.length === 0) {
        reject(Object.assign(new Error(`no address for ${hostname}`), { code: 'ENODATA' }))
      } else {
        answered.set(key, addresses)
        resolve(addresses)
      }
    })
    lookups.set(key, [...running, own])
    return promise
  }

  const addressesOf = async (hostname: string, options: LookupOptions): Promise<Addresses> => {
    const key = `${options.family ?? 0} ${hostname}`
    const answer = ask(key, hostname, options)
    const last = answered.get(key)
    if (last === undefined) return answer
    const late = Promise.withResolvers<Addresses>()
    const timer = setTimeout(() => late.resolve(last), LATE_MS)
    try {
      return await Promise.race([answer, late.promise])
    } catch {
      return last
    } finally {
      clearTimeout(timer)
    }
  }

  return (hostname, options, callback) => {
    addressesOf(hostname, options).then(
      (addresses) => {
        const [first] = addresses
        if (options.all === true) callback(null, [...addresses])
        else callback(null, first?.address ?? '', first?.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, ''),
    )
  }
}

/** All connections of this process use this lookup, so that they share lookups in progress and last answers. */
export const sharedLookup = nameLookup()
