import type { FleetPlan, MasterPlan } from './scenario.ts'

/** What a fleet lists once it has come up. */
export interface ExpectedList {
  /** Everybody who may be listed, in order. */
  readonly addresses: readonly string[]
  isMet(listed: readonly string[] | undefined): boolean
}

/**
 * With leases: everybody whose reconciler is on. With `master-count`: as many of them as there are places. With `none` everywhere: everybody,
 * because whoever set the fleet up has listed them (see writeStaticList).
 */
export function expectedList({ masters, reconciler, apiserverCount }: FleetPlan): ExpectedList {
  const kept = masters.filter((plan) => reconcilerOf(plan, reconciler) !== 'none')
  const addresses = firstAddresses(kept.length > 0 ? kept : masters)
  const counted = kept.length > 0 && kept.every((plan) => reconcilerOf(plan, reconciler) === 'master-count')
  const places = counted ? Math.min(apiserverCount, addresses.length) : addresses.length
  return {
    addresses,
    isMet: (listed = []) => listed.length === places && listed.every((address) => addresses.includes(address)),
  }
}

/** A kube-apiserver has upstream's leases, whatever the others do. */
function reconcilerOf({ kind, settings }: MasterPlan, fleet: FleetPlan['reconciler']): FleetPlan['reconciler'] {
  return kind === 'kube-apiserver' ? 'lease' : (settings.reconciler ?? fleet)
}

/** The addresses of these masters that belong into Endpoints, each once, in order. */
export function firstAddresses(masters: readonly MasterPlan[]): readonly string[] {
  return [...new Set(masters.map(({ addresses, settings }) => (settings.addresses ?? addresses)[0] ?? ''))].sort()
}
