import type { RequestLimit } from '../runtime/request-limit.ts'
import type { EtcdKv, KeyValue } from './kv.ts'

/**
 * How many failed writes are remembered. With a TTL of a few minutes or less, an earlier one has left nothing in etcd,
 * because its etcd lease has ended. On kine a late write can still take effect.
 */
const MAX_UNANSWERED = 256

/** A key that this process writes by compare-and-put. It remembers its last write, so the next write needs no read. */
export class GuardedKey {
  readonly key: string
  readonly #etcd: EtcdKv
  #last: KeyValue | undefined
  /**
   * The latest failed writes after the last successful one. Each may have happened: perhaps only its answer was lost.
   */
  #unanswered: readonly Pick<KeyValue, 'value' | 'lease'>[] = []

  constructor(etcd: EtcdKv, key: string) {
    this.#etcd = etcd
    this.key = key
  }

  /**
   * The key as this process last wrote it; undefined before the first write, and after `delete` or `forget`. Other
   * processes may have changed the key since.
   */
  get last(): KeyValue | undefined {
    return this.#last
  }

  /**
   * Whether this stored value and lease are those of a failed write by this process. On kine that proves less: another
   * process may have written the same value under the same lease id.
   */
  isUnanswered({ value, lease }: KeyValue): boolean {
    return this.#unanswered.some((sent) => sent.lease === lease && Buffer.compare(sent.value, value) === 0)
  }

  /** Forgets the last write, because the key no longer belongs to this process. */
  forget(): void {
    this.#last = undefined
  }

  read(signal: AbortSignal): Promise<KeyValue | undefined> {
    return this.#etcd.get(this.key, signal)
  }

  /**
   * Reads the key if a write has failed since the last success. Returns the key if {@link isUnanswered}, else
   * undefined.
   */
  async readUnanswered(signal: AbortSignal): Promise<KeyValue | undefined> {
    const stored = this.#unanswered.length === 0 ? undefined : await this.read(signal)
    return stored !== undefined && this.isUnanswered(stored) ? stored : undefined
  }

  /**
   * Writes the key if it is unchanged since `before`, or, without `before`, if it does not exist. Returns whether it
   * was written.
   */
  async put(value: Uint8Array, lease: bigint, before: KeyValue | undefined, signal: AbortSignal): Promise<boolean> {
    const sent =
      before === undefined
        ? this.#etcd.create(this.key, value, { lease, signal })
        : this.#etcd.update(this.key, value, before.modRevision, { lease, signal })
    const modRevision = await sent.catch((error: unknown) => {
      this.#unanswered = [...this.#unanswered, { value, lease }].slice(-MAX_UNANSWERED)
      throw error
    })
    if (modRevision !== undefined) {
      this.#last = { key: this.key, value, modRevision, lease }
      this.#unanswered = []
    }
    return modRevision !== undefined
  }

  /** Deletes the key if it is unchanged since `before`. Returns whether it was deleted. Forgets the last write. */
  async delete(before: KeyValue, signal: AbortSignal): Promise<boolean> {
    this.#last = undefined
    return this.#etcd.delete(this.key, before.modRevision, signal)
  }
}

/** The same store, but `limit` aborts requests that are not answered in time. Watches have no limit. */
export function limitedEtcd(etcd: EtcdKv, limit: RequestLimit): EtcdKv {
  return {
    get: (key, signal) => limit.run('read', signal, (limited) => etcd.get(key, limited)),
    list: (prefix, options) => limit.run('read', options.signal, (signal) => etcd.list(prefix, { ...options, signal })),
    create: (key, value, options) =>
      limit.run('write', options.signal, (signal) => etcd.create(key, value, { ...options, signal })),
    update: (key, value, modRevision, options) =>
      limit.run('write', options.signal, (signal) => etcd.update(key, value, modRevision, { ...options, signal })),
    delete: (key, modRevision, signal) =>
      limit.run('write', signal, (limited) => etcd.delete(key, modRevision, limited)),
    grantLease: (ttlSeconds, signal) => limit.run('write', signal, (limited) => etcd.grantLease(ttlSeconds, limited)),
    timeToLive: (lease, signal) => limit.run('read', signal, (limited) => etcd.timeToLive(lease, limited)),
    watch: (prefix, options) => etcd.watch(prefix, options),
    close: () => etcd.close(),
  }
}
