import { EtcdError, type EtcdKv } from '../../src/etcd/kv.ts'
import type { IpAddress, KubeObject, Service } from '../../src/kube/resources.ts'
import type { ApiRequest, Transport } from '../../src/kube/transport.ts'
import { Bitmap } from '../../src/net/bitmap.ts'
import { decodeRangeAllocation } from '../../src/protobuf/range-allocation.ts'
import { clusterIpsOf, nodePortsOf } from '../../src/repair/service-claims.ts'
import type { VirtualClock } from '../../src/runtime/virtual-clock.ts'
import type { ItemRanges } from './repair-composition.ts'
import { type Holder, type LedgerReader, type Making, type Noted, nobody } from './repair-ledger-reader.ts'

/** Everything that is stored at this moment, and who has claims to it. The invariants are judged by it. */
export class Ledger {
  readonly services = new Map<string, Holder>()
  readonly addresses = new Map<string, Noted>()
  /** Items whose bits are set. */
  readonly bits = new Set<string>()
  /** When the bit of an item was last set. */
  readonly setAtMs = new Map<string, number>()
  readonly making = new Set<Making>()
  /** Items that a server will still release, each as often as it will be released. */
  readonly releasing: string[] = []
  /** When a stored Service last stopped holding an item. */
  readonly heldUntilMs = new Map<string, number>()
  /** Items without expectations, because they were damaged or a server released them twice. */
  readonly spoiled = new Set<string>()
  readonly transcript: string[] = []
  /** Counts every change. */
  version = 0
  readonly ranges: ItemRanges
  readonly #time: VirtualClock
  #reader: LedgerReader = nobody
  /**
   * When a writer first read a revision of a range. For writers that know the revision otherwise: when it was written.
   */
  readonly #reads = new Map<string, number>()

  constructor(time: VirtualClock, ranges: ItemRanges) {
    this.#time = time
    this.ranges = ranges
  }

  /** Reports every change from now on. */
  follow(reader: LedgerReader): void {
    this.#reader = reader
  }

  holdersOf(item: string): readonly Holder[] {
    return [...this.services.values()].filter(({ items }) => items.has(item))
  }

  makersOf(item: string): readonly Making[] {
    return [...this.making].filter(({ items }) => items.has(item))
  }

  /** Begins a request. Until it ends, it owns what it allocates. */
  begin(key: string): Making {
    const making: Making = { key, sinceMs: this.#time.nowMs, items: new Set(), uids: new Set() }
    this.making.add(making)
    return making
  }

  /** Records what a server will release. */
  willRelease(items: readonly string[]): void {
    this.releasing.push(...items)
  }

  released(item: string): void {
    const index = this.releasing.indexOf(item)
    if (index >= 0) this.releasing.splice(index, 1)
    this.version++
  }

  /** The API server as `by` reaches it. Records every write. `isDown`: whether the store behind the server is down. */
  transport(inner: Transport, by: string, isDown: () => boolean = () => false): Transport {
    return {
      send: async (request, signal) => {
        if (isDown()) return { status: 500, headers: {}, body: etcdIsAway }
        const response = await inner.send(request, signal)
        if (request.method === 'GET') return response
        if (response.status >= 300) this.#reader.refused(by, request, response.status)
        else if ('body' in response) this.#written(by, request, response.body as KubeObject)
        return response
      },
      close: () => inner.close(),
    }
  }

  /** The store of the bitmaps as `by` reaches it. Records every write. `isDown`: whether the store is down. */
  kv(inner: EtcdKv, by: string, isDown: () => boolean = () => false): EtcdKv {
    const up = (): void => {
      if (isDown()) throw new EtcdError('Unreachable', 'connection refused')
    }
    return {
      ...inner,
      get: async (key, signal) => {
        up()
        const found = await inner.get(key, signal)
        const read = `${by} ${key} ${found?.modRevision}`
        if (!this.#reads.has(read)) this.#reads.set(read, this.#time.nowMs)
        return found
      },
      create: async (key, value, options) => {
        up()
        const revision = await inner.create(key, value, options)
        if (revision !== undefined) this.#rangeWritten(by, key, value, { revision, readAtMs: this.#time.nowMs })
        return revision
      },
      update: async (key, value, modRevision, options) => {
        up()
        const revision = await inner.update(key, value, modRevision, options)
        if (revision === undefined) this.#reader.overtaken(by)
        else {
          const readAtMs = this.#reads.get(`${by} ${key} ${modRevision}`) ?? this.#reads.get(`${modRevision}`)
          this.#rangeWritten(by, key, value, { revision, readAtMs: readAtMs ?? Number.POSITIVE_INFINITY })
        }
        return revision
      },
    }
  }

  #written(by: string, { method, path }: ApiRequest, body: KubeObject): void {
    const [, plural = '', name = ''] = /\/(services|ipaddresses)(?:\/([^/]+))?$/.exec(path) ?? []
    if (plural === 'services') this.#serviceWritten(by, method, path, body as Service)
    if (plural === 'ipaddresses') this.#addressWritten(by, method, decodeURIComponent(name), body as IpAddress)
  }

  #serviceWritten(by: string, method: string, path: string, object: Service): void {
    const [, namespace, name = object.metadata?.name] = /namespaces\/([^/]+)\/services(?:\/([^/]+))?$/.exec(path) ?? []
    const key = `${namespace}/${name}`
    const before = this.services.get(key)
    const after = method === 'DELETE' ? undefined : holderOf(key, object)
    this.#note(`${by} ${method} ${key} ${[...(after?.items ?? [])].join()}`)
    this.#reader.serviceStored(before, after)
    if (after === undefined) this.services.delete(key)
    else this.services.set(key, after)
    for (const item of before?.items ?? []) {
      if (after?.items.has(item) !== true) this.heldUntilMs.set(item, this.#time.nowMs)
    }
  }

  #addressWritten(by: string, method: string, name: string, object: IpAddress): void {
    const before = this.addresses.get(name)
    this.#note(`${by} ${method} ${name === '' ? object.metadata?.name : name} ${object.spec?.parentRef?.name ?? ''}`)
    if (method === 'DELETE') {
      if (before === undefined) return
      this.#reader.addressGone(before, by)
      this.addresses.delete(name)
      return
    }
    const atMs = this.#time.nowMs
    const noted = notedOf(object, method === 'POST' ? { by, atMs } : (before ?? { by, atMs }))
    if (method === 'POST') this.#reader.addressMade(noted)
    else this.#reader.addressChanged(noted, by)
    this.addresses.set(noted.ip, noted)
  }

