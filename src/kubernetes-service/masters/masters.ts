import { LeaseObserver } from '../../kube/lease-observer.ts'
import { compareTexts } from '../../runtime/compare-texts.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { hasLease } from '../leases/etcd/snapshot.ts'
import type { Holder } from '../leases/master-leases.ts'
import type { InspectedLease, LeaseLife, OddValue } from './inspection.ts'

/** A fact that an operator should know, such as a conflict. The codes are stable; docs/masters.md explains them. */
interface MasterConflict {
  readonly code:
    | 'shared-address'
    | 'no-holder'
    | 'no-lease'
    | 'never-ends'
    | 'not-renewed'
    | `${OddValue['type']}-value`
    | 'listed-without-lease'
    | 'not-listed'
  readonly message: string
}

/** One master as the leases and Endpoints show it; unknown values are undefined. */
export interface MasterRow {
  readonly address: string | undefined
  readonly holder?: Holder | undefined
  /** How long ago the holder started, by its host's clock and this machine's. */
  readonly ageMs?: number | undefined
  /** How the lease ends; without a lease, how the holder record ends. */
  readonly life?: LeaseLife | undefined
  readonly verdict?: Verdict | undefined
  readonly leased: boolean
  readonly listed: boolean | undefined
  readonly conflicts: readonly MasterConflict[]
  readonly id?: string | undefined
  readonly revision?: string | undefined
}

interface MastersObservation {
  readonly leases: readonly InspectedLease[]
  readonly verdict: (lease: InspectedLease) => Verdict
  /** The addresses in Endpoints `default/kubernetes`; undefined when they could not be read. */
  readonly listed: readonly string[] | undefined
  /** Wall time, in milliseconds. */
  readonly nowMs: number
}

/**
 * One row per holder of each lease, per lease without a holder, and per listed address without a lease, sorted by
 * address and host. Pure.
 */
export function mastersRows(observed: MastersObservation): readonly MasterRow[] {
  const { leases, listed } = observed
  const context = {
    ...observed,
    listed: listed === undefined ? undefined : new Set(listed),
    sharers: sharersOf(leases),
  }
  const rows = leases.flatMap((lease) => rowsOf(lease, context))
  const known = new Set(rows.map(({ address }) => address))
  const unleased = [...new Set(listed)].filter((address) => !known.has(address)).map(unleasedRow)
  return [...rows, ...unleased].sort(byAddressAndHost)
}

interface RowContext extends Pick<MastersObservation, 'verdict' | 'nowMs'> {
  readonly listed: ReadonlySet<string> | undefined
  readonly sharers: ReadonlyMap<string, string>
}

function rowsOf(lease: InspectedLease, observed: RowContext): readonly MasterRow[] {
  const { address, life, leased, id, revision } = lease
  const verdict = observed.verdict(lease)
  const listed = address === undefined ? undefined : observed.listed?.has(address)
  const holders = lease.holders.length === 0 ? [undefined] : lease.holders
  const sharers = observed.sharers.get(address ?? '')
  return holders.map((holder) => {
    const startedMs = tryParseTime(holder?.startedAt ?? '')
    const ageMs = startedMs === undefined ? undefined : Math.max(0, observed.nowMs - startedMs)
    const conflicts: MasterConflict[] = []
    const noteIf = (isSo: boolean, code: MasterConflict['code'], message: string): void => {
      if (isSo) conflicts.push({ code, message })
    }
    noteIf(sharers !== undefined && holder !== undefined, 'shared-address', `shared by ${sharers}`)
    noteIf(holder === undefined, 'no-holder', 'no holder record')
    noteIf(!leased && holder !== undefined && hasLease(holder.state), 'no-lease', 'no lease')
    noteIf(life.type === 'never', 'never-ends', 'this lease never expires')
    noteIf(life.type === 'renewed' && verdict === 'stale', 'not-renewed', 'the lease is not renewed')
    for (const { type, reason } of lease.odd) conflicts.push({ code: `${type}-value`, message: reason })
    const isMissing = listed === false && leased && verdict === 'live' && (holder?.state ?? 'ready') === 'ready'
    noteIf(isMissing, 'not-listed', 'live and ready, but not listed')
    return { address, holder, ageMs, life, verdict, leased, listed, id, revision, conflicts }
  })
}

function unleasedRow(address: string): MasterRow {
  const conflict = { code: 'listed-without-lease', message: 'listed, but without a lease' } as const
  return { address, leased: false, listed: true, conflicts: [conflict] }
}

/**
 * The hosts that share an address, as one text for each address. Ten thousand leases may share one: to compute the text
 * for each lease would take seconds, and ten thousand copies of it would fill the memory.
 */
