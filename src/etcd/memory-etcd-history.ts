import { EtcdError } from './kv.ts'

/** A key as one write left it. */
export interface StoredVersion {
  readonly key: string
  /** Undefined: deleted. */
  readonly value: Uint8Array | undefined
  readonly modRevision: bigint
  readonly lease: bigint
}

/** Every version of every key since the last compaction, under one revision that each write raises. */
export class KeyHistory {
  /** Of each key, oldest first. */
  readonly #versions = new Map<string, StoredVersion[]>()
  /** Sorted; undefined until they are asked for again. */
  #keys: readonly string[] | undefined
  #revision = 1n
  #compacted = 0n
  readonly #keeps: bigint | undefined

  /** `keeps`: how many revisions are there at least when older ones are forgotten by themselves; all, when left out. */
  constructor({ keeps }: { readonly keeps?: number | undefined } = {}) {
    this.#keeps = keeps === undefined ? undefined : BigInt(keeps)
  }

  get revision(): bigint {
    return this.#revision
  }

  /** The key as it is; undefined when it is not there. */
  current(key: string): StoredVersion | undefined {
    const version = this.#versions.get(key)?.at(-1)
    return version?.value === undefined ? undefined : version
  }

  /** The key as it was at a revision; undefined when it was not there. Throws `Compacted`, for one that is yet to come as well. */
  at(key: string, revision: bigint): StoredVersion | undefined {
    if (revision < this.#compacted) {
      throw new EtcdError('Compacted', 'mvcc: required revision has been compacted')
    }
    if (revision > this.#revision) throw new EtcdError('Compacted', 'mvcc: required revision is a future revision')
    const version = this.#versions.get(key)?.findLast(({ modRevision }) => modRevision <= revision)
    return version?.value === undefined ? undefined : version
  }

  /** Everything under a prefix as it was at a revision, sorted by key. Throws `Compacted`. */
  list(prefix: string, revision: bigint): readonly StoredVersion[] {
    this.at(prefix, revision)
    this.#keys ??= [...this.#versions.keys()].sort()
    const listed: StoredVersion[] = []
    for (const key of this.#keys) {
      const version = key.startsWith(prefix) ? this.at(key, revision) : undefined
      if (version !== undefined) listed.push(version)
    }
    return listed
  }

  /** Writes, all in one revision, and returns it. */
  write(writes: readonly Omit<StoredVersion, 'modRevision'>[]): bigint {
    const modRevision = ++this.#revision
    for (const write of writes) {
      const version = { ...write, modRevision }
      const versions = this.#versions.get(write.key)
      if (versions !== undefined) {
        versions.push(version)
        continue
      }
      this.#versions.set(write.key, [version])
      this.#keys = undefined
    }
    if (this.#keeps !== undefined && modRevision - this.#compacted > 2n * this.#keeps) {
      this.compact(modRevision - this.#keeps)
    }
    return modRevision
  }

  /** Forgets what was there before a revision; nothing where that has been forgotten already. */
  compact(revision: bigint): void {
    if (revision > this.#revision) throw new EtcdError('Refused', 'mvcc: required revision is a future revision')
    if (revision <= this.#compacted) return
    this.#compacted = revision
    this.#keys = undefined
    for (const [key, versions] of this.#versions) {
      const first = Math.max(
        versions.findLastIndex(({ modRevision }) => modRevision <= revision),
        0,
      )
      const kept = versions.slice(first)
      const gone = kept.length === 1 && kept[0]?.value === undefined && (kept[0]?.modRevision ?? 0n) <= revision
      if (gone) this.#versions.delete(key)
      else this.#versions.set(key, kept)
    }
  }
}
