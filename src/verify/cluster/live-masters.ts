import { addressesIn } from '../../kubernetes-service/identity.ts'
import type { InspectedLease } from '../../kubernetes-service/masters/inspection.ts'
import { type Verdict as Liveness, type MasterRow, mastersRows } from '../../kubernetes-service/masters/masters.ts'
import { type About, partOf } from './state.ts'

/**
 * Whether a lease is renewed, from one reading: one whose times alone decide is stale when it is over for one more TTL,
 * because clocks differ.
 */
export function livenessOf({ life }: InspectedLease): Liveness {
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

/** The addresses that the leases demand to be listed; none if no lease could be read. */
export function leasedAddresses(about: About): readonly string[] {
  const leases = partOf(about, 'masterLeases')?.leases ?? []
  const listed = addressesIn(partOf(about, 'kubernetesEndpoints'))
  const rows = mastersRows({ leases, verdict: livenessOf, listed, nowMs: about.nowMs })
  const live = rows.filter(({ leased, verdict }) => leased && verdict !== 'stale')
  return [...new Set(live.filter(isWanted).flatMap(({ address }) => address ?? []))]
}

function isWanted({ listed, holder }: MasterRow): boolean {
  return listed === true || (holder?.state ?? 'ready') === 'ready'
}
