import type { EtcdKv, KeyValue } from '../../etcd/kv.ts'

/** A key that this process writes by compare-and-put. It remembers how it left it, so that a steady write needs no read. */
export class GuardedKey {
  readonly key: string
  readonly #etcd: EtcdKv
  #last: KeyValue | undefined

  constructor(etcd: EtcdKv, key: string) {
    this.#etcd = etcd
    this.key = key
  }

  /** As this process wrote it last; undefined when it did not, or has deleted it since. Somebody else may have changed it. */
  get last(): KeyValue | undefined {
    return this.#last
  }

  /** It is no longer this process' to write. */
  forget(): void {
    this.#last = undefined
  }

  /** As it is in the store; undefined when it is not there. */
  read(signal: AbortSignal): Promise<KeyValue | undefined> {
    return this.#etcd.get(this.key, signal)
  }

  /** Writes it where it still is as in `before`, or not there. Whether it was. */
  async put(value: Uint8Array, lease: bigint, before: KeyValue | undefined, signal: AbortSignal): Promise<boolean> {
    const modRevision =
      before === undefined
        ? await this.#etcd.create(this.key, value, { lease, signal })
        : await this.#etcd.update(this.key, value, before.modRevision, { lease, signal })
    if (modRevision !== undefined) this.#last = { key: this.key, value, modRevision, lease }
    return modRevision !== undefined
  }

  /** Deletes it where it still is as in `before`. Whether it was. */
  async delete(before: KeyValue, signal: AbortSignal): Promise<boolean> {
    this.#last = undefined
    return this.#etcd.delete(this.key, before.modRevision, signal)
  }
}
