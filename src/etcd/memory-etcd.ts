import type { Cancel, Clock } from '../runtime/clock.ts'
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
import { KeyHistory, type StoredVersion } from './memory-etcd-history.ts'

export interface MemoryEtcdOptions {
  /** The store's own time: what expires does so by it, whatever its clients' clocks say. */
  readonly clock: Clock
  /**
   * As which server it behaves. On kine a lease's id is its number of seconds, the same for everybody; each put with one sets the time
   * of that key alone; and nobody can ask how long a lease has. @default 'etcd'
   */
  readonly flavour?: 'etcd' | 'kine' | undefined
  /** What runs out goes when this many milliseconds, or a multiple of them, have passed on its clock; 0: at once. @default 0 */
  readonly expiryStepMs?: number | undefined
  /** When on its clock the first of these steps is, in milliseconds. @default 0 */
  readonly expiryPhaseMs?: number | undefined
  /** The shortest time of a lease, in seconds; whoever asks for less gets this. Not on kine. @default 2 */
  readonly leastTtlSeconds?: number | undefined
  /** How many revisions it keeps, as etcd's `--auto-compaction-mode=revision` does; up to twice as many. @default all */
  readonly revisions?: number | undefined
}

/** What ends at one time: an etcd lease with its keys, or on kine a single key. */
interface Term {
  readonly lease: bigint
  readonly grantedSeconds: number
  endsAtMs: number
  readonly keys: Set<string>
}

/** etcd's least with its default election timeout. */
const LEAST_TTL_SECONDS = 2

/**
 * An etcd, or kine, in this process: the twin of the real adapter, held to it by one contract suite.
 *
 * Deterministic: it uses its clock and nothing else. No call is answered, and no watch called, before the caller's turn has ended.
 */
export class MemoryEtcd {
  readonly #clock: Clock
  readonly #flavour: 'etcd' | 'kine'
  readonly #expiryStepMs: number
  readonly #expiryPhaseMs: number
  readonly #leastTtlSeconds: number
  readonly #history: KeyHistory
  /** By lease on etcd, by key on kine. */
  readonly #terms = new Map<bigint | string, Term>()
  readonly #watchers = new Set<{ readonly prefix: string; readonly tell: (change: KeyChange) => void }>()
  #nextLease = 7_587_000_000_000_000_001n
  #cancelExpiry: Cancel = () => {}
  /** No term ends earlier. */
  #nothingBeforeMs = Number.POSITIVE_INFINITY

  constructor(options: MemoryEtcdOptions) {
    this.#clock = options.clock
    this.#flavour = options.flavour ?? 'etcd'
    this.#history = new KeyHistory({ keeps: options.revisions })
    this.#expiryStepMs = options.expiryStepMs ?? 0
    this.#expiryPhaseMs = options.expiryPhaseMs ?? 0
    this.#leastTtlSeconds = options.leastTtlSeconds ?? LEAST_TTL_SECONDS
  }

  /** The revision of the last write; 1n before the first, as in etcd. */
  get revision(): bigint {
    return this.#history.revision
  }

