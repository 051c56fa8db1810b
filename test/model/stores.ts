import { keepsLease } from '../../src/kubernetes-service/leases/etcd-snapshot.ts'
import {
  type Holder,
  LeaseWithdrawn,
  type MasterLease,
  yieldsTo,
} from '../../src/kubernetes-service/leases/master-leases.ts'
import { TICK_MS } from './machine.ts'
import { bare } from './process.ts'
import { mentionsOf } from './processes.ts'

/** A holder record, and how long it and its lease last unless they are renewed. */
interface StoredRecord {
  readonly holder: Holder
  readonly leftMs: number
}

export interface StoreFacts {
  /** By master. */
  readonly records: readonly (StoredRecord | undefined)[]
  /** Equal for stores that a read does not tell apart. */
  readonly view: number
  readonly mentions: number
}

export type LeaseOutcome = 'done' | 'withdrawn' | 'not-found'

/** What the store of the leases holds. It ends leases by its own clock, as etcd does. */
export class Stores {
  readonly #ttlMs: number
  readonly #ids = new Map<string, number>()
  readonly #facts: StoreFacts[] = []
  readonly #views = new Map<string, number>()
  readonly #ages: number[] = []
  readonly #onView: (view: number, leases: readonly MasterLease[]) => void

  constructor(ttlMs: number, onView: (view: number, leases: readonly MasterLease[]) => void) {
    this.#ttlMs = ttlMs
    this.#onView = onView
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
    const leases = records.flatMap((record): MasterLease[] =>
      record === undefined ? [] : [{ address: record.holder.addresses[0] as string, holder: record.holder }],
    )
    const viewKey = JSON.stringify(leases)
    let view = this.#views.get(viewKey)
    if (view === undefined) {
      view = this.#views.size
      this.#views.set(viewKey, view)
      this.#onView(view, leases)
    }
    const id = this.#facts.length
    this.#facts.push({ records, view, mentions: mentionsOf(key) })
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

  /** Carries out one request, as the memory and etcd stores do. */
  write(
    id: number,
    master: number,
    type: 'renew' | 'mark' | 'remove',
    holder: Holder,
  ): { readonly store: number; readonly outcome: LeaseOutcome } {
    const { records } = this.facts(id)
    const stored = bare(holder)
    const before = records[master]
    const withRecord = (record: StoredRecord | undefined): number =>
      this.intern(records.map((one, index) => (index === master ? record : one)))
    if (type === 'remove') {
      if (before === undefined) return { store: id, outcome: 'not-found' }
      const isOwn = before.holder.instanceId === holder.instanceId
      return { store: isOwn ? withRecord(undefined) : id, outcome: 'done' }
    }
    try {
      if (yieldsTo(before?.holder, holder)) return { store: id, outcome: 'done' }
    } catch (error) {
      if (error instanceof LeaseWithdrawn) return { store: id, outcome: 'withdrawn' }
      throw error
    }
    if (type === 'renew') return { store: withRecord({ holder: stored, leftMs: this.#ttlMs }), outcome: 'done' }
    if (before === undefined) return { store: id, outcome: 'done' }
    // In etcd an unready master has no lease: it makes one anew.
    const isBack = !keepsLease(before.holder.state) && (holder.state === 'ready' || holder.state === 'failing')
    return { store: withRecord({ holder: stored, leftMs: isBack ? this.#ttlMs : before.leftMs }), outcome: 'done' }
  }

  /** Somebody outside marks the record as withdrawn. */
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
