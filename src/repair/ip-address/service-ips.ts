import type { IpAddress, Service, ServiceCidr } from '../../kube/resources.ts'
import { after, before, type Change, keyOfObject, type Store } from '../../kube/store.ts'
import { type Cidr, tryParseStoredCidr, usableSize } from '../../net/cidr.ts'
import { type AddressGroups, ipv4Value, readAddress } from '../../net/stored-address.ts'
import type { Steps } from '../../runtime/steps.ts'
import { clusterIpsOf } from '../service-claims.ts'
import { groupsOf, isCanonicalIPv4, lookupNameOf, valueOfIPv4 } from './ip-address.ts'

/** `name` is the canonical form of the address. */
export function holdsAddress(service: Service, name: string): boolean {
  const held = clusterIpsOf(service)
  return held.includes(name) || held.some((text) => lookupNameOf(text) === name)
}

/** The Services that hold the address, the oldest first: the order is the same for all masters. */
export function holdersIn(services: Pick<Store<Service>, 'by'>, name: string): readonly Service[] {
  const holders = services.by(name)
  return holders.length < 2 ? holders : holders.toSorted(byAge)
}

/** The addresses that must be checked because of a change of a Service. */
export function addressesOf(change: Change<Service>): readonly string[] {
  const [old, now] = [before(change), after(change)]
  if (old && now && sameClaims(old, now)) return []
  return [old, now].flatMap((service) => (service ? clusterIpsOf(service) : [])).map(lookupNameOf)
}

function sameClaims(a: Service, b: Service): boolean {
  return (
    a.metadata?.uid === b.metadata?.uid &&
    a.spec?.type === b.spec?.type &&
    clusterIpsOf(a).join() === clusterIpsOf(b).join()
  )
}

function byAge(a: Service, b: Service): number {
  const [first = '', second = ''] = [a.metadata?.creationTimestamp, b.metadata?.creationTimestamp]
  if (first !== second) return first < second ? -1 : 1
  return keyOfObject(a) < keyOfObject(b) ? -1 : 1
}

/** The cache is cleared when it has more entries than this, and more than twice the number in use. */
const LEAST_REMEMBERED = 10_000

interface ReadyRange {
  readonly cidr: Cidr
  readonly allotsIPv4: (value: number) => boolean
  readonly allotsIPv6: (groups: ArrayLike<number>) => boolean
}

/**
 * The addresses of every ServiceCIDR, whatever its condition, without network addresses and IPv4 broadcast addresses
 * (`PrefixContainsIP` in pkg/api/servicecidr). A malformed range is ignored.
 */
export class ServiceIpRanges {
  readonly #ranges: readonly ReadyRange[]
  #allocated: number[]
  /** The new counts while {@link countAll} runs. */
  #recount: number[] | undefined
  /** A cache of indexes in `#ranges`, by IPv6 name, because parsing names is most of the work of a pass. */
  readonly #places = new Map<string, number>()

  constructor(serviceCidrs: readonly ServiceCidr[]) {
    const all = serviceCidrs.flatMap(rangesOf)
    this.#ranges = [...new Map(all.map((cidr) => [cidr.text, cidr])).values()].map(ready)
    this.#allocated = this.#ranges.map(() => 0)
  }

  /** `name` is the canonical form of the address. */
  contains(name: string): boolean {
    return this.#placeOf(name) >= 0
  }

  /** Counts an address that is now allocated (1), or no longer (-1), for the first range that contains it. */
  count(name: string, by: 1 | -1): void {
    const place = this.#placeOf(name)
    if (place < 0) return
    for (const counts of [this.#allocated, this.#recount]) if (counts) counts[place] = (counts[place] ?? 0) + by
  }

  /** Counts all addresses anew, and stops when a later call begins. {@link count} counts changes between two steps. */
  *countAll(allocated: Iterable<IpAddress>): Steps<void> {
    const recount = this.#ranges.map(() => 0)
    this.#recount = recount
    for (const { metadata } of allocated) {
      const place = this.#placeOf(metadata?.name ?? '')
      if (place >= 0) recount[place] = (recount[place] ?? 0) + 1
      yield
      if (this.#recount !== recount) return
    }
    this.#allocated = recount
    this.#recount = undefined
  }

  /** The ranges as text; equal for equal ranges. */
  get text(): string {
    return this.#ranges.map(({ cidr }) => cidr.text).join()
  }

  usage(): readonly { readonly range: string; readonly allocated: number; readonly size: number }[] {
    return this.#ranges.map(({ cidr }, place) => ({
      range: cidr.text,
      allocated: this.#allocated[place] ?? 0,
      size: Number(usableSize(cidr)),
    }))
  }

  tidy(inUse: number): void {
    if (this.#places.size > Math.max(LEAST_REMEMBERED, 2 * inUse)) this.#places.clear()
  }

  #placeOf(name: string): number {
    if (!name.includes(':')) {
      if (!isCanonicalIPv4(name)) return -1
      const value = valueOfIPv4(name)
      return this.#ranges.findIndex(({ allotsIPv4 }) => allotsIPv4(value))
    }
    const known = this.#places.get(name)
    if (known !== undefined) return known
    const groups = groupsOf(name)
    const place = groups === undefined ? -1 : this.#ranges.findIndex(({ allotsIPv6 }) => allotsIPv6(groups))
    // A copy: the name is a part of the packed object, which it would keep in memory.
    this.#places.set(Buffer.from(name).toString(), place)
    return place
  }
}

export function rangesOf({ spec }: ServiceCidr): readonly Cidr[] {
  return (spec?.cidrs ?? []).map(tryParseStoredCidr).filter((cidr) => cidr !== undefined)
}

/** Tests whether `ranges` contain a name, and `except` does not. Caches nothing: there may be a million names. */
export function addressTest(ranges: readonly Cidr[], except: readonly Cidr[] = []): (name: string) => boolean {
  const [wanted, unwanted] = [ranges.map(ready), except.map(ready)]
  const groups: AddressGroups = new Uint16Array(8)
  return (name) => {
    const family = readAddress(name, groups)
    if (family === undefined) return false
    const value = family === 4 ? ipv4Value(groups) : 0
    const isInRange = ({ allotsIPv4, allotsIPv6 }: ReadyRange): boolean =>
      family === 4 ? allotsIPv4(value) : allotsIPv6(groups)
    return wanted.some(isInRange) && !unwanted.some(isInRange)
  }
}

function ready(cidr: Cidr): ReadyRange {
  const never = (): boolean => false
  if (cidr.family === 4) {
    const network = Number(cidr.network.value)
    const broadcast = network + Number(cidr.size) - 1
    return { cidr, allotsIPv4: (value) => value > network && value < broadcast, allotsIPv6: never }
  }
  const network = Array.from({ length: 8 }, (_, group) =>
    Number((cidr.network.value >> BigInt(112 - 16 * group)) & 0xffffn),
  )
  const masks = network.map(
    (_, group) => (0xffff << (16 - Math.min(Math.max(cidr.prefix - 16 * group, 0), 16))) & 0xffff,
  )
  const allotsIPv6 = (groups: ArrayLike<number>): boolean => {
    let isNetwork = true
    for (let i = 0; i < 8; i++) {
      const group = groups[i] ?? 0
      if ((group & (masks[i] ?? 0)) !== network[i]) return false
      if (group !== network[i]) isNetwork = false
    }
    return !isNetwork
  }
  return { cidr, allotsIPv4: never, allotsIPv6 }
}
