import type { EtcdKv, KeyValue } from './kv.ts'

/** A key that this process writes by compare-and-put. It remembers how it left it, so that a steady write needs no read. */
export class GuardedKey {
  readonly key: string
  readonly #etcd: EtcdKv
  #last: KeyValue | undefined
  /** Writes since then that were not answered: each may have been done. */
  #unanswered: readonly Pick<KeyValue, 'value' | 'lease'>[] = []

  constructor(etcd: EtcdKv, key: string) {
    this.#etcd = etcd
    this.key = key
  }

  /** As this process wrote it last; undefined when it did not, or has deleted it since. Somebody else may have changed it. */
  get last(): KeyValue | undefined {
    return this.#last
  }

  /** Whether this is what a write of this process left whose answer was lost. On kine another's write of the same value looks the same. */
  isUnanswered({ value, lease }: KeyValue): boolean {
    return this.#unanswered.some((sent) => sent.lease === lease && Buffer.compare(sent.value, value) === 0)
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
    const sent =
      before === undefined
        ? this.#etcd.create(this.key, value, { lease, signal })
        : this.#etcd.update(this.key, value, before.modRevision, { lease, signal })
    const modRevision = await sent.catch((error: unknown) => {
      this.#unanswered = [...this.#unanswered, { value, lease }]
      throw error
    })
    if (modRevision !== undefined) {
      this.#last = { key: this.key, value, modRevision, lease }
      this.#unanswered = []
    }
    return modRevision !== undefined
  }

  /** Deletes it where it still is as in `before`. Whether it was. */
  async delete(before: KeyValue, signal: AbortSignal): Promise<boolean> {
    this.#last = undefined
    return this.#etcd.delete(this.key, before.modRevision, signal)
  }
}
