import type { EtcdKv } from '../../src/etcd/kv.ts'
import type { KubeApi } from '../../src/kube/api.ts'
import { ipAddresses } from '../../src/kube/resources.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { decodeRangeAllocation, encodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import { type Random, randomInteger } from '../../src/runtime/random.ts'
import { type AddressBook, type ItemRange, isAddress } from './repair-composition.ts'
import type { RepairCoverage } from './repair-coverage.ts'
import type { Ledger } from './repair-ledger.ts'
import type { Making } from './repair-ledger-reader.ts'
import { Ended, type Patience, type Step } from './repair-pace.ts'

/** The server refuses a request. */
export class Refused extends Error {}

/** What a user requests. */
export interface ServiceRequest {
  readonly namespace: string
  readonly name: string
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName'
  readonly families: 1 | 2
  /** A specific address or port, without which the request fails. */
  readonly clusterIp?: string | undefined
  readonly nodePort?: string | undefined
  /** The number of NodePorts, if the type has any. */
  readonly ports: number
  /** How fast the server handles the request. @default random */
  readonly patience?: Patience | undefined
}

export interface AllocatorsOptions {
  readonly ledger: Ledger
  readonly api: KubeApi
  readonly etcd: EtcdKv
  readonly random: Random
  readonly book: AddressBook
  readonly coverage: RepairCoverage
}

/**
 * The allocators of one kube-apiserver. They allocate and release step by step.
 *
 * Upstream: ipallocator/{ipallocator,cidrallocator}.go, portallocator/operation.go and allocator/storage/storage.go in
 * pkg/registry/core/service (compare-and-put; the release of a bit that is not set writes nothing).
 */
export class Allocators {
  readonly #options: AllocatorsOptions
  readonly #signal = new AbortController().signal

  constructor(options: AllocatorsOptions) {
    this.#options = options
  }

