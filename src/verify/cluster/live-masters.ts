import { addressesIn } from '../../kubernetes-service/identity.ts'
import type { InspectedLease } from '../../kubernetes-service/masters/inspection.ts'
import { type Verdict as Liveness, type MasterRow, mastersRows } from '../../kubernetes-service/masters/masters.ts'
import { type CheckContext, partOf } from './state.ts'

/** By its timestamps alone, a lease counts as stale only from one TTL after its end, because clocks differ. */
function livenessOf({ life }: InspectedLease): Liveness {
  switch (life.type) {
    case 'ends':
      return 'live'
    case 'never':
      return 'stale'
    case 'renewed':
      if (life.leftMs === undefined) return 'unknown'
      return life.leftMs < -life.ttlMs ? 'stale' : life.leftMs > 0 ? 'live' : 'unknown'
  }
}

/** The rows that the command `masters` shows. If there are no leases, or they were not read, all rows are unleased. */
export function rowsOf(context: CheckContext): readonly MasterRow[] {
  const leases = partOf(context, 'masterLeases')?.leases ?? []
  const listed = addressesIn(partOf(context, 'kubernetesEndpoints'))
  return mastersRows({ leases, verdict: livenessOf, listed, nowMs: context.nowMs })
}

/**
 * The addresses that the list should contain: those with a lease that is not stale, except unlisted ones whose master
 * is not ready.
 */
export function leasedAddresses(rows: readonly MasterRow[]): readonly string[] {
  const live = rows.filter(({ leased, verdict }) => leased && verdict !== 'stale')
  return [...new Set(live.filter(isWanted).flatMap(({ address }) => address ?? []))]
}

/** A master that is not ready may stay in the list, but is not added to it. */
function isWanted({ listed, holder }: MasterRow): boolean {
  return listed === true || (holder?.state ?? 'ready') === 'ready'
}
