import * as z from 'zod/mini'
import type { RemoteError } from '../../runtime/errors.ts'
import { memoize } from '../../runtime/memo.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { withoutSecrets } from '../../telemetry/secrets.ts'
import { isListable } from '../identity.ts'

/**
 * The state of a master, which decides whether its address is listed.
 * - `ready`: its API server serves.
 * - `failing`: its API server does not serve; listed. With {@link Holder.departure} the master asks to leave, and
 *   becomes `unready` once another master has confirmed that departure.
 * - `unready`: its API server does not serve, and another master has confirmed the departure; listed only while no
 *   master is ready.
 * - `leaving`: it was stopped, and waits until another master confirms its departure; listed. A stopped master that was
 *   `unready` stays `unready`.
 * - `withdrawn`: the `withdraw` command has removed it, or it has removed itself when it stopped; never listed, and not
 *   to be announced again under this instance id.
 */
export type HolderState = (typeof HOLDER_STATES)[number]

export const HOLDER_STATES = ['ready', 'failing', 'unready', 'leaving', 'withdrawn'] as const

/** A {@link Holder.reason}: only the server's own etcd fails. */
export const OWN_ETCD = 'own-etcd'

/** The holder of a lease. Its fields distinguish masters behind one address, and the owners of a reused address. */
export interface Holder {
  /** Random for each start of the program. */
  readonly instanceId: string
  readonly host: string
  /**
   * The start of this life of the master, by its host's own clock: RFC 3339 with microseconds. A later life has a later
   * start.
   */
  readonly startedAt: string
  /** One or two, in canonical form; the first is listed in Endpoints. */
  readonly addresses: readonly string[]
  readonly ports: HolderPorts
  readonly state: HolderState
  /**
   * The id of the announced departure, with `failing` or `leaving`; with `unready` if the master was stopped; with
   * `withdrawn` if it removed itself. Each departure has its own id.
   */
  readonly departure?: string | undefined
  /** Why its API server does not serve, with `failing` and `unready`: {@link OWN_ETCD}, or the result of its probe. */
  readonly reason?: string | undefined
  /**
   * The ids of the departures of other masters that this master confirms: since their announcement this master's own
   * server has answered that it is ready.
   */
  readonly confirms?: readonly string[] | undefined
  /** Whether a kube-apiserver also renews the lease of this address. Only the store `etcd` detects and sets this. */
  readonly coHolder?: boolean | undefined
}

export function addressOf(holder: Holder): string {
  return holder.addresses[0] ?? ''
}

/** The ports that a master wants in `default/kubernetes`; while live masters differ, ports stay as found. */
export interface HolderPorts {
  readonly securePort: number
  /** The Service's node port, 0 for a ClusterIP Service. */
  readonly nodePort: number
}

/**
 * A live lease; in etcd also a record without a lease, of a master that is unready, leaving or withdrawn. A lease
 * without a holder belongs to another program, such as a kube-apiserver.
 */
export interface MasterLease {
  /** In canonical form. */
  readonly address: string
  readonly holder?: Holder | undefined
  /**
   * Changes with each renewal, and with nothing else: neither a mark nor another read changes it. A store may leave it
   * out, with two consequences: after a failure of its own renewals a master trusts no expiry for a whole recovery
   * time, and a removed lease cannot be distinguished from an expired one.
   */
  readonly renewal?: string | undefined
  /**
   * True for a lease that may have ended before this process first read the leases, or while its reads failed, in a
   * store that does not expire leases itself. Until the lease is renewed, its address stays in the list but is not
   * added, because a master that has watched for longer may have removed the address. If the list is otherwise empty,
   * the address is added all the same.
   */
  readonly found?: boolean | undefined
  /**
   * True for a {@link found} lease whose last renewal is at least a TTL away from now, by the wall clocks of its writer
   * and of this reader. Its master is dead, or the two clocks differ.
   */
  readonly lapsed?: boolean | undefined
  /**
   * True for a lease that was written without an expiry, for example by `etcdctl make-mirror`. Its address is listed,
   * because a kube-apiserver lists such a lease too. But nothing shows that its master lives, so no master leaves
   * because of it.
   */
  readonly neverEnds?: boolean | undefined
  /**
   * True for a lease with a suspected expiry. Its address stays in the list but is not added, and no master leaves
   * because of it. Set in membership/fleet.ts, never by a store.
   */
  readonly expirySuspected?: boolean | undefined
}

