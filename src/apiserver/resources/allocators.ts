import { type Address, parseAddress } from '../../net/address.ts'
import { addressAt, type Cidr, cidrContains, indexOf, parseCidr, usableSize } from '../../net/cidr.ts'
import { type PortRange, portRangeContains } from '../../net/host-port.ts'
import { type Random, randomInteger } from '../../runtime/random.ts'
import type { Draft } from '../kind.ts'
import type { Collection } from '../store.ts'
import type { AllocatorMetrics } from './allocator-metrics.ts'
import { cidrsOf, isReady } from './ip-addresses.ts'

/**
 * Finds free ClusterIPs: addresses in a ready ServiceCIDR that have no IPAddress (upstream's
 * ipallocator.MetaAllocator). Allocates nothing: to take an address, create its IPAddress.
 */
export class ClusterIps {
  readonly #serviceCidrs: Collection
  readonly #ipAddresses: Collection
  readonly #random: Random

  constructor(serviceCidrs: Collection, ipAddresses: Collection, random: Random) {
    this.#serviceCidrs = serviceCidrs
    this.#ipAddresses = ipAddresses
    this.#random = random
  }

  /** Why this address is not available; undefined if it is. */
  faultOf(text: string): string | undefined {
    const address = parseAddress(text)
    const cidr = this.#ranges(address.family).find((range) => cidrContains(range, address))
    if (cidr === undefined) return 'the provided network does not match the current range'
    const index = indexOf(cidr, address) ?? 0n
    if (index === 0n || index > usableSize(cidr)) return 'the provided IP is not in the valid range'
    return this.#isFree(address) ? undefined : 'provided IP is already allocated'
  }

  /** A free address of a family; undefined if the search finds none. */
  next(family: 4 | 6): Address | undefined {
    for (const cidr of this.#ranges(family)) {
      const usable = usableSize(cidr)
      const offset = BigInt(staticBlockSize(cidr))
      // The lower part of a range is reserved for addresses that people choose. It is used only if the search finds
      // none in the rest.
      const free = this.#search(cidr, offset + 1n, usable) ?? this.#search(cidr, 1n, offset)
      if (free !== undefined) return free
    }
    return undefined
  }

  /** The range of an address, as text; undefined if it is in no ready ServiceCIDR. */
  rangeOf(text: string): string | undefined {
    const address = parseAddress(text)
    return this.#ranges(address.family).find((range) => cidrContains(range, address))?.text
  }

  /** The ready ranges of a family, as text. */
  rangesOf(family: 4 | 6): readonly string[] {
    return this.#ranges(family).map(({ text }) => text)
  }

  /**
   * Sets the gauges of ClusterIPs. Upstream has one allocator for each range, which counts all IPAddresses in its
   * range.
   */
  report(metrics: AllocatorMetrics): void {
    const addresses = this.#ipAddresses.keys('').map(parseAddress)
    const usage = ([4, 6] as const)
      .flatMap((family) => this.#ranges(family))
      .map((range) => {
        const allocated = addresses.filter((address) => cidrContains(range, address)).length
        return { labels: { cidr: range.text }, allocated, available: Number(usableSize(range)) - allocated }
      })
    const allocated = usage.map(({ labels, allocated }) => [labels, allocated] as const)
    const available = usage.map(({ labels, available }) => [labels, available] as const)
    metrics.set('kube_apiserver_clusterip_allocator_allocated_ips', allocated)
    metrics.set('kube_apiserver_clusterip_allocator_available_ips', available)
  }

  /** The families of the ready ServiceCIDRs, IPv4 first; only IPv4 if no ServiceCIDR is ready. */
  families(): readonly string[] {
    const found = ([4, 6] as const).filter((family) => this.#ranges(family).length > 0)
    return found.length === 0 ? ['IPv4'] : found.map((family) => `IPv${family}`)
  }

  /**
   * Searches the addresses number `first` to `last` of a range for a free one, from a random number on, wrapping around
   * once. Gives up after 65,536 addresses.
   */
  #search(cidr: Cidr, first: bigint, last: bigint): Address | undefined {
    const count = last - first + 1n
    if (count <= 0n) return undefined
    // A random number below 2^48, even if there are more addresses.
    const start = BigInt(randomInteger(this.#random, count < 2n ** 48n ? Number(count) : 2 ** 48))
    const tries = count < 65_536n ? Number(count) : 65_536
    for (let i = 0; i < tries; i++) {
      const address = addressAt(cidr, first + ((start + BigInt(i)) % count))
      if (this.#isFree(address)) return address
    }
    return undefined
  }

  #isFree(address: Address): boolean {
    return this.#ipAddresses.get(address.text) === undefined
  }

  #ranges(family: 4 | 6): readonly Cidr[] {
    return this.#serviceCidrs
      .keys('')
      .map((key) => this.#serviceCidrs.get(key) as Draft)
      .filter(isReady)
      .flatMap(cidrsOf)
      .map(parseCidr)
      .filter((cidr) => cidr.family === family)
  }
}

/** The size of the lower part of a range: min(max(16, size / 16), 256), or 0 if the range has at most 16 addresses. */
function staticBlockSize(cidr: Cidr): number {
  if (cidr.size <= 16n) return 0
  const sixteenth = cidr.size / 16n
  return sixteenth < 16n ? 16 : sixteenth > 256n ? 256 : Number(sixteenth)
}

export const ALLOCATED = 'provided port is already allocated'

/** The allocated NodePorts; one number may serve several protocols of one Service. */
export class NodePorts {
  readonly #range: PortRange
  readonly #random: Random
  readonly #taken = new Set<number>()

  constructor(range: PortRange, random: Random) {
    this.#range = range
    this.#random = random
  }

  /** Why this port is not available; undefined if it is. `own` are the ports that the Service already has. */
  faultOf(port: number, own: ReadonlySet<number>): string | undefined {
    if (!portRangeContains(this.#range, port)) {
      return `provided port is not in the valid range. The range of valid ports is ${this.#range.text}`
    }
    return this.#taken.has(port) && !own.has(port) ? ALLOCATED : undefined
  }

  /** A free port that is not in `own`; undefined if there is none. */
  next(own: ReadonlySet<number>): number | undefined {
    const { first, size } = this.#range
    const start = randomInteger(this.#random, size)
    for (let i = 0; i < size; i++) {
      const port = first + ((start + i) % size)
      if (!this.#taken.has(port) && !own.has(port)) return port
    }
    return undefined
  }

  report(metrics: AllocatorMetrics): void {
    metrics.set('kube_apiserver_nodeport_allocator_allocated_ports', [[{}, this.#taken.size]])
    metrics.set('kube_apiserver_nodeport_allocator_available_ports', [[{}, this.#range.size - this.#taken.size]])
  }

  take(ports: Iterable<number>): void {
    for (const port of ports) this.#taken.add(port)
  }

  release(ports: Iterable<number>): void {
    for (const port of ports) this.#taken.delete(port)
  }
}
