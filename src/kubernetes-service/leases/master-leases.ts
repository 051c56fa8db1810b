import type { RemoteError } from '../../runtime/remote-error.ts'

/**
 * Whether a master wants to be listed.
 * - `ready`: its API server serves.
 * - `failing`: its API server does not; listed. With {@link Holder.departure} it goes once another master has confirmed that it serves.
 * - `unready`: it lives, its API server does not serve, and another's did; listed only while no master is ready.
 * - `leaving`: it was told to stop, and goes once another master has confirmed that it serves; as `unready`.
 * - `withdrawn`: it was told to go by somebody else (the `withdraw` command); never listed, and not to be announced again under
 *   this instance id.
 */
export type HolderState = 'ready' | 'failing' | 'unready' | 'leaving' | 'withdrawn'

/** A {@link Holder.reason}: nothing but the server's own etcd fails. */
export const OWN_ETCD = 'own-etcd'

/** Who holds a lease: what tells two masters behind one address apart, and a reused address from its old holder. */
export interface Holder {
  /** Random for each start of the program. */
  readonly instanceId: string
  readonly host: string
  /** RFC 3339 with microseconds: tells the lives of one master apart, by its host's own clock. */
  readonly startedAt: string
  /** In canonical form; the first is the one that is listed in Endpoints. */
  readonly addresses: readonly string[]
  readonly ports: HolderPorts
  readonly state: HolderState
  /** Identifies the departure that this master has announced, by `failing` or `leaving`; each has its own. */
  readonly departure?: string | undefined
  /** Why its API server does not serve, with `failing` and `unready`: {@link OWN_ETCD}, or what its probe found. */
  readonly reason?: string | undefined
  /** The departures of others that this master has read of, and since when its own server has answered that it is ready. */
  readonly confirms?: readonly string[] | undefined
}

/** The address of a master that Endpoints list. */
export function addressOf(holder: Holder): string {
  return holder.addresses[0] ?? ''
}

/** The ports that a master wants in `default/kubernetes`; while live masters differ, ports are kept as they are found. */
export interface HolderPorts {
  /** Where the API server listens. */
  readonly securePort: number
  /** The Service's node port, 0 for a ClusterIP Service. */
  readonly nodePort: number
}

/** A live lease. One without a holder was written by somebody else, such as a kube-apiserver. */
export interface MasterLease {
  /** In canonical form. */
  readonly address: string
  readonly holder?: Holder | undefined
  /**
   * Changes with each renewal. A store that leaves it out works as well, but for two things: after a failure of its own renewals a
   * master believes the end of no lease for a whole recovery time, and nobody tells a lease that was removed from one that has ended.
   */
  readonly renewal?: string | undefined
  /**
   * True of a lease that may have ended before this reader came, in a store that ends none itself. Its address keeps its place in the
   * list and gets none until it is renewed, unless the list has nobody else; somebody who has watched for longer may have taken it out.
   */
  readonly found?: boolean | undefined
  /**
   * True of a lease that has ended, perhaps only because nobody could renew. Set by the reader, never by a store: see
   * `fleetAfterRead`. Its address keeps its place in the list and gets none, and nobody leaves on its account.
   */
  readonly doubtful?: boolean | undefined
}

/**
 * Where masters announce that they are alive. An entry that is not renewed within its TTL is gone for everybody.
 *
 * Every method rejects when the store cannot be reached; a caller that cannot read the leases must not write Endpoints.
 * It rejects with a {@link RemoteError}, whose nature says what the caller does about it, or with what the method names. Anything else that a
 * store throws counts as `away` (see `reliableLeases`), and never ends the process.
 *
 * Each attempt has a time limit: when its signal is aborted, the method rejects at once with the signal's reason. The attempt may have been
 * done or not, and the next one must find its way in either case: what it finds of its own is nobody else's, and a connection that hung is
 * not used again. It may also reach the store late: it must then change nothing that a later write of the same master has left, so each write
 * names what it rests on (a revision, a sequence). No method waits before it tries, whatever the store asks for.
 *
 * `masterLeasesContract` in `apiserver-bootstrap/testing` holds a store to all of this.
 * Upstream: `Leases` in pkg/controlplane/reconcilers/lease.go.
 */
export interface MasterLeases {
  /** All live leases, read from the store itself. An address with several holders has several entries. */
  list(signal: AbortSignal): Promise<readonly MasterLease[]>
  /**
   * Creates or renews this holder's lease for one TTL. Rejects with {@link LeaseWithdrawn} when somebody has withdrawn this
   * instance: it then must not announce itself again. A later life of the same master keeps what it has.
   */
  update(holder: Holder, signal: AbortSignal): Promise<void>
  /**
   * Writes the holder record beside its lease without making the lease last longer. Does nothing where there is no lease, or that of
   * another life of this master, whichever began later; rejects with {@link LeaseWithdrawn} as {@link update} does.
   */
  mark(holder: Holder, signal: AbortSignal): Promise<void>
  /**
   * Removes this holder's lease, and no other's: one that another instance has taken over stays.
   * Rejects with {@link LeaseNotFound} when there is none.
   */
  remove(holder: Holder, signal: AbortSignal): Promise<void>
  /** Calls `look` whenever the set of live leases may have changed, expiry included, until the signal is aborted. */
  watch(look: () => void, signal: AbortSignal): Promise<void>
}

/** There was no lease to remove. */
export class LeaseNotFound extends Error {
  override readonly name = 'LeaseNotFound'
  readonly code = 'LeaseNotFound'
  constructor(address: string) {
    super(`no lease of ${address}`)
  }
}

/** This instance was told to leave by somebody else; it must not renew its lease. */
export class LeaseWithdrawn extends Error {
  override readonly name = 'LeaseWithdrawn'
  readonly code = 'LeaseWithdrawn'
  constructor(address: string) {
    super(`the lease of ${address} was withdrawn`)
  }
}

/** Departures that a master follows at a time, and that its record may confirm. */
export const MAX_DEPARTURES = 64

/** Whether this master's stored record is of another life of it than `holder`. */
export function isOfAnotherLife(stored: Holder | undefined, { instanceId }: Holder): boolean {
  return stored !== undefined && stored.instanceId !== instanceId
}

/**
 * Whether `holder` must not renew this master's stored lease: it is of the same master, started again after `holder`. While
 * both lives overlap, the earlier one must neither take the lease back nor remove it.
 *
 * Throws {@link LeaseWithdrawn} when the record is of `holder`'s own instance and says that it was withdrawn.
 */
export function yieldsTo(stored: Holder | undefined, holder: Holder): boolean {
  // What somebody else has put in this master's place is overwritten.
  if (stored === undefined || stored.host !== holder.host || addressOf(stored) !== addressOf(holder)) return false
  if (isOfAnotherLife(stored, holder)) return stored.startedAt > holder.startedAt
  if (stored.state === 'withdrawn' && holder.state !== 'withdrawn') throw new LeaseWithdrawn(addressOf(holder))
  return false
}
