import type { Cancel, Clock } from '../runtime/clock.ts'
import { getOrMake } from '../runtime/memo.ts'
import { aborted, linkedController } from '../runtime/signals.ts'
import {
  EtcdError,
  type EtcdKv,
  type KeyChange,
  type KeyValue,
  type LeaseGrant,
  type PutOptions,
  type WatchOptions,
} from './kv.ts'

export interface MemoryEtcdOptions {
  /** The store's own time: leases expire by it, whatever its clients' clocks show. */
  readonly clock: Clock
  /**
   * The server to imitate. On kine a lease's id is its number of seconds, the same for all clients; each put with a
   * lease sets the expiry of that key alone; and `timeToLive` is refused. @default 'etcd'
   */
  readonly flavour?: 'etcd' | 'kine' | undefined
  /**
   * The interval between the times at which leases expire, in milliseconds; 0: each lease expires when its TTL has
   * passed. @default 0
   */
  readonly expiryStepMs?: number | undefined
  /**
   * With `expiryStepMs`: one of the times at which leases expire, in milliseconds on the monotonic clock. @default 0
   */
  readonly expiryPhaseMs?: number | undefined
  /** The shortest TTL of a lease, in seconds; a shorter request gets this TTL. It does not apply to kine. @default 2 */
  readonly leastTtlSeconds?: number | undefined
  /**
   * The store retains at least this many revisions and at most twice as many, and compacts older ones, like etcd's
   * `--auto-compaction-mode=revision`. @default all
   */
  readonly revisions?: number | undefined
}

/** When an etcd lease ends, and what that deletes: the keys of an etcd lease, or on kine a single key. */
interface LeaseExpiry {
  readonly grantedSeconds: number
  endsAtMs: number
  readonly keys: Set<string>
}

/** etcd's minimum TTL with its default election timeout. */
const LEAST_TTL_SECONDS = 2

/**
 * An etcd or kine in this process. The same contract suite checks it and the real adapter.
 *
 * It is deterministic, because it uses only its clock. It answers no call, and calls no watcher, before the caller's
 * synchronous code has ended.
 */
export class MemoryEtcd {
  readonly #clock: Clock
  readonly #flavour: 'etcd' | 'kine'
  readonly #expiryStepMs: number
  readonly #expiryPhaseMs: number
  readonly #leastTtlSeconds: number
  readonly #history: KeyHistory
  /** The expiries: by lease id as etcd, by key as kine. */
  readonly #expiries = new Map<bigint | string, LeaseExpiry>()
  readonly #watchers = new Set<{ readonly prefix: string; readonly collect: (change: KeyChange) => void }>()
  #nextLease = 7_587_000_000_000_000_001n
  #cancelExpiry: Cancel = () => {}

  constructor(options: MemoryEtcdOptions) {
    this.#clock = options.clock
    this.#flavour = options.flavour ?? 'etcd'
    this.#history = new KeyHistory(options.revisions)
    this.#expiryStepMs = options.expiryStepMs ?? 0
    this.#expiryPhaseMs = options.expiryPhaseMs ?? 0
    this.#leastTtlSeconds = options.leastTtlSeconds ?? LEAST_TTL_SECONDS
  }

  /** The revision of the last write; 1n before the first, as in etcd. */
  get revision(): bigint {
    return this.#history.revision
  }