function sharersOf(leases: readonly InspectedLease[]): ReadonlyMap<string, string> {
  const hosts = new Map<string, Set<string>>()
  for (const { address, holders } of leases) {
    if (address === undefined) continue
    const known = hosts.get(address) ?? new Set()
    for (const { host } of holders) known.add(host)
    hosts.set(address, known)
  }
  const shared = [...hosts].filter(([, names]) => names.size > 1)
  return new Map(shared.map(([address, names]) => [address, someOf([...names].sort())]))
}

const MAX_NAMED = 10

function someOf(hosts: readonly string[]): string {
  const named = hosts.slice(0, MAX_NAMED).join(', ')
  return hosts.length > MAX_NAMED ? `${named} and ${hosts.length - MAX_NAMED} more` : named
}

function byAddressAndHost(a: MasterRow, b: MasterRow): number {
  return compareTexts(a.address ?? '~', b.address ?? '~') || compareTexts(a.holder?.host ?? '', b.holder?.host ?? '')
}

/** Whether a lease is renewed; `unknown` if it was not watched for long enough to decide. */
export type Verdict = 'live' | 'stale' | 'unknown'

/**
 * Distinguishes renewed leases from abandoned ones, over any number of reads; no I/O and no clock. A lease that the
 * store ends is live, one that nothing ends is stale. Any other lease is live if it was renewed during the watch, and
 * stale if it was not renewed for its whole TTL, see {@link LeaseObserver}.
 */
export class LeaseWatch {
  readonly #observer: LeaseObserver
  #first = new Map<string, string>()

  /** `maxGapMs`: as for {@link LeaseObserver}. */
  constructor(options: { readonly maxGapMs: number }) {
    this.#observer = new LeaseObserver(options)
  }

  read(leases: readonly InspectedLease[], nowMs: number): void {
    this.#observer.readAll(
      leases.map((lease) => ({ key: lease.id, renewal: lease.revision, ttlMs: ttlOf(lease) })),
      nowMs,
    )
    this.#first = new Map(leases.map(({ id, revision }) => [id, this.#first.get(id) ?? revision]))
  }

  /** Records that a read failed: the time until the next one does not count. */
  interrupted(): void {
    this.#observer.interrupted()
  }

  /** The verdict on a lease, which must be of the last read. */
  verdict(lease: InspectedLease): Verdict {
    switch (lease.life.type) {
      case 'ends':
        return 'live'
      case 'never':
        return 'stale'
      case 'renewed':
        if (this.#observer.isOver(lease.id)) return 'stale'
        return this.#first.get(lease.id) === lease.revision ? 'unknown' : 'live'
    }
  }
}

function ttlOf({ life }: InspectedLease): number {
  switch (life.type) {
    case 'ends':
      return life.leftMs
    case 'never':
      return 0
    case 'renewed':
      return life.ttlMs
  }
}

/** The answer to a request to evict an address. */
export type EvictionPlan =
  /** No lease has this address. */
  | { readonly type: 'absent' }
  /** Watch the leases for this long, in milliseconds, then plan again. */
  | { readonly type: 'watch'; readonly forMs: number }
  /** No other address is listed or live. */
  | { readonly type: 'refuse'; readonly because: 'last' }
  /** All leases of the address are live. */
  | { readonly type: 'refuse'; readonly because: 'live'; readonly leases: readonly InspectedLease[] }
  | { readonly type: 'evict'; readonly leases: readonly InspectedLease[] }

/**
 * Decides whether the leases of `address` may be removed: only the stale ones, with `force` all. Another address must
 * be listed, or a remaining lease be live, even with `force`: clients would otherwise have no API server. Pure.
 */
export function planEviction(options: {
  readonly address: string
  readonly leases: readonly InspectedLease[]
  readonly verdict: (lease: InspectedLease) => Verdict
  /** The addresses in Endpoints; undefined when they could not be read. */
  readonly listed: readonly string[] | undefined
  readonly force: boolean
}): EvictionPlan {
  const { address, leases, verdict, listed = [], force } = options
  const own = leases.filter((lease) => lease.address === address)
  if (own.length === 0) return { type: 'absent' }
  const undecided = own.filter((lease) => verdict(lease) === 'unknown')
  if (!force && undecided.length > 0) return watch(undecided)
  const stale = own.filter((lease) => verdict(lease) === 'stale')
  if (!force && stale.length === 0) return { type: 'refuse', because: 'live', leases: own }

  const going = force ? own : stale
  const staying = leases.filter((lease) => !going.includes(lease) && lease.leased)
  const safe = listed.some((other) => other !== address) || staying.some((lease) => verdict(lease) === 'live')
  if (safe) return { type: 'evict', leases: going }
  const hopeful = staying.filter((lease) => verdict(lease) === 'unknown')
  return hopeful.length > 0 ? watch(hopeful) : { type: 'refuse', because: 'last' }
}

function watch(leases: readonly InspectedLease[]): EvictionPlan {
  return { type: 'watch', forMs: Math.max(...leases.map(ttlOf)) }
}
