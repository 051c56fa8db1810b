import type { EtcdKv } from '../../src/etcd/kv.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { type IpAddress, ipAddresses } from '../../src/kube/resources.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { decodeRangeAllocation, encodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import { type AddressBook, type ItemRange, isAddress } from './repair-composition.ts'
import type { Ledger } from './repair-ledger.ts'

export interface VandalOptions {
  readonly ledger: Ledger
  readonly api: KubeApi
  readonly etcd: EtcdKv
  readonly random: Random
  readonly book: AddressBook
}

/** A client that damages allocations, without a pause between the requests of one change. */
export class Vandal {
  readonly #options: VandalOptions
  readonly #signal = new AbortController().signal

  constructor(options: VandalOptions) {
    this.#options = options
  }

  /** Damages one thing, and returns a description of that. */
  async strike(): Promise<string> {
    const { random, book, ledger } = this.#options
    const ranges = [...(book === 'objects' ? [] : ledger.ranges.addresses), ledger.ranges.nodePorts]
    const range = this.#pick(ranges)
    const onBits = book === 'bitmap' || random.next() < 0.45
    return onBits ? this.#spoilBits(range) : this.#spoilAddress()
  }

  /** Releases one leaked address or port and returns it; undefined if none is leaked. */
  async cleanUp(): Promise<string | undefined> {
    const { ledger } = this.#options
    const leaked = ledger.ranges.all.flatMap(({ items }) => items.filter((item) => this.#isLeaked(item)))
    const item = this.#pick<string | undefined>(leaked)
    if (item !== undefined) await this.#change(ledger.ranges.of(item), [item], [])
    return item
  }

  /** Deletes the record of an item that a Service holds, and no other. */
  async rob(item: string): Promise<void> {
    const { book, ledger } = this.#options
    if (isAddress(item) && book !== 'bitmap') await this.#deleteAddress(item)
    else await this.#change(ledger.ranges.of(item), [item], [])
  }

  #isLeaked(item: string): boolean {
    const { ledger } = this.#options
    return ledger.bits.has(item) && ledger.holdersOf(item).length === 0 && ledger.makersOf(item).length === 0
  }

  async #spoilBits(range: ItemRange): Promise<string> {
    const { random, ledger } = this.#options
    const set = range.items.filter((item) => ledger.bits.has(item))
    const free = range.items.filter((item) => !ledger.bits.has(item))
    const leaked = set.filter((item) => this.#isLeaked(item))
    const chance = random.next()
    if (chance < 0.2) return this.#change(range, set, [])
    if (chance < 0.45) return this.#change(range, this.#some(set), [])
    if (chance < 0.75) return this.#change(range, [], this.#some(free))
    return this.#change(range, this.#some(leaked), [])
  }

  async #change(range: ItemRange, cleared: readonly string[], set: readonly string[]): Promise<string> {
    const { etcd, ledger } = this.#options
    const found = await etcd.get(range.key, this.#signal)
    const stored = found === undefined ? undefined : decodeRangeAllocation(found.value)
    if (found === undefined || stored?.type !== 'protobuf') return 'nothing'
    const bitmap = Bitmap.fromBytes(range.allocation.size, stored.data) as Bitmap
    for (const item of cleared) {
      bitmap.delete(range.items.indexOf(item))
      ledger.spoiled.add(item)
    }
    for (const item of set) bitmap.add(range.items.indexOf(item))
    const value = encodeRangeAllocation({ range: stored.range, data: bitmap.toBytes() }, stored)
    await etcd.update(range.key, value, found.modRevision, { signal: this.#signal })
    return `in ${range.name} clear ${cleared.join()} and set ${set.join()}`
  }

  async #spoilAddress(): Promise<string> {
    const { api, random, ledger } = this.#options
    const all = [...ledger.addresses.keys()]
    const chance = random.next()
    if (chance < 0.1) {
      for (const ip of all) await this.#deleteAddress(ip)
      return 'delete all IPAddresses'
    }
    const ip = this.#pick(all)
    if (chance < 0.2 || ip === undefined) {
      const free = ledger.ranges.addresses.flatMap(({ items }) => items).filter((item) => !ledger.addresses.has(item))
      const chosen = this.#pick(free)
      if (chosen === undefined) return 'nothing'
      ledger.spoiled.add(chosen)
      const labels = random.next() < 0.7 ? labelsOf(chosen) : { 'ipaddress.kubernetes.io/managed-by': 'somebody' }
      await api.create(ipAddresses, addressOf(chosen, this.#wrongParent(), labels)).catch(() => {})
      return `make IPAddress ${chosen}`
    }
    if (chance < 0.5) {
      await this.#deleteAddress(ip)
      return `delete IPAddress ${ip}`
    }
    ledger.spoiled.add(ip)
    if (chance < 0.7) {
      const labels = { 'ipaddress.kubernetes.io/managed-by': random.next() < 0.5 ? null : 'somebody' }
      const family = { 'ipaddress.kubernetes.io/ip-family': 'IPv5' }
      const body = { metadata: { labels: random.next() < 0.6 ? labels : family } }
      await api.patch(ipAddresses, { name: ip }, { type: 'merge', body }).catch(() => {})
      return `change the labels of IPAddress ${ip}`
    }
    await this.#deleteAddress(ip)
    const parent = this.#wrongParent()
    await api.create(ipAddresses, addressOf(ip, parent, labelsOf(ip))).catch(() => {})
    return `let IPAddress ${ip} name ${parent.resource} ${parent.name}`
  }

  async #deleteAddress(ip: string): Promise<void> {
    this.#options.ledger.spoiled.add(ip)
    await this.#options.api.delete(ipAddresses, { name: ip }).catch(() => {})
  }

  #wrongParent(): { readonly resource: string; readonly namespace: string; readonly name: string } {
    const { random, ledger } = this.#options
    const [namespace = 'default', name = 'gone'] =
      this.#pick([...ledger.services.keys(), 'default/gone'])?.split('/') ?? []
    return { resource: random.next() < 0.8 ? 'services' : 'gateways', namespace, name }
  }

  #some(items: readonly string[]): readonly string[] {
    return items.filter(() => this.#options.random.next() < 0.4)
  }

  #pick<T>(items: readonly T[]): T {
    return items[randomInteger(this.#options.random, items.length)] as T
  }
}

function labelsOf(ip: string): Readonly<Record<string, string>> {
  return {
    'ipaddress.kubernetes.io/ip-family': ip.includes(':') ? 'IPv6' : 'IPv4',
    'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
  }
}

function addressOf(ip: string, parentRef: object, labels: Readonly<Record<string, string>>): IpAddress {
  return { metadata: { name: ip, labels }, spec: { parentRef: { group: '', ...parentRef } } } as IpAddress
}