  /** One client's way to it. Any number may be open. */
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
        return this.#shown(this.#history.at(key, this.#history.revision))
      },
      list: async (prefix, { revision, signal }) => {
        await turn(signal)
        const at = revision ?? this.#history.revision
        const items = this.#history.list(prefix, at).map((version) => this.#shown(version) as KeyValue)
        return { revision: at, items }
      },
      create: async (key, value, options) => {
        await turn(options.signal)
        return this.#history.current(key) === undefined ? this.#put(key, value, options) : undefined
      },
      update: async (key, value, modRevision, options) => {
        await turn(options.signal)
        return this.#history.current(key)?.modRevision === modRevision ? this.#put(key, value, options) : undefined
      },
      delete: async (key, modRevision, signal) => {
        await turn(signal)
        if (this.#history.current(key)?.modRevision !== modRevision) return false
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
        await this.#watch(prefix, { ...options, signal: controller.signal })
        unlink()
      },
      close: async () => closing.abort(),
    }
  }

  /** Forgets what was stored before `revision`, the newest when left out. */
  compact(revision: bigint = this.#history.revision): void {
    this.#history.compact(revision)
  }

  /** Every lease starts its time over, as when etcd gets another leader or comes back, or kine starts again. */
  startLeasesOver(): void {
    this.#expire()
    for (const term of this.#terms.values()) term.endsAtMs = this.#endOf(term.grantedSeconds)
    this.#scheduleExpiry()
  }

  #shown(version: StoredVersion | undefined): KeyValue | undefined {
    if (version?.value === undefined) return undefined
    const { key, value, modRevision, lease } = version
    return { key, value: value.slice(), modRevision, lease }
  }

  #put(key: string, value: Uint8Array, { lease = 0n }: PutOptions): bigint {
    const before = this.#history.current(key)
    const term = lease === 0n ? undefined : this.#termFor(key, lease)
    if (before !== undefined) this.#termOf(before)?.keys.delete(key)
    if (this.#flavour === 'kine') this.#terms.delete(key)
    if (term !== undefined) {
      term.keys.add(key)
      this.#terms.set(this.#flavour === 'kine' ? key : lease, term)
      this.#scheduleExpiry()
    }
    // Not slice: that of a Buffer shares its memory.
    const stored = new Uint8Array(value)
    const modRevision = this.#history.write([{ key, value: stored, lease }])
    const type = before === undefined ? 'created' : 'modified'
    this.#tell({ type, key, value: stored, previousValue: before?.value, modRevision })
    return modRevision
  }

  /** In one revision, as etcd revokes a lease. */
  #delete(keys: readonly string[]): void {
    const gone = keys.flatMap((key) => this.#history.current(key) ?? [])
    if (gone.length === 0) return
    for (const version of gone) this.#termOf(version)?.keys.delete(version.key)
    if (this.#flavour === 'kine') for (const { key } of gone) this.#terms.delete(key)
    const modRevision = this.#history.write(gone.map(({ key }) => ({ key, value: undefined, lease: 0n })))
    for (const { key, value } of gone) {
      this.#tell({ type: 'deleted', key, value: new Uint8Array(), previousValue: value, modRevision })
    }
  }

  #grant(ttlSeconds: number): LeaseGrant {
    if (this.#flavour === 'kine') return { id: BigInt(ttlSeconds), grantedSeconds: BigInt(ttlSeconds) }
    const grantedSeconds = Math.max(ttlSeconds, this.#leastTtlSeconds)
    const lease = this.#nextLease++
    this.#terms.set(lease, { lease, grantedSeconds, endsAtMs: this.#endOf(grantedSeconds), keys: new Set() })
    return { id: lease, grantedSeconds: BigInt(grantedSeconds) }
  }

  #timeToLive(lease: bigint) {
    if (this.#flavour === 'kine') throw new EtcdError('Unsupported', 'lease time to live is not supported')
    const term = this.#terms.get(lease)
    if (term === undefined) return undefined
    const leftMs = Math.max(term.endsAtMs - this.#clock.monotonicMs(), 0)
    return { grantedSeconds: BigInt(term.grantedSeconds), leftSeconds: BigInt(Math.floor(leftMs / 1000)) }
  }

  #termFor(key: string, lease: bigint): Term {
    if (this.#flavour === 'kine') {
      const grantedSeconds = Number(lease)
      return { lease, grantedSeconds, endsAtMs: this.#endOf(grantedSeconds), keys: new Set([key]) }
    }
    const term = this.#terms.get(lease)
    if (term === undefined) throw new EtcdError('LeaseNotFound', 'requested lease not found')
    return term
  }

  #termOf({ key, lease }: StoredVersion): Term | undefined {
    return this.#terms.get(this.#flavour === 'kine' ? key : lease)
  }

  /** For a term that begins now. */
  #endOf(seconds: number): number {
    const endMs = this.#clock.monotonicMs() + seconds * 1000
    this.#nothingBeforeMs = Math.min(this.#nothingBeforeMs, endMs)
    return endMs
  }

  /** Ends what has run out, in the order in which it did. Called before each read, so that expiry does not depend on a watch. */
  #expire(): void {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs < this.#nothingBeforeMs) return
    this.#nothingBeforeMs = Number.POSITIVE_INFINITY
    const over: [id: string | bigint, term: Term][] = []
    for (const entry of this.#terms) {
      const goesAtMs = this.#goesAtMs(entry[1])
      if (goesAtMs <= nowMs) over.push(entry)
      else this.#nothingBeforeMs = Math.min(this.#nothingBeforeMs, goesAtMs)
    }
    for (const [id, term] of over.sort(([, a], [, b]) => a.endsAtMs - b.endsAtMs)) {
      this.#terms.delete(id)
      this.#delete([...term.keys].sort())
    }
  }

  #goesAtMs({ endsAtMs }: Term): number {
    const [step, phase] = [this.#expiryStepMs, this.#expiryPhaseMs]
    return step === 0 ? endsAtMs : Math.ceil((endsAtMs - phase) / step) * step + phase
  }

  /** A timer only while somebody watches, and for terms that have keys: else the next call finds out. */
  #scheduleExpiry(): void {
    this.#cancelExpiry()
    this.#cancelExpiry = () => {}
    if (this.#watchers.size === 0) return
    let nextMs = Number.POSITIVE_INFINITY
    for (const term of this.#terms.values()) {
      if (term.keys.size > 0) nextMs = Math.min(nextMs, this.#goesAtMs(term))
    }
    if (nextMs === Number.POSITIVE_INFINITY) return
    this.#cancelExpiry = this.#clock.schedule(nextMs - this.#clock.monotonicMs(), () => {
      this.#expire()
      this.#scheduleExpiry()
    })
  }

  async #watch(prefix: string, { onChange, report, signal }: WatchOptions): Promise<void> {
    if (signal.aborted) return
    await undefined
    if (signal.aborted) return
    let pending: KeyChange[] = []
    const deliver = (): void => {
      const changes = pending
      pending = []
      if (!signal.aborted) onChange(changes)
    }
    const tell = (change: KeyChange): void => {
      if (pending.push(change) === 1) void Promise.resolve().then(deliver)
    }
    const watcher = { prefix, tell }
    this.#expire()
    this.#watchers.add(watcher)
    this.#scheduleExpiry()
    report(undefined)
    onChange(undefined)
    await aborted(signal)
    this.#watchers.delete(watcher)
    this.#scheduleExpiry()
  }

  #tell(change: KeyChange): void {
    for (const { prefix, tell } of this.#watchers) if (change.key.startsWith(prefix)) tell(change)
  }
}