  client(): EtcdKv {
    const closing = new AbortController()
    const turn = async (signal: AbortSignal): Promise<void> => {
      signal.throwIfAborted()
      await undefined
      signal.throwIfAborted()
      if (closing.signal.aborted) throw new EtcdError('Unreachable', 'the client is closed')
      this.#expire()
    }
    return {
      get: async (key, signal) => {
        await turn(signal)
        return this.#shown(this.#history.at(key))
      },
      list: async (prefix, { revision, signal }) => {
        await turn(signal)
        const at = revision ?? this.#history.revision
        const items = this.#history.list(prefix, at).map((version) => this.#shown(version) as KeyValue)
        return { revision: at, items }
      },
      create: async (key, value, options) => {
        await turn(options.signal)
        return this.#history.at(key) === undefined ? this.#put(key, value, options) : undefined
      },
      update: async (key, value, modRevision, options) => {
        await turn(options.signal)
        return this.#history.at(key)?.modRevision === modRevision ? this.#put(key, value, options) : undefined
      },
      delete: async (key, modRevision, signal) => {
        await turn(signal)
        if (this.#history.at(key)?.modRevision !== modRevision) return false
        this.#delete([key])
        return true
      },
      grantLease: async (ttlSeconds, signal) => {
        await turn(signal)
        return this.#grant(ttlSeconds)
      },
      timeToLive: async (lease, signal) => {
        await turn(signal)
        return this.#timeToLive(lease)
      },
      watch: async (prefix, options) => {
        const { controller, unlink } = linkedController(options.signal, closing.signal)
        try {
          await this.#watch(prefix, options, controller)
        } finally {
          unlink()
        }
      },
      close: async () => closing.abort(),
    }
  }

  /**
   * Compacts all revisions before `revision`, by default all but the newest. Throws `Refused` for a future revision.
   */
  compact(revision: bigint = this.#history.revision): void {
    this.#history.compact(revision)
  }

  /** Starts the TTL of every lease anew, as when etcd gets another leader or restarts, or kine restarts. */
  startLeasesOver(): void {
    this.#expire()
    // The timer stays as it is: nothing expires earlier than before. It fires too early, finds nothing to expire, and
    // is set again.
    for (const expiry of this.#expiries.values()) expiry.endsAtMs = this.#endOf(expiry.grantedSeconds)
  }

  #shown(version: StoredVersion | undefined): KeyValue | undefined {
    if (version?.value === undefined) return undefined
    const { key, value, modRevision, lease } = version
    return { key, value: value.slice(), modRevision, lease }
  }

  #put(key: string, value: Uint8Array, { lease = 0n }: PutOptions): bigint {
    const before = this.#history.at(key)
    const expiry = lease === 0n ? undefined : this.#expiryFor(key, lease)
    if (before !== undefined) this.#expiryOf(before)?.keys.delete(key)
    if (this.#flavour === 'kine') this.#expiries.delete(key)
    if (expiry !== undefined) {
      expiry.keys.add(key)
      this.#expiries.set(this.#flavour === 'kine' ? key : lease, expiry)
      this.#scheduleExpiry()
    }
    // `slice` would not always copy: the slice of a Buffer shares its memory.
    const stored = new Uint8Array(value)
    const modRevision = this.#history.write([{ key, value: stored, lease }])
    const type = before === undefined ? 'created' : 'modified'
    this.#notify({ type, key, value: stored, previousValue: before?.value, modRevision })
    return modRevision
  }

  /** Deletes keys in one revision, as etcd does when it revokes a lease. */
  #delete(keys: readonly string[]): void {
    const gone = keys.flatMap((key) => this.#history.at(key) ?? [])
    if (gone.length === 0) return
    for (const version of gone) this.#expiryOf(version)?.keys.delete(version.key)
    const modRevision = this.#history.write(gone.map(({ key }) => ({ key, value: undefined, lease: 0n })))
    for (const { key, value } of gone) {
      this.#notify({ type: 'deleted', key, value: new Uint8Array(), previousValue: value, modRevision })
    }
  }

  #grant(ttlSeconds: number): LeaseGrant {
    if (this.#flavour === 'kine') return { id: BigInt(ttlSeconds), grantedSeconds: BigInt(ttlSeconds) }
    const grantedSeconds = Math.max(ttlSeconds, this.#leastTtlSeconds)
    const lease = this.#nextLease++
    this.#expiries.set(lease, { grantedSeconds, endsAtMs: this.#endOf(grantedSeconds), keys: new Set() })
    return { id: lease, grantedSeconds: BigInt(grantedSeconds) }
  }

  #timeToLive(lease: bigint) {
    if (this.#flavour === 'kine') throw new EtcdError('Unsupported', 'lease time to live is not supported')
    const expiry = this.#expiries.get(lease)
    if (expiry === undefined) return undefined
    const leftMs = Math.max(expiry.endsAtMs - this.#clock.monotonicMs(), 0)
    return { grantedSeconds: BigInt(expiry.grantedSeconds), leftSeconds: BigInt(Math.floor(leftMs / 1000)) }
  }

  #expiryFor(key: string, lease: bigint): LeaseExpiry {
    if (this.#flavour === 'kine') {
      const grantedSeconds = Number(lease)
      return { grantedSeconds, endsAtMs: this.#endOf(grantedSeconds), keys: new Set([key]) }
    }
    const expiry = this.#expiries.get(lease)
    if (expiry === undefined) throw new EtcdError('LeaseNotFound', 'requested lease not found')
    return expiry
  }

  #expiryOf({ key, lease }: StoredVersion): LeaseExpiry | undefined {
    return this.#expiries.get(this.#flavour === 'kine' ? key : lease)
  }

  #endOf(seconds: number): number {
    return this.#clock.monotonicMs() + seconds * 1000
  }

  /** Each call begins with this, so that expiry does not depend on a watch. */
  #expire(): void {
    const nowMs = this.#clock.monotonicMs()
    const over: [bigint | string, LeaseExpiry][] = []
    for (const entry of this.#expiries) if (this.#goesAtMs(entry[1]) <= nowMs) over.push(entry)
    for (const [id, expiry] of over.sort(([, a], [, b]) => a.endsAtMs - b.endsAtMs)) {
      this.#expiries.delete(id)
      this.#delete([...expiry.keys].sort())
    }
  }

  #goesAtMs({ endsAtMs }: LeaseExpiry): number {
    const [step, phase] = [this.#expiryStepMs, this.#expiryPhaseMs]
    return step === 0 ? endsAtMs : Math.ceil((endsAtMs - phase) / step) * step + phase
  }

  /**
   * Sets a timer for the next expiry, but only while there are watches, and only if it has keys. Expiries without a
   * timer happen at the next call (see `#expire`).
   */
  #scheduleExpiry(): void {
    this.#cancelExpiry()
    this.#cancelExpiry = () => {}
    if (this.#watchers.size === 0) return
    let nextMs = Number.POSITIVE_INFINITY
    for (const expiry of this.#expiries.values()) {
      if (expiry.keys.size > 0) nextMs = Math.min(nextMs, this.#goesAtMs(expiry))
    }
    if (nextMs === Number.POSITIVE_INFINITY) return
    this.#cancelExpiry = this.#clock.schedule(nextMs - this.#clock.monotonicMs(), () => {
      this.#expire()
      this.#scheduleExpiry()
    })
  }

