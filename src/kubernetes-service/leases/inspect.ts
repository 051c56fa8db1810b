import type { ObjectReference } from '../../kube/event-object.ts'
import type { Holder } from './master-leases.ts'

/**
 * How a lease, or a holder record without one, comes to its end.
 * - `ends`: the store ends it; until then its master counts as alive.
 * - `never`: nothing ends it, whether or not its master lives.
 * - `renewed`: only who watches it for a whole TTL knows whether it is still renewed. `leftMs`, where there is one, is what the
 *   times in it say by this machine's clock.
 */
export type LeaseLife =
  | { readonly type: 'ends'; readonly leftMs: number }
  | { readonly type: 'never' }
  | { readonly type: 'renewed'; readonly ttlMs: number; readonly leftMs: number | undefined }

/** What was found in place of what masters write. `reason` is a few words. */
export interface OddValue {
  /** `json`: counts by its key. `misplaced`: names another address than its key. `unlistable`: an address that no client could use. */
  readonly type: 'json' | 'unreadable' | 'misplaced' | 'unlistable'
  readonly reason: string
}

/** One lease as a read found it, or a holder record without one: in etcd that of a master that is unready or was withdrawn. */
export interface LeaseSighting {
  /** Where it is in the store: a key, or `Lease kube-system/NAME`. */
  readonly id: string
  /** The object that it is, where leases are objects. */
  readonly object?: ObjectReference
  /** Changes with each write. */
  readonly revision: string
  /** In canonical form, where what is stored names one. */
  readonly address: string | undefined
  /** Whoever says that the lease is theirs. None: a kube-apiserver's, or not ours. Sorted by host. */
  readonly holders: readonly Holder[]
  readonly life: LeaseLife
  /** Whether there is a lease; else there is only a holder record. */
  readonly leased: boolean
  readonly odd: readonly OddValue[]
}

/**
 * Shows the leases of a store as they are, broken ones included, and removes one: for operators. Masters use {@link MasterLeases}.
 *
 * Both methods reject when the store cannot be reached.
 */
export interface LeaseInspector {
  /** Everything that is there, read from the store itself. */
  inspect(signal: AbortSignal): Promise<readonly LeaseSighting[]>
  /** Removes the lease with its holder records, if nothing of it was written since it was seen. Whether it was removed. */
  evict(sighting: LeaseSighting, signal: AbortSignal): Promise<boolean>
}
