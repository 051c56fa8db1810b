import type { ServiceCidr } from '../../kube/resources.ts'
import { bitsOf, tryParseAddress } from '../../net/address.ts'
import { type Cidr, cidrOf, usableSize } from '../../net/cidr.ts'
import { groupsOf, isCanonicalIPv4, valueOfIPv4 } from './ip-address-name.ts'

/** What was found out is forgotten when it is more than this and twice what is in use. */
const leastRemembered = 10_000

/** A range whose addresses are tested by the name, without reading it as a big number. */
interface ReadyRange {
  readonly cidr: Cidr
  /** Whether Services may have the IPv4 address of this value. */
  readonly allotsIPv4: (value: number) => boolean
  /** Whether Services may have the IPv6 address of these groups. */
  readonly allotsIPv6: (groups: readonly number[]) => boolean
}

/**
 * The addresses that Services may have: those of every ServiceCIDR, however many there are and whatever their condition, without network
 * addresses and IPv4 broadcast addresses (`PrefixContainsIP` in pkg/api/servicecidr). A range that cannot be read counts for nothing.
 */
export class ServiceIpRanges {
  readonly #ranges: readonly ReadyRange[]
  /** By IPv6 name, the place in `#ranges`: to read one is most of what a pass does with it. */
  readonly #places = new Map<string, number>()

  constructor(serviceCidrs: readonly ServiceCidr[]) {
    const all = serviceCidrs.flatMap(({ spec }) => spec?.cidrs ?? []).flatMap(readCidr)
    this.#ranges = [...new Map(all.map((cidr) => [cidr.text, cidr])).values()].map(ready)
  }

  /** Whether a Service may have the address; `name` is its canonical form. */
  contains(name: string): boolean {
    return this.#placeOf(name) >= 0
  }

  /** How full each range is when these addresses are taken; one that lies in several counts for the first. */
  usage(
    names: Iterable<string>,
  ): readonly { readonly range: string; readonly allocated: number; readonly size: number }[] {
    const counts = this.#ranges.map(() => 0)
    for (const name of names) {
      const place = this.#placeOf(name)
      if (place >= 0) counts[place] = (counts[place] ?? 0) + 1
    }
    return this.#ranges.map(({ cidr }, place) => ({
      range: cidr.text,
      allocated: counts[place] ?? 0,
      size: Number(usableSize(cidr)),
    }))
  }

  /** Lets go, now and then, of what is remembered of addresses that nobody has any more. */
  tidy(inUse: number): void {
    if (this.#places.size > Math.max(leastRemembered, 2 * inUse)) this.#places.clear()
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
    this.#places.set(name, place)
    return place
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
  const allotsIPv6 = (groups: readonly number[]): boolean => {
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

/** Host bits are cut off, as upstream does. */
function readCidr(text: string): readonly Cidr[] {
  const [, start = '', length = ''] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? []
  const address = tryParseAddress(start)
  const prefix = Number(length)
  return address === undefined || length === '' || prefix > bitsOf(address.family) ? [] : [cidrOf(address, prefix)]
}