  #rangeWritten(
    by: string,
    key: string,
    value: Uint8Array,
    { revision, readAtMs }: { readonly revision: bigint; readonly readAtMs: number },
  ): void {
    this.#reads.set(`${revision}`, this.#time.nowMs)
    const range = this.ranges.all.find((one) => one.key === key)
    const stored = decodeRangeAllocation(value)
    if (range === undefined || stored.type === 'unreadable') return
    const bitmap = Bitmap.fromBytes(range.allocation.size, stored.data)
    if (bitmap === undefined) throw new Error(`${by} stored a bitmap that is too large under ${key}`)
    const now = new Set([...bitmap].map((offset) => range.items[offset] as string))
    const set = [...now].filter((item) => !this.bits.has(item))
    const cleared = range.items.filter((item) => this.bits.has(item) && !now.has(item))
    this.#note(`${by} ${range.name} +${set.join()} -${cleared.join()}`)
    this.#reader.rangeWritten({ by, range, set, cleared, readAtMs })
    for (const item of set) {
      this.bits.add(item)
      this.setAtMs.set(item, this.#time.nowMs)
    }
    for (const item of cleared) this.bits.delete(item)
  }

  #note(text: string): void {
    this.version++
    this.transcript.push(`${Math.round(this.#time.nowMs * 1000) / 1000} ${text}`)
  }
}

const etcdIsAway = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 500, message: 'etcdserver: no leader' }

function holderOf(key: string, object: Service): Holder {
  const { metadata, spec } = object
  const items = new Set([...clusterIpsOf(object), ...nodePortsOf(object).map(String)])
  return { key, uid: metadata?.uid ?? '', type: spec?.type ?? '', items, object }
}

function notedOf({ metadata, spec }: IpAddress, { by, atMs }: Pick<Noted, 'by' | 'atMs'>): Noted {
  const { group = '', resource, namespace, name } = spec?.parentRef ?? {}
  const ip = metadata?.name ?? ''
  const managed = metadata?.labels?.['ipaddress.kubernetes.io/managed-by'] === 'ipallocator.k8s.io'
  const family = metadata?.labels?.['ipaddress.kubernetes.io/ip-family'] === (ip.includes(':') ? 'IPv6' : 'IPv4')
  const parent = group === '' && resource === 'services' ? `${namespace}/${name}` : undefined
  return { ip, uid: metadata?.uid ?? '', parent, managed, labelled: managed && family, by, atMs }
}
