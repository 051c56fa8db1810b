import type { Service } from '../../src/kube/resources.ts'
import type { ApiRequest } from '../../src/kube/transport.ts'
import type { ItemRange } from './repair-composition.ts'

/** A stored Service, and what it holds: addresses and ports as text. */
export interface Holder {
  readonly key: string
  readonly uid: string
  readonly type: string
  readonly items: ReadonlySet<string>
  readonly object: Service
}

/** A stored IPAddress. */
export interface Noted {
  readonly ip: string
  readonly uid: string
  /** `namespace/name` of the Service that it names; undefined if it names something else. */
  readonly parent: string | undefined
  readonly managed: boolean
  /** Whether its labels are those of the allocator. */
  readonly labelled: boolean
  readonly by: string
  readonly atMs: number
}

/** What a running request has allocated. An item counts from the moment at which it is recorded in the store. */
export interface Making {
  readonly key: string
  readonly sinceMs: number
  readonly items: Set<string>
  /** The uids of the IPAddresses that the request created. */
  readonly uids: Set<string>
}

/** Receives every change when it is made, before the ledger records it. */
export interface LedgerReader {
  addressMade(noted: Noted): void
  addressChanged(noted: Noted, by: string): void
  addressGone(noted: Noted, by: string): void
  rangeWritten(change: RangeWrite): void
  serviceStored(before: Holder | undefined, after: Holder | undefined): void
  refused(by: string, request: ApiRequest, status: number): void
  overtaken(by: string): void
}

export interface RangeWrite {
  readonly by: string
  readonly range: ItemRange
  readonly set: readonly string[]
  readonly cleared: readonly string[]
  /** When the writer read what it replaced. */
  readonly readAtMs: number
}

/** Ignores all changes. */
export const nobody: LedgerReader = {
  addressMade() {},
  addressChanged() {},
  addressGone() {},
  rangeWritten() {},
  serviceStored() {},
  refused() {},
  overtaken() {},
}
