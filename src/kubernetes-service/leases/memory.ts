import type { Cancel, Clock } from '../../runtime/clock.ts'
import { aborted } from '../../runtime/signals.ts'
import { masterKey } from '../members.ts'
import {
  addressOf,
  encodeHolder,
  type Holder,
  isOfAnotherLife,
  type MasterLease,
  type MasterLeases,
  yieldsTo,
} from './master-leases.ts'

interface Entry {
  readonly lease: MasterLease
  readonly expiresAtMs: number
}

/**
 * The leases of the masters of one process. Leases expire by the clock of the registry, as with etcd: a master whose
 * clock differs does not keep its lease longer.
 */
export class MemoryLeaseRegistry {
  readonly #clock: Clock
  readonly #entries = new Map<string, Entry>()
  readonly #watchers = new Set<() => void>()
  #cancelExpiry: Cancel = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Adds leases without a holder that never expire. They stand for other API servers, mostly in tests. */
  addForeign(...addresses: readonly string[]): void {
    for (const address of addresses) this.put(address, { address }, Number.POSITIVE_INFINITY)
  }

  list(): readonly MasterLease[] {
    return [...this.#entries.values()].map((entry) => entry.lease)
  }

  get(key: string): MasterLease | undefined {
    return this.#entries.get(key)?.lease
  }

  /** If `ttlMs` is undefined, an existing entry keeps its remaining time, and a missing one is not created. */
  put(key: string, lease: MasterLease, ttlMs: number | undefined): void {
    const before = this.#entries.get(key)
    const expiresAtMs = ttlMs === undefined ? before?.expiresAtMs : this.#clock.monotonicMs() + ttlMs
    if (expiresAtMs === undefined) return
    this.#entries.set(key, { lease, expiresAtMs })
    this.#scheduleExpiry()
    if (before === undefined || textOf(before.lease) !== textOf(lease)) this.#notify()
  }

  delete(key: string): void {
    if (this.#entries.delete(key)) this.#notify()
  }

  /** Calls `onChange` when a lease appears or ends, or its record changes, until the returned function is called. */
  subscribe(onChange: () => void): () => void {
    this.#watchers.add(onChange)
    this.#scheduleExpiry()
    return () => {
      this.#watchers.delete(onChange)
      if (this.#watchers.size === 0) this.#cancelExpiry()
    }
  }

  /** Removes expired leases. Called before each read, so that expiry does not depend on a watch. */
  expire(): void {
    const nowMs = this.#clock.monotonicMs()
    const expired = [...this.#entries].filter(([, entry]) => entry.expiresAtMs <= nowMs)
    for (const [key] of expired) this.#entries.delete(key)
    if (expired.length > 0) this.#notify()
  }

  #notify(): void {
    for (const onChange of this.#watchers) onChange()
  }

  #scheduleExpiry(): void {
    this.#cancelExpiry()
    const nextMs = Math.min(...[...this.#entries.values()].map((entry) => entry.expiresAtMs))
    if (this.#watchers.size === 0 || !Number.isFinite(nextMs)) return
    this.#cancelExpiry = this.#clock.schedule(nextMs - this.#clock.monotonicMs(), () => {
      this.expire()
      this.#scheduleExpiry()
    })
  }
}

export class MemoryLeases implements MasterLeases {
  readonly #registry: MemoryLeaseRegistry
  readonly #ttlMs: number

  constructor(registry: MemoryLeaseRegistry, options: { readonly ttlMs: number }) {
    this.#registry = registry
    this.#ttlMs = options.ttlMs
  }

  async list(signal?: AbortSignal): Promise<readonly MasterLease[]> {
    this.#begin(signal)
    return this.#registry.list()
  }

  async update(holder: Holder, signal?: AbortSignal): Promise<void> {
    this.#write(holder, this.#ttlMs, signal)
  }

  async mark(holder: Holder, signal?: AbortSignal): Promise<void> {
    this.#write(holder, undefined, signal)
  }

  async remove(holder: Holder, signal?: AbortSignal): Promise<void> {
    this.#begin(signal)
    const key = masterKey(holder)
    if (this.#registry.get(key)?.holder?.instanceId === holder.instanceId) this.#registry.delete(key)
  }

  async watch(onChange: () => void, signal: AbortSignal): Promise<void> {
    const unsubscribe = this.#registry.subscribe(onChange)
    await aborted(signal)
    unsubscribe()
  }

  #write(holder: Holder, ttlMs: number | undefined, signal: AbortSignal | undefined): void {
    this.#begin(signal)
    const stored = this.#registry.get(masterKey(holder))?.holder
    if (yieldsTo(stored, holder) || (ttlMs === undefined && isOfAnotherLife(stored, holder))) return
    this.#registry.put(masterKey(holder), { address: addressOf(holder), holder }, ttlMs)
  }

  #begin(signal: AbortSignal | undefined): void {
    signal?.throwIfAborted()
    this.#registry.expire()
  }
}

/** The holder record as text; empty without a record. A renewal does not change the text. */
function textOf({ holder }: MasterLease): string {
  return holder === undefined ? '' : encodeHolder(holder)
}
