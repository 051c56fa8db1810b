import { hasLease } from '../../src/kubernetes-service/leases/etcd/snapshot.ts'
import {
  type Holder,
  type HolderState,
  isOfAnotherLife,
  LeaseWithdrawn,
  type MasterLease,
  yieldsTo,
} from '../../src/kubernetes-service/leases/master-leases.ts'
import { countedAnew, livesIn, withLives } from './lives.ts'
import { TICK_MS } from './machine.ts'
import { bare } from './process.ts'
import { mentionsOf } from './processes.ts'

/** A holder record, and how long it and its lease last without a renewal. */
interface StoredRecord {
  readonly holder: Holder
  readonly leftMs: number
}

export interface StoreFacts {
  /** By master. */
  readonly records: readonly (StoredRecord | undefined)[]
  /** Equal for stores that a read cannot distinguish. */
  readonly view: number
  /** Bits of the masters that have a record. */
  readonly present: number
  /** Bits of the lives that the records mention. */
  readonly lives: number
  readonly mentions: number
}

export interface StoreOptions {
  /** Infinite if the store expires no leases. */
  readonly ttlMs: number
  /** The renewal that a read shows of a lease in this state, if any. */
  readonly renewalOf: (state: HolderState) => string | undefined
  /** The number of what a read shows. */
  readonly viewOf: (leases: readonly MasterLease[]) => number
}

export type LeaseOutcome = 'done' | 'withdrawn'

/** The contents of the lease store. It expires leases by its own clock, as etcd does, unless their TTL is infinite. */
export class Stores {
  readonly #options: StoreOptions
  readonly #ids = new Map<string, number>()
  readonly #facts: StoreFacts[] = []
  readonly #ages: number[] = []

  constructor(options: StoreOptions) {
    this.#options = options
  }

  facts(id: number): StoreFacts {
    return this.#facts[id] as StoreFacts
  }

  record(id: number, master: number): Holder | undefined {
    return this.facts(id).records[master]?.holder
  }

  intern(records: readonly (StoredRecord | undefined)[]): number {
    const key = JSON.stringify(records)
    const known = this.#ids.get(key)
    if (known !== undefined) return known
    const { renewalOf, viewOf } = this.#options
    const leases = records.flatMap((record): MasterLease[] => {
      if (record === undefined) return []
      const { holder } = record
      const renewal = renewalOf(holder.state)
      return [{ address: holder.addresses[0] as string, holder, ...(renewal !== undefined && { renewal }) }]
    })
    const present = records.reduce((bits, record, master) => (record === undefined ? bits : bits | (1 << master)), 0)
    const id = this.#facts.length
    this.#facts.push({ records, view: viewOf(leases), present, lives: livesIn(records), mentions: mentionsOf(key) })
    this.#ids.set(key, id)
    return id
  }

  /** One tick later. */
  aged(id: number): number {
    const known = this.#ages[id]
    if (known !== undefined) return known
    const after = this.intern(
      this.facts(id).records.map((record) => {
        if (record === undefined || record.leftMs <= TICK_MS) return undefined
        return { ...record, leftMs: record.leftMs - TICK_MS }
      }),
    )
    this.#ages[id] = after
    return after
  }

  /** Executes one request as the memory and etcd stores do. */
  write(
    id: number,
    master: number,
    type: 'renew' | 'mark' | 'remove',
    holder: Holder,
  ): { readonly store: number; readonly outcome: LeaseOutcome; readonly isRenewed?: boolean } {
    const { records } = this.facts(id)
    const stored = bare(holder)
    const before = records[master]
    const withRecord = (record: StoredRecord | undefined): number =>
      this.intern(records.map((one, index) => (index === master ? record : one)))
    if (type === 'remove') {
      const isOwn = before?.holder.instanceId === holder.instanceId
      return { store: isOwn ? withRecord(undefined) : id, outcome: 'done' }
    }
    try {
      if (type === 'mark' && isOfAnotherLife(before?.holder, holder)) return { store: id, outcome: 'done' }
      if (yieldsTo(before?.holder, holder)) return { store: id, outcome: 'done' }
    } catch (error) {
      if (error instanceof LeaseWithdrawn) return { store: id, outcome: 'withdrawn' }
      throw error
    }
    const { ttlMs } = this.#options
    if (type === 'renew')
      return { store: withRecord({ holder: stored, leftMs: ttlMs }), outcome: 'done', isRenewed: true }
    if (before === undefined) return { store: id, outcome: 'done' }
    // In etcd an unready master has no lease, so it creates one when it is ready or failing again.
    const isBack = !hasLease(before.holder.state) && (holder.state === 'ready' || holder.state === 'failing')
    return {
      store: withRecord({ holder: stored, leftMs: isBack ? ttlMs : before.leftMs }),
      outcome: 'done',
      isRenewed: isBack,
    }
  }

  /** Renumbers the lives of a master; see {@link countedAnew}. */
  recounted(id: number, master: number, lives: number): number {
    return this.intern(
      withLives(this.facts(id).records, 'abc'[master] as string, countedAnew(lives) as readonly number[]),
    )
  }

  /** Deletes the leases of these masters. */
  without(id: number, masters: number): number {
    return this.intern(this.facts(id).records.map((one, master) => (masters & (1 << master) ? undefined : one)))
  }

  /** Marks the record as withdrawn, as another client does. */
  withdrawn(id: number, master: number): number {
    return this.intern(
      this.facts(id).records.map((record, index) =>
        record === undefined || index !== master
          ? record
          : { ...record, holder: { ...bareHolder(record.holder), state: 'withdrawn' as const } },
      ),
    )
  }
}

function bareHolder({ departure: _departure, confirms: _confirms, ...holder }: Holder): Holder {
  return holder
}