/**
 * The store in which masters announce that they are alive. An entry that is not renewed within its TTL is gone for all
 * readers at the same time, by the clock of the store. (Lease objects have no such clock, so there each reader uses its
 * own.) docs/guides/custom-lease-store.md has all rules.
 *
 * Every method except {@link watch} rejects when the store cannot be reached; a caller that cannot read the leases must
 * not write Endpoints. The error is a {@link RemoteError}, whose nature decides what the caller does, or one that the
 * method names. Any other error of an embedding program's store counts as `away` (see `reliableLeases`), and never ends
 * the process.
 *
 * Each call of `list`, `update`, `mark` and `remove` of an embedding program's store has a time limit: about a third of
 * TTL minus interval, and more after several timeouts. At the limit its signal is aborted, and the call must reject at
 * once with the signal's reason. The write may or may not have happened, and the next call must work in either case: it
 * recognizes its own writes, and does not reuse a connection that hung. A request may also reach the store late. Even
 * then the request must not change what a later write of the same master has stored, so each write names its
 * precondition (a revision, a sequence). No method waits before it tries, even if the store requests that.
 *
 * `masterLeasesContract` in `apiserver-bootstrap/testing` checks most of this. Upstream: `Leases` in
 * pkg/controlplane/reconcilers/lease.go.
 */
export interface MasterLeases {
  /**
   * All live leases, with every write that the store had answered before this call: from no cache and no replica, and
   * of all pages. Rejects if the list may be incomplete, because a missing lease may cost its master the address. An
   * address with several holders has several entries.
   *
   * With `sinceOwnLease` a store may answer with the leases of any moment since this master created its own. The caller
   * sets it while nobody is listed, so nobody can lose an address. A store of an embedding program is never asked for
   * this. @default false
   */
  list(signal: AbortSignal, sinceOwnLease?: boolean): Promise<readonly MasterLease[]>
  /**
   * Creates or renews this holder's lease for one TTL. Rejects with {@link LeaseWithdrawn} when another process has
   * withdrawn this instance. The lease of a later life of the same master stays unchanged.
   */
  update(holder: Holder, signal: AbortSignal): Promise<void>
  /**
   * Writes the holder record without changing when its lease ends. (In etcd, a record whose state has no lease also
   * ends the lease, and the next `ready` or `failing` record creates the lease again.) Does nothing without a stored
   * record, or if that belongs to another life of this master. Rejects with {@link LeaseWithdrawn} as {@link update}
   * does.
   */
  mark(holder: Holder, signal: AbortSignal): Promise<void>
  /** Removes this holder's lease, if there is one. A lease that another instance has taken over stays. */
  remove(holder: Holder, signal: AbortSignal): Promise<void>
  /**
   * Calls `onChange` soon after a lease has appeared or ended, or a field of a record has changed, but not for a
   * renewal. Resolves when the signal is aborted. If an embedding program's store ends a watch earlier or rejects,
   * `watch` is called again within eleven seconds.
   */
  watch(onChange: () => void, signal: AbortSignal): Promise<void>
}

/** Another process has withdrawn this instance; it must not renew its lease. */
export class LeaseWithdrawn extends Error {
  override readonly name = 'LeaseWithdrawn'
  readonly code = 'LeaseWithdrawn'
  constructor(address: string) {
    super(`the lease of ${address} was withdrawn`)
  }
}

/** How many announced departures of other masters a master follows at a time, and how many its record may confirm. */
export const MAX_DEPARTURES = 64

/** Whether a master's stored record belongs to another life of that master than `holder`. */
export function isOfAnotherLife(stored: Holder | undefined, { instanceId }: Holder): boolean {
  return stored !== undefined && stored.instanceId !== instanceId
}

/**
 * Whether the stored record belongs to a later life of the same master, so that `holder` must not renew the lease.
 * While the two lives overlap, the earlier one must neither take the lease back nor remove it.
 *
 * A store asks this in `update` and `mark`, before it writes `holder`. `stored` is the record of a lease that has not
 * ended; undefined if there is none, or none that can be read. A lease that has ended never hinders a master.
 *
 * @throws LeaseWithdrawn when the record is of `holder`'s own instance and withdrawn, but `holder` is not.
 */
