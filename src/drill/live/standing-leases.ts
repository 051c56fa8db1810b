import type { EndpointPool } from '../../etcd/connect-pool.ts'
import type { EtcdKv } from '../../etcd/kv.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'

/** Between two renewals, in milliseconds: a quarter of the shortest TTL that there is. */
const RENEW_MS = 500
/** Below an etcd prefix: leases and their holders' records. */
const PREFIXES = ['/masterleases/', '/apiserver-bootstrap/holders/']

/**
 * Has no lease end while the etcd, which goes on, is said to be dead: a dead one ends none, and begins them anew when it is back. On kine,
 * where a lease identifies nothing, they end all the same.
 */
export class StandingLeases {
  readonly #kv: EtcdKv
  readonly #prefix: string
  readonly #pool: EndpointPool
  readonly #clock: Clock
  #held: { readonly end: AbortController; readonly ended: Promise<void> } | undefined

  constructor(options: {
    readonly kv: EtcdKv
    readonly prefix: string
    readonly pool: EndpointPool
    readonly clock: Clock
  }) {
    this.#kv = options.kv
    this.#prefix = options.prefix
    this.#pool = options.pool
    this.#clock = options.clock
  }

  /** From now on until {@link release}. */
  hold(): void {
    if (this.#held !== undefined) return
    const end = new AbortController()
    this.#held = { end, ended: this.#renew(end.signal) }
  }

  /** Leases last for their whole TTL from now on. */
  async release(): Promise<void> {
    this.#held?.end.abort()
    await this.#held?.ended
    this.#held = undefined
  }

  async close(): Promise<void> {
    await this.release()
    await this.#pool.close()
  }

  async #renew(end: AbortSignal): Promise<void> {
    const never = new AbortController().signal
    const found = await Promise.all(
      PREFIXES.map((prefix) =>
        this.#kv.list(`${this.#prefix}${prefix}`, { signal: never }).catch(() => ({ items: [] })),
      ),
    )
    const leases = new Set(
      found.flatMap(({ items }) => items.map(({ lease }) => lease)).filter((lease) => lease !== 0n),
    )
    for (;;) {
      const isLast = end.aborted
      await Promise.all([...leases].map((lease) => this.#renewOne(lease, never).catch(() => {})))
      if (isLast) return
      await sleep(this.#clock, RENEW_MS, end).catch(() => {})
    }
  }

  #renewOne(lease: bigint, signal: AbortSignal): Promise<void> {
    return this.#pool.ask('repeatable', signal, async (server, signal) => {
      async function* requests() {
        yield { ID: lease }
      }
      // The stream ends with its one request.
      for await (const _ of server.lease.leaseKeepAlive(requests(), { signal })) return
    })
  }
}
