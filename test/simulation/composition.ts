import { Fleet } from '../../src/drill/simulator/fleet.ts'
import { SimulatedKubeApiserver } from '../../src/drill/simulator/kube-apiserver.ts'
import type { Host, SimulatedMaster } from '../../src/drill/simulator/master.ts'
import { type Random, randomInteger, seededRandom } from '../../src/runtime/random.ts'

/** What a seed decided about a fleet. */
export interface Composition {
  readonly leaseStore: 'kubernetes' | 'etcd' | 'kine'
  readonly hosts: readonly Host[]
  /** API servers that keep `default/kubernetes` themselves, with leases in the same store. */
  readonly kubeApiservers: number
  readonly leaseTtlMs: number
  readonly reconcileIntervalMs: number
  readonly readinessGate: 'continuous' | 'startup'
  readonly onShutdown: 'withdraw' | 'keep'
  readonly spikes: boolean
}

const HOUR_MS = 3_600_000

/** Three to five masters, sometimes two of them behind one address, sometimes kube-apiservers beside them. */
export function compositionOf(seed: number): Composition {
  const random = seededRandom(seed, 'composition')
  const chance = (probability: number): boolean => random.next() < probability
  const leaseStore = chance(0.4) ? 'kubernetes' : chance(0.7) ? 'etcd' : 'kine'
  const count = 3 + randomInteger(random, 3)
  const shared = chance(0.3)
  const skewMs = chance(0.5) ? 10_000 : 3 * HOUR_MS
  const driftPpm = chance(0.5) ? 0 : 200
  const hosts = Array.from({ length: count }, (_, index) => ({
    name: `master-${index + 1}`,
    addresses: [`192.0.2.${shared && index === 1 ? 1 : index + 1}`],
    skewMs: around(random, skewMs),
    driftPpm: around(random, driftPpm),
  }))
  const kubeApiservers = leaseStore !== 'kubernetes' && chance(0.4) ? 1 + randomInteger(random, 2) : 0
  const short = chance(0.5)
  return {
    leaseStore,
    hosts,
    kubeApiservers,
    leaseTtlMs: short ? 6_000 : 15_000,
    reconcileIntervalMs: short ? 4_000 : 10_000,
    readinessGate: chance(0.2) ? 'startup' : 'continuous',
    onShutdown: chance(0.15) ? 'keep' : 'withdraw',
    spikes: chance(0.5),
  }
}

/** The fleet of a seed, nothing of it started. */
export interface World {
  readonly composition: Composition
  readonly fleet: Fleet
  readonly kubeApiservers: readonly SimulatedKubeApiserver[]
  /** Those that have died for good. */
  readonly retired: Set<Member>
}

/** Whoever has a lease. */
export type Member = SimulatedMaster | SimulatedKubeApiserver

export function worldOf(seed: number, composition: Composition): World {
  const { leaseStore, hosts, spikes, leaseTtlMs, reconcileIntervalMs, readinessGate, onShutdown } = composition
  const fleet = new Fleet({
    seed,
    masters: hosts,
    master: { leaseTtlMs, reconcileIntervalMs, readinessGate, onShutdown },
    etcd: leaseStore === 'kubernetes' ? undefined : leaseStore,
    spikes,
  })
  const kubeApiservers = Array.from({ length: composition.kubeApiservers }, (_, index) => {
    const host = { name: `kube-apiserver-${index + 1}`, address: `198.51.100.${index + 1}` }
    return new SimulatedKubeApiserver(fleet.surroundings, host)
  })
  return { composition, fleet, kubeApiservers, retired: new Set() }
}

/** Whoever may still be listed or come back, and those that have died for good. */
export function membersOf({ fleet, kubeApiservers }: World): readonly Member[] {
  return [...fleet.masters, ...kubeApiservers]
}

/** In one line. */
export function describeComposition(composition: Composition): string {
  const { hosts, kubeApiservers, leaseStore, leaseTtlMs, readinessGate, onShutdown, spikes } = composition
  const addresses = hosts.map((host) => host.addresses.join(' and ')).join(', ')
  const beside = kubeApiservers === 0 ? '' : `, ${kubeApiservers} kube-apiservers beside them`
  return `leases in ${leaseStore}, TTL ${leaseTtlMs} ms, masters at ${addresses}${beside}, gate ${readinessGate}, on shutdown ${onShutdown}${spikes ? ', spikes' : ''}`
}

/** A whole number between minus `limit` and `limit`. */
function around(random: Random, limit: number): number {
  return randomInteger(random, 2 * limit + 1) - limit
}
