import type { Random } from '../../runtime/random.ts'
import type { FleetPlan, MasterPlan } from '../scenario.ts'
import { Draw } from './draw.ts'

const HOUR_MS = 3_600_000

/**
 * TTL and interval of the leases, in milliseconds: from the shortest that are of use to the defaults. The shorter they are, the more a
 * schedule costs, and the fewer have them.
 */
const leaseTimes = [
  [3_000, 1_000],
  [6_000, 4_000],
  [10_000, 5_000],
  [10_000, 5_000],
  [15_000, 10_000],
  [15_000, 10_000],
  [15_000, 10_000],
  [15_000, 10_000],
  [15_000, 10_000],
  [15_000, 10_000],
] as const
/** How many masters: as many as there are usually are drawn most often. */
const sizes = [3, 3, 3, 3, 3, 4, 4, 5, 6, 7] as const

/** Three to seven masters, sometimes two of them behind one address, sometimes kube-apiservers among them. */
export function randomFleet(random: Random): FleetPlan {
  const draw = new Draw(random)
  const leaseStore = draw.pick(['kubernetes', 'kubernetes', 'etcd', 'etcd', 'etcd', 'kine', 'kine', 'memory'] as const)
  const count = draw.pick(sizes)
  const withPeers = (leaseStore === 'etcd' || leaseStore === 'kine') && draw.chance(0.3)
  const peers = withPeers ? draw.integer(1, Math.min(2, count - 2)) : 0
  const shared = draw.chance(0.3)
  const skewMs = draw.chance(0.5) ? 10_000 : 3 * HOUR_MS
  const driftPpm = draw.chance(0.5) ? 0 : 200
  const ours = Array.from({ length: count - peers }, (_, index): MasterPlan => {
    const name = `master-${index + 1}`
    const addresses = [`192.0.2.${shared && index === 1 ? 1 : index + 1}`]
    const kind = 'apiserver-bootstrap'
    return { name, addresses, kind, skewMs: draw.around(skewMs), driftPpm: draw.around(driftPpm), settings: {} }
  })
  const theirs = Array.from({ length: peers }, (_, index): MasterPlan => {
    const addresses = [`198.51.100.${index + 1}`]
    return { name: `upstream-${index + 1}`, addresses, kind: 'kube-apiserver', skewMs: 0, driftPpm: 0, settings: {} }
  })
  const [leaseTtlMs, reconcileIntervalMs] = draw.pick(leaseTimes)
  return {
    masters: [...ours, ...theirs],
    reconciler: 'lease',
    apiserverCount: count,
    leaseStore,
    leaseTtlMs,
    reconcileIntervalMs,
    readinessGate: draw.chance(0.2) ? 'startup' : 'continuous',
    onShutdown: draw.pick(['withdraw', 'withdraw', 'withdraw', 'withdraw', 'keep', 'always'] as const),
    spikes: draw.chance(0.5),
  }
}