  /**
   * Resolves when `controller` is aborted. Rejects with what `onChange` or `report` throws. Removes the watcher in both
   * cases.
   */
  async #watch(prefix: string, { onChange, report }: WatchOptions, controller: AbortController): Promise<void> {
    const { signal } = controller
    if (signal.aborted) return
    await undefined
    if (signal.aborted) return
    let failure: { readonly error: unknown } | undefined
    let pending: KeyChange[] = []
    const deliver = (): void => {
      const changes = pending
      pending = []
      try {
        if (!signal.aborted) onChange(changes)
      } catch (error) {
        failure = { error }
        controller.abort()
      }
    }
    const collect = (change: KeyChange): void => {
      if (pending.push(change) === 1) void Promise.resolve().then(deliver)
    }
    const watcher = { prefix, collect }
    this.#expire()
    this.#watchers.add(watcher)
    this.#scheduleExpiry()
    try {
      report(undefined)
      onChange(undefined)
      await aborted(signal)
    } finally {
      this.#watchers.delete(watcher)
      this.#scheduleExpiry()
    }
    if (failure !== undefined) throw failure.error
  }

  #notify(change: KeyChange): void {
    for (const { prefix, collect } of this.#watchers) if (change.key.startsWith(prefix)) collect(change)
  }
}

/** A key after one write. */
interface StoredVersion {
  readonly key: string
  /** Undefined if the write deleted the key. */
  readonly value: Uint8Array | undefined
  readonly modRevision: bigint
  readonly lease: bigint
}

/** All versions of all keys, except the compacted versions. Each write increments the revision of the whole store. */
class KeyHistory {
  /** The versions of each key, oldest first. */
  readonly #versions = new Map<string, StoredVersion[]>()
  /** All keys, sorted; undefined until they are needed again. */
  #keys: readonly string[] | undefined
  #revision = 1n
  #compacted = 0n
  readonly #capacity: number

  /** `capacity`: at least this many of the latest revisions are retained, and at most twice as many. @default all */
  constructor(capacity = Number.POSITIVE_INFINITY) {
    this.#capacity = capacity
  }

  get revision(): bigint {
    return this.#revision
  }

  /**
   * The version of a key at a revision, by default the newest; undefined if the key did not exist at that revision.
   * Throws `Compacted` for a compacted or a future revision.
   */
  at(key: string, revision = this.#revision): StoredVersion | undefined {
    if (revision < this.#compacted) {
      throw new EtcdError('Compacted', 'mvcc: required revision has been compacted')
    }
    if (revision > this.#revision) throw new EtcdError('Compacted', 'mvcc: required revision is a future revision')
    const version = this.#versions.get(key)?.findLast(({ modRevision }) => modRevision <= revision)
    return version?.value === undefined ? undefined : version
  }

  /** The versions at `revision` of all keys with the prefix, sorted by key. Throws `Compacted` like {@link at}. */
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

  /** Makes all writes in one revision, and returns that revision. */
  write(writes: readonly Omit<StoredVersion, 'modRevision'>[]): bigint {
    const modRevision = ++this.#revision
    for (const write of writes) {
      if (!this.#versions.has(write.key)) this.#keys = undefined
      getOrMake(this.#versions, write.key, () => []).push({ ...write, modRevision })
    }
    if (modRevision - this.#compacted > 2 * this.#capacity) this.compact(modRevision - BigInt(this.#capacity))
    return modRevision
  }

  /** Discards each version that a version at or before `revision` replaced. Throws `Refused` for a future revision. */
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
      const retained = versions.slice(first)
      // A deletion that is the only version left happened at or before `revision`.
      const gone = retained.length === 1 && retained[0]?.value === undefined
      if (gone) this.#versions.delete(key)
      else this.#versions.set(key, retained)
    }
  }
}
