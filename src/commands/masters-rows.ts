import { keepsLease } from '../kubernetes-service/leases/etcd-snapshot.ts'
import type { LeaseLife, LeaseSighting } from '../kubernetes-service/leases/inspect.ts'
import type { Verdict } from '../kubernetes-service/leases/lease-watch.ts'
import type { Holder } from '../kubernetes-service/leases/master-leases.ts'
import { tryParseTime } from '../runtime/time-format.ts'

/** Something that is not as it should be, or that an operator should know. The codes are stable. */
export interface MasterConflict {
  readonly code: /** Several hosts hold one address: masters behind a virtual address, or one that was given twice. */
    | 'shared-address'
    /** Nobody's record says whose lease it is: a kube-apiserver's, or not ours. */
    | 'no-holder'
    /** A holder record without a lease, of a master that should have one. */
    | 'no-lease'
    /** Nothing ends the lease, whether or not its master lives. */
    | 'never-ends'
    /** It was watched for its whole TTL, and nobody renewed it. */
    | 'not-renewed'
    /** The value is JSON: of an old cluster, or put by hand. It counts by its key. */
    | 'json-value'
    /** The value cannot be read. It counts by its key. */
    | 'unreadable-value'
    /** The value names another address than its place. */
    | 'misplaced-value'
    /** No address that could be listed. */
    | 'unlistable-value'
    /** Endpoints list an address that nobody holds. */
    | 'listed-without-lease'
    /** The lease lives and its master is ready, but Endpoints do not list it. */
    | 'not-listed'
  /** A few words for a person. */
  readonly message: string
}

/** One master as the leases and Endpoints show it; undefined is what nobody says. */
export interface MasterRow {
  readonly address: string | undefined
  readonly holder: Holder | undefined
  /** How long ago the holder started, by its host's clock and this machine's. */
  readonly ageMs: number | undefined
  /** Of the lease, else of the holder record. */
  readonly life: LeaseLife | undefined
  readonly verdict: Verdict | undefined
  readonly leased: boolean
  readonly listed: boolean | undefined
  readonly conflicts: readonly MasterConflict[]
  /** Of its lease in the store. */
  readonly id: string | undefined
  readonly revision: string | undefined
}

/** What rows are made of. */
export interface MastersObservation {
  readonly sightings: readonly LeaseSighting[]
  readonly verdict: (sighting: LeaseSighting) => Verdict
  /** What Endpoints `default/kubernetes` list; undefined when they could not be read. */
  readonly listed: readonly string[] | undefined
  /** Wall time. */
  readonly nowMs: number
}

/** One row for each holder of each lease, and for each listed address without a lease, by address and host. Pure. */
export function mastersRows(observed: MastersObservation): readonly MasterRow[] {
  const { sightings, listed } = observed
  const rows = sightings.flatMap((sighting) => rowsOf(sighting, observed))
  const known = new Set(rows.map(({ address }) => address))
  const strays = [...new Set(listed)].filter((address) => !known.has(address)).map(strayRow)
  return [...rows, ...strays].sort(byAddressAndHost)
}

function rowsOf(sighting: LeaseSighting, observed: MastersObservation): readonly MasterRow[] {
  const { address, life, leased, id, revision } = sighting
  const verdict = observed.verdict(sighting)
  const listed = address === undefined || observed.listed === undefined ? undefined : observed.listed.includes(address)
  const holders = sighting.holders.length === 0 ? [undefined] : sighting.holders
  const hosts = hostsOf(address, observed.sightings)
  return holders.map((holder) => {
    const startedMs = tryParseTime(holder?.startedAt ?? '')
    const conflicts: MasterConflict[] = []
    const noteIf = (isSo: boolean, code: MasterConflict['code'], message: string): void => {
      if (isSo) conflicts.push({ code, message })
    }
    noteIf(hosts.length > 1 && holder !== undefined, 'shared-address', `shared by ${hosts.join(', ')}`)
    noteIf(holder === undefined, 'no-holder', 'no holder record')
    noteIf(!leased && holder !== undefined && keepsLease(holder.state), 'no-lease', 'no lease')
    noteIf(life.type === 'never', 'never-ends', 'nothing ends this lease')
    noteIf(life.type === 'renewed' && verdict === 'stale', 'not-renewed', 'nobody renews it')
    for (const { type, reason } of sighting.odd) conflicts.push({ code: `${type}-value`, message: reason })
    const isMissing = listed === false && leased && verdict === 'live' && (holder?.state ?? 'ready') === 'ready'
    noteIf(isMissing, 'not-listed', 'live and ready, but not listed')
    return {
      address,
      holder,
      ageMs: startedMs === undefined ? undefined : Math.max(0, observed.nowMs - startedMs),
      life,
      verdict,
      leased,
      listed,
      id,
      revision,
      conflicts,
    }
  })
}

function strayRow(address: string): MasterRow {
  return {
    address,
    holder: undefined,
    ageMs: undefined,
    life: undefined,
    verdict: undefined,
    listed: true,
    id: undefined,
    revision: undefined,
    leased: false,
    conflicts: [{ code: 'listed-without-lease', message: 'listed, but nobody holds it' }],
  }
}

function hostsOf(address: string | undefined, sightings: readonly LeaseSighting[]): readonly string[] {
  if (address === undefined) return []
  const holders = sightings.filter((sighting) => sighting.address === address).flatMap(({ holders: all }) => all)
  return [...new Set(holders.map(({ host }) => host))].sort()
}

function byAddressAndHost(a: MasterRow, b: MasterRow): number {
  return compare(a.address ?? '~', b.address ?? '~') || compare(a.holder?.host ?? '', b.holder?.host ?? '')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
