import type { IpAddress, ServiceCidr } from '../../kube/resources.ts'
import { type Change, keyOfObject, objectOf } from '../../kube/store.ts'
import { isManagedByAllocator } from '../../repair/ip-address/ip-address.ts'
import { addressTest } from '../../repair/ip-address/service-ips.ts'
import { coverageOf } from './coverage.ts'

/** Returns a test whether an IPAddress of the allocator would be in no ServiceCIDR without `serviceCidr`. */
export function blockingTest(serviceCidr: ServiceCidr, all: readonly ServiceCidr[]): (ipAddress: IpAddress) => boolean {
  const { needed, others } = coverageOf(serviceCidr, all)
  const isBlocking = addressTest(needed, others)
  return (ipAddress) => isManagedByAllocator(ipAddress) && isBlocking(keyOfObject(ipAddress))
}

interface Entry {
  /** The ranges from which this entry was computed, as text. */
  readonly madeOf: string
  /** Whether an IPAddress of this name would be in no ServiceCIDR without the one that is being deleted. */
  readonly isBlocking: (name: string) => boolean
  /**
   * The names of the blocking IPAddresses. A count could be wrong: {@link BlockingAddresses.apply} may receive a change
   * that the store already contained when this set was made.
   */
  readonly names: Set<string>
}

/**
 * For each ServiceCIDR under deletion, the IPAddresses that block it: without the ServiceCIDR they would be in none.
 *
 * All IPAddresses, perhaps a million, are read when a deletion begins, and again when the ServiceCIDRs that overlap the
 * one under deletion change. Otherwise a change of an IPAddress costs a few comparisons, and nothing while no
 * ServiceCIDR is being deleted.
 */
export class BlockingAddresses {
  readonly #ipAddresses: Iterable<IpAddress>
  readonly #entries = new Map<string, Entry>()

  constructor(ipAddresses: Iterable<IpAddress>) {
    this.#ipAddresses = ipAddresses
  }

  /** Whether an IPAddress needs this ServiceCIDR, which is being deleted. `all` are the present ServiceCIDRs. */
  isBlocked(serviceCidr: ServiceCidr, all: readonly ServiceCidr[]): boolean {
    const { name = '' } = serviceCidr.metadata ?? {}
    const { needed, others } = coverageOf(serviceCidr, all)
    const madeOf = [needed, others].map((ranges) => ranges.map(({ text }) => text).join()).join(' ')
    const entry = this.#entries.get(name)
    if (entry?.madeOf === madeOf) return entry.names.size > 0
    const isBlocking = addressTest(needed, others)
    const names = new Set<string>()
    if (needed.length > 0) {
      for (const ipAddress of this.#ipAddresses) {
        const address = keyOfObject(ipAddress)
        if (isManagedByAllocator(ipAddress) && isBlocking(address)) names.add(address)
      }
    }
    this.#entries.set(name, { madeOf, isBlocking, names })
    return names.size > 0
  }

  forget(name: string): void {
    this.#entries.delete(name)
  }

  /** Applies a change of an IPAddress. Returns the names of the ServiceCIDRs that become blocked or unblocked. */
  apply(change: Change<IpAddress>): readonly string[] {
    const address = keyOfObject(objectOf(change))
    const isPresent = change.type !== 'deleted' && isManagedByAllocator(change.object)
    const changed: string[] = []
    for (const [name, { isBlocking, names }] of this.#entries) {
      const wasBlocked = names.size > 0
      if (!isPresent) names.delete(address)
      else if (isBlocking(address)) names.add(address)
      if (names.size > 0 !== wasBlocked) changed.push(name)
    }
    return changed
  }
}