export function yieldsTo(stored: Holder | undefined, holder: Holder): boolean {
  // A record of another master in this master's place is overwritten.
  if (stored === undefined || stored.host !== holder.host || addressOf(stored) !== addressOf(holder)) return false
  if (isOfAnotherLife(stored, holder)) return stored.startedAt > holder.startedAt
  if (stored.state === 'withdrawn' && holder.state !== 'withdrawn') throw new LeaseWithdrawn(addressOf(holder))
  return false
}

/** The longest reason, in characters. Reasons are for people. */
const MAX_REASON = 200
/** The longest host or instance id, in characters. A host name has at most 253. */
const MAX_NAME = 300
/**
 * A departure id: an instance id, which is a UUID, and a number. Masters copy the ids of others into their own records,
 * so ids are short and have no character that JSON escapes: forged ids must not make those records too long.
 */
const DEPARTURE_ID = /^[\w ./:-]{1,100}$/
/**
 * The longest text of a record, in characters; a longer one is not parsed, because anybody may have forged thousands.
 * No master writes 12,000: a host and an instance id of {@link MAX_NAME} and a reason of {@link MAX_REASON} characters,
 * each escaped to six, take 4,800, and {@link MAX_DEPARTURES} confirmations 6,600. The rest is for later versions. In
 * practice a record has 300 to 4,000.
 */
export const MAX_RECORD = 16 * 1024

/**
 * The text of a record, for a store: JSON with every field of {@link Holder}. Equal records have equal texts, and a
 * renewal does not change the text. A reason is shortened, and its secrets are redacted.
 */
export function encodeHolder(holder: Holder): string {
  const { instanceId, host, startedAt, addresses, ports, state, departure, reason, confirms = [], coHolder } = holder
  return JSON.stringify({
    instanceId,
    host,
    startedAt,
    addresses,
    ports,
    state,
    departure,
    reason: reason && withoutSecrets(reason).slice(0, MAX_REASON),
    confirms: confirms.length === 0 ? undefined : confirms,
    coHolder,
  } satisfies { [Field in keyof Required<Holder>]: unknown })
}

/**
 * Parses the text of {@link encodeHolder}; undefined if it is not a valid record. Never throws. An address that cannot
 * be listed, such as a loopback address from a broken master, is invalid too: one bad record must not spoil the list
 * for all clients. A record of a later version stays valid: an unknown state counts as `failing`, and an optional field
 * that is not valid is left out. Callers share the result and must not change it.
 */
export function decodeHolder(text: string | undefined): Holder | undefined {
  return text === undefined || text.length > MAX_RECORD ? undefined : decode(text).holder
}

/**
 * Cached, because each read of the leases decodes the records of all masters, and a renewal does not change a record.
 */
const decode = memoize((text) => ({ holder: holderIn(text) }), 64)

const name = z.string().check(
  z.maxLength(MAX_NAME),
  z.refine((text) => text.isWellFormed()),
)

const departureId = z.string().check(z.regex(DEPARTURE_ID))

/** An array of at most `most` items. A longer one is refused without a check of each item. */
function arrayOf<T extends z.ZodMiniType>(item: T, most: number) {
  const isShort = (value: unknown): boolean => Array.isArray(value) && value.length <= most
  return z.pipe(z.custom<z.input<T>[]>(isShort), z.array(item))
}

/** Whether a text is a valid start: a time before the year 9999, so that a later life can state a later start. */
export function isStart(text: string): boolean {
  return tryParseTime(text) !== undefined && text < '9999'
}

/**
 * A later version may write states, or values of optional fields, that this version does not understand. They must not
 * cost a master its address: an unknown state counts as `failing`, which is listed and confirms nothing, and an
 * optional field that is not valid is left out.
 */
const schema = z.object({
  instanceId: name,
  host: name,
  startedAt: z.string().check(z.refine(isStart)),
  addresses: arrayOf(z.string().check(z.refine(isListable)), 2).check(z.minLength(1)),
  ports: z.object({ securePort: z.number(), nodePort: z.number() }),
  state: z.catch(z.enum(HOLDER_STATES), 'failing'),
  departure: z.catch(z.optional(departureId), undefined),
  reason: z.catch(
    z.optional(
      z.pipe(
        z.string(),
        z.transform((text) => withoutSecrets(text).slice(0, MAX_REASON)),
      ),
    ),
    undefined,
  ),
  confirms: z.catch(z.optional(arrayOf(departureId, MAX_DEPARTURES)), undefined),
  coHolder: z.catch(z.optional(z.boolean()), undefined),
}) satisfies z.ZodMiniType<Holder>

function holderIn(text: string): Holder | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