  /** Allocates the addresses of a Service, and returns the fields of its spec for them. */
  async addresses(request: ServiceRequest, step: Step, making: Making): Promise<object> {
    const { ledger } = this.#options
    const ranges = ledger.ranges.addresses.slice(0, request.families)
    const clusterIPs: string[] = []
    for (const range of ranges) {
      const wanted =
        request.clusterIp !== undefined && range.items.includes(request.clusterIp) ? request.clusterIp : undefined
      clusterIPs.push(await this.#takeAddress(range, wanted, step, making))
    }
    const dual = clusterIPs.length > 1
    return {
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: clusterIPs.map((ip) => (ip.includes(':') ? 'IPv6' : 'IPv4')),
      ipFamilyPolicy: dual ? 'PreferDualStack' : 'SingleStack',
    }
  }

  async #takeAddress(range: ItemRange, wanted: string | undefined, step: Step, making: Making): Promise<string> {
    const { book, ledger } = this.#options
    // The copy of the lister gets old during the pause.
    const listed = new Set(ledger.addresses.keys())
    await step()
    if (book === 'objects') {
      const free = range.items.filter((item) => !listed.has(item))
      for (const ip of wanted === undefined ? this.#shuffled(free) : [wanted]) {
        if (await this.#note(ip, making)) return ip
        await step()
      }
      throw new Refused('no address is free')
    }
    const ip = await this.#takeBit(range, wanted, step, making)
    if (book === 'bitmap') return ip
    await step()
    if (await this.#note(ip, making)) return ip
    // Upstream leaks the bit.
    making.items.delete(ip)
    this.#options.coverage.count('a bit was leaked because its IPAddress was there')
    throw new Refused('provided IP is already allocated')
  }

  /** Creates the IPAddress of an address. Returns false if that fails, for example because it exists. */
  async #note(ip: string, making: Making): Promise<boolean> {
    const { api, ledger, coverage } = this.#options
    const family = ip.includes(':') ? 'IPv6' : 'IPv4'
    const labels = {
      'ipaddress.kubernetes.io/ip-family': family,
      'ipaddress.kubernetes.io/managed-by': 'ipallocator.k8s.io',
    }
    const [namespace = '', name = ''] = making.key.split('/')
    if (ledger.services.get(making.key)?.type === 'ExternalName') {
      coverage.count('an IPAddress was made for a Service that was still ExternalName')
    }
    const object = {
      metadata: { name: ip, labels },
      spec: { parentRef: { group: '', resource: 'services', namespace, name } },
    }
    const made = await api.create(ipAddresses, object).catch(() => undefined)
    if (made === undefined) return false
    making.items.add(ip)
    making.uids.add(made.metadata?.uid ?? '')
    return true
  }

  /** Allocates the NodePorts of a Service. The last one of a LoadBalancer is for health checks. */
  async nodePorts(step: Step, making: Making, { nodePort, ports, type }: ServiceRequest): Promise<string[]> {
    const taken: string[] = []
    const count = type === 'LoadBalancer' ? ports + 1 : ports
    for (let i = 0; i < count; i++) {
      await step()
      taken.push(
        await this.#takeBit(this.#options.ledger.ranges.nodePorts, i === 0 ? nodePort : undefined, step, making),
      )
    }
    return taken
  }

  async #takeBit(range: ItemRange, wanted: string | undefined, step: Step, making: Making): Promise<string> {
    const item = await this.#change(range, step, (bitmap) => {
      const free = wanted === undefined ? this.#shuffled(range.items) : [wanted]
      return free.find((one) => bitmap.add(range.items.indexOf(one)))
    })
    if (item === undefined) throw new Refused('provided port is already allocated')
    making.items.add(item)
    return item
  }

  /**
   * Releases what a Service held, even if another Service holds an item by now. What remains when the server ends is
   * leaked.
   */
  async release(step: Step, items: readonly string[]): Promise<void> {
    const { book, ledger, api, coverage } = this.#options
    const rest = [...items]
    try {
      for (const item of items) {
        await step()
        const range = ledger.ranges.of(item)
        const done = (bitmap: Bitmap): true => {
          bitmap.delete(range.items.indexOf(item))
          return true
        }
        if (!isAddress(item) || book !== 'objects') await this.#change(range, step, done)
        if (isAddress(item) && book !== 'bitmap') await api.delete(ipAddresses, { name: item }).catch(() => {})
        ledger.released(item)
        rest.shift()
      }
    } catch (error) {
      if (error instanceof Ended) coverage.count('a server ended before it had given everything back')
      throw error
    } finally {
      for (const item of rest) ledger.released(item)
    }
  }

  /** GuaranteedUpdate of a bitmap. If `change` returns undefined, it returns undefined and writes nothing. */
  async #change<T>(range: ItemRange, step: Step, change: (bitmap: Bitmap) => T | undefined): Promise<T | undefined> {
    const { etcd, random } = this.#options
    for (;;) {
      const found = await etcd.get(range.key, this.#signal)
      const stored = found === undefined ? undefined : decodeRangeAllocation(found.value)
      if (found === undefined || stored?.type !== 'protobuf') throw new Refused('cannot allocate at this time')
      const bitmap = Bitmap.fromBytes(range.allocation.size, stored.data) as Bitmap
      const before = bitmap.toBytes()
      const result = change(bitmap)
      if (result === undefined || Buffer.compare(bitmap.toBytes(), before) === 0) return result
      if (random.next() < 0.3) await step()
      const value = encodeRangeAllocation({ range: stored.range, data: bitmap.toBytes() }, stored)
      if ((await etcd.update(range.key, value, found.modRevision, { signal: this.#signal })) !== undefined)
        return result
    }
  }

  #shuffled<T>(items: readonly T[]): readonly T[] {
    const start = randomInteger(this.#options.random, Math.max(items.length, 1))
    return [...items.slice(start), ...items.slice(0, start)]
  }
}
