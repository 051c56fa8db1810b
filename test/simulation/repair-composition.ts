import type { Address } from '../../src/net/address.ts'
import { type AllocationRange, addressAllocationRange, parseCidr, portAllocationRange } from '../../src/net/cidr.ts'
import { parsePortRange } from '../../src/net/host-port.ts'
import type { RangeName } from '../../src/repair/registries/range-registry.ts'
import { randomInteger, seededRandom } from '../../src/runtime/random.ts'

/**
 * Where kube-apiserver records allocated ClusterIPs: from 1.34 in IPAddresses, up to 1.30 in a bitmap, in between in
 * both.
 */
export type AddressBook = 'objects' | 'both' | 'bitmap'

/** The properties of a cluster, drawn from a seed. */
export interface RepairComposition {
  readonly book: AddressBook
  /** The ranges of ClusterIPs, the first family's first. */
  readonly cidrs: readonly string[]
  readonly nodePorts: string
  readonly masters: number
  readonly kubeApiservers: number
  readonly intervalMs: number
  readonly activeMs: number
  /** Whether a vandal damages what is stored. */
  readonly vandal: boolean
  /** Whether masters, their servers and their connections fail. */
  readonly faults: boolean
  readonly spikes: boolean
}

/** The ranges are small, so that released items are soon allocated again. */
export function repairCompositionOf(seed: number): RepairComposition {
  const random = seededRandom(seed, 'composition')
  const chance = (probability: number): boolean => random.next() < probability
  const books = ['objects', 'both', 'bitmap'] as const
  const book = books[randomInteger(random, 5)] ?? 'objects'
  const dual = chance(0.25)
  return {
    book,
    cidrs: [chance(0.5) ? '10.96.0.0/28' : '10.96.0.0/29', ...(dual ? ['fd00:96::/124'] : [])],
    nodePorts: `30000-${30_004 + randomInteger(random, 6)}`,
    masters: 1 + randomInteger(random, 2),
    kubeApiservers: 1 + randomInteger(random, 2),
    intervalMs: 40_000 + randomInteger(random, 4) * 10_000,
    // Leaks are freed after two minutes: in the long schedules, while users still work.
    activeMs: chance(0.35) ? 150_000 + randomInteger(random, 4) * 50_000 : 40_000 + randomInteger(random, 4) * 20_000,
    vandal: chance(0.75),
    faults: chance(0.7),
    spikes: chance(0.4),
  }
}

/** Describes a composition in one line. */
export function describeRepairComposition(composition: RepairComposition): string {
  const { book, cidrs, nodePorts, masters, kubeApiservers, intervalMs, vandal, faults, spikes } = composition
  const where = { objects: 'IPAddresses', both: 'IPAddresses and bitmaps', bitmap: 'bitmaps' }[book]
  const trouble = [vandal && 'a vandal', faults && 'faults', spikes && 'spikes'].filter((one) => one !== false)
  return `${cidrs.join(' and ')} in ${where}, ${nodePorts}; masters: ${masters}, kube-apiservers: ${kubeApiservers}, every ${intervalMs} ms; ${trouble.join(', ') || 'no trouble'}`
}

/** One range of addresses or ports, with its items as text. */
export interface ItemRange {
  readonly name: RangeName
  readonly key: string
  readonly text: string
  readonly items: readonly string[]
  readonly allocation: AllocationRange<Address> | AllocationRange<number>
}

/** The ranges of a cluster: those of ClusterIPs in order of their families, and that of NodePorts. */
export interface ItemRanges {
  readonly addresses: readonly ItemRange[]
  readonly nodePorts: ItemRange
  readonly all: readonly ItemRange[]
  /** The range that an address or port belongs to. */
  readonly of: (item: string) => ItemRange
}

export function itemRangesOf({ cidrs, nodePorts }: Pick<RepairComposition, 'cidrs' | 'nodePorts'>): ItemRanges {
  const names = ['serviceips', 'secondaryserviceips'] as const
  const addresses = cidrs.map((cidr, index) =>
    itemRange(names[index] ?? 'serviceips', addressAllocationRange(parseCidr(cidr))),
  )
  const ports = itemRange('servicenodeports', portAllocationRange(parsePortRange(nodePorts)))
  const all = [...addresses, ports]
  const byItem = new Map(all.flatMap((range) => range.items.map((item) => [item, range] as const)))
  return {
    addresses,
    nodePorts: ports,
    all,
    of(item) {
      const range = byItem.get(item)
      if (range === undefined) throw new RangeError(`${item} is in none of the ranges`)
      return range
    },
  }
}

function itemRange(name: RangeName, allocation: ItemRange['allocation']): ItemRange {
  const items = Array.from({ length: allocation.size }, (_, offset) => allocation.textAt(offset))
  return { name, key: `/registry/ranges/${name}`, text: allocation.text, items, allocation }
}

/** Whether an item is an address; otherwise it is a port. */
export function isAddress(item: string): boolean {
  return /[.:]/.test(item)
}
