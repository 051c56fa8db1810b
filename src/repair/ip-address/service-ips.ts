import type { IpAddress, Service, ServiceCidr } from '../../kube/resources.ts'
import { after, before, type Change, type Store } from '../../kube/store.ts'
import { type Cidr, tryParseStoredCidr, usableSize } from '../../net/cidr.ts'
import { type AddressGroups, ipv4Value, readAddress, textFrom } from '../../net/stored-address.ts'
import type { Steps } from '../../runtime/steps.ts'
import { clusterIpsOf, oldestFirst } from '../service-claims.ts'
import { lookupNameOf } from './ip-address.ts'

/** Whether the Service holds an address, whose canonical form is `name`. */
export function holdsAddress(service: Service, name: string): boolean {
  const held = clusterIpsOf(service)
  return held.includes(name) || held.some((text) => lookupNameOf(text) === name)
}

/** The Services that hold the address, {@link oldestFirst}. `name` is its canonical form. */
export function holdersIn(services: Pick<Store<Service>, 'by'>, name: string): readonly Service[] {
  const holders = services.by(name)
  return holders.length < 2 ? holders : holders.toSorted(oldestFirst)
}

/**
 * The canonical forms of the addresses that must be checked after a change of a Service; none if it changes no claims.
 */
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

interface ReadyRange {
  readonly cidr: Cidr
  /** Whether Services may have the address. Uses no BigInt, because there may be a million addresses. */
  readonly allots: (family: 4 | 6, groups: AddressGroups) => boolean
}

/** A buffer for one address, used only within a call. */
const buffer: AddressGroups = new Uint16Array(8)

/**
 * The addresses that ServiceCIDRs give to Services, and how many are allocated. Ignores the conditions of ServiceCIDRs,
 * and malformed ranges. Network addresses and IPv4 broadcast addresses are left out (`PrefixContainsIP` in
 * pkg/api/servicecidr).
 */
export class ServiceIpRanges {
  readonly #ranges: readonly ReadyRange[]
  #allocated: number[]
  /** The new counts while {@link countAll} runs. */
  #recount: number[] | undefined

  constructor(serviceCidrs: readonly ServiceCidr[]) {
    const all = serviceCidrs.flatMap(rangesOf)
    this.#ranges = [...new Map(all.map((cidr) => [cidr.text, cidr])).values()].map(ready)
    this.#allocated = this.#ranges.map(() => 0)
  }

  /** Whether a range contains the address. `name` is its canonical form; any other form is in no range. */
  contains(name: string): boolean {
    return this.#placeOf(name) >= 0
  }

  /** Counts an address that becomes allocated (1) or free (-1), for the first range that contains it. */
  count(name: string, by: 1 | -1): void {
    const place = this.#placeOf(name)
    if (place < 0) return
    for (const counts of [this.#allocated, this.#recount]) if (counts) counts[place] = (counts[place] ?? 0) + by
  }

  /** Counts all addresses anew. Stops when a later call begins. During a pause, {@link count} counts changes. */
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

  #placeOf(name: string): number {
    const family = readAddress(name, buffer)
    if (family === undefined || textFrom(family, buffer, name) !== name) return -1
    return this.#ranges.findIndex(({ allots }) => allots(family, buffer))
  }
}

export function rangesOf({ spec }: ServiceCidr): readonly Cidr[] {
  return (spec?.cidrs ?? []).map(tryParseStoredCidr).filter((cidr) => cidr !== undefined)
}

/** Returns a test whether `ranges` contain an address and `except` does not. */
export function addressTest(ranges: readonly Cidr[], except: readonly Cidr[] = []): (name: string) => boolean {
  const [wanted, unwanted] = [ranges.map(ready), except.map(ready)]
  return (name) => {
    const family = readAddress(name, buffer)
    if (family === undefined) return false
    const isInRange = ({ allots }: ReadyRange): boolean => allots(family, buffer)
    return wanted.some(isInRange) && !unwanted.some(isInRange)
  }
}

function ready(cidr: Cidr): ReadyRange {
  if (cidr.family === 4) {
    const network = Number(cidr.network.value)
    const broadcast = network + Number(cidr.size) - 1
    const isWithin = (value: number): boolean => value > network && value < broadcast
    return { cidr, allots: (family, groups) => family === 4 && isWithin(ipv4Value(groups)) }
  }
  const network = new Uint16Array(8)
  readAddress(cidr.network.text, network)
  const masks = network.map((_, group) => 0xffff << (16 - Math.min(Math.max(cidr.prefix - 16 * group, 0), 16)))
  const allots = (family: 4 | 6, groups: AddressGroups): boolean => {
    if (family === 4) return false
    let isNetwork = true
    for (let i = 0; i < 8; i++) {
      const group = groups[i] as number
      if ((group & (masks[i] as number)) !== network[i]) return false
      if (group !== network[i]) isNetwork = false
    }
    return !isNetwork
  }
  return { cidr, allots }
}
