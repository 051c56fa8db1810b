import type { EtcdKv } from '../etcd/kv.ts'
import type { KubeApi } from '../kube/api.ts'
import { type Lease, leases } from '../kube/resources.ts'
import { EtcdLeaseKeys } from '../kubernetes-service/leases/etcd-keys.ts'
import { decodeHolder } from '../kubernetes-service/leases/holder-record.ts'
import { HOLDER_ANNOTATION, LABEL_SELECTOR, LEASE_NAMESPACE } from '../kubernetes-service/leases/kubernetes.ts'
import type { MemoryLeaseRegistry } from '../kubernetes-service/leases/memory.ts'
import { WATCH_SECONDS } from './listings.ts'

/** Hears whose leases are in the store: their addresses, in order, each time that they change. */
export type HearLeases = (addresses: readonly string[]) => void

/** The addresses of what is in a store by key, told when they have changed. */
export class LeaseAddresses {
  readonly #byKey = new Map<string, string>()
  readonly #hear: HearLeases
  #told = '[]'

  constructor(hear: HearLeases) {
    this.#hear = hear
  }

  set(key: string, address: string | undefined): void {
    if (address === undefined) this.#byKey.delete(key)
    else this.#byKey.set(key, address)
  }

  clear(): void {
    this.#byKey.clear()
  }

  tell(addresses = [...this.#byKey.values()].sort()): void {
    const text = JSON.stringify(addresses)
    if (text === this.#told) return
    this.#told = text
    this.#hear(addresses)
  }
}

/** Leases where kube-apiserver keeps its own, until the signal is aborted. */
export async function followEtcdLeases(
  etcd: EtcdKv,
  prefix: string,
  hear: HearLeases,
  signal: AbortSignal,
): Promise<void> {
  const addresses = new LeaseAddresses(hear)
  const keys = new EtcdLeaseKeys(prefix)
  const onChange: Parameters<EtcdKv['watch']>[1]['onChange'] = (changes = []) => {
    for (const { type, key } of changes) {
      addresses.set(key, type === 'deleted' ? undefined : keys.addressOfLease(key))
    }
    addresses.tell()
  }
  await etcd.watch(keys.leases, { onChange, report: () => {}, signal })
}

/** Lease objects of the API, until the signal is aborted. */
export async function followKubernetesLeases(api: KubeApi, hear: HearLeases, signal: AbortSignal): Promise<void> {
  const addresses = new LeaseAddresses(hear)
  const query = {
    namespace: LEASE_NAMESPACE,
    labelSelector: LABEL_SELECTOR,
    sendInitialEvents: true,
    timeoutSeconds: WATCH_SECONDS,
    signal,
  }
  for await (const event of api.watch(leases, query)) {
    if (event.type === 'BOOKMARK' || event.type === 'ERROR') continue
    const { metadata } = event.object as Lease
    const holder = event.type === 'DELETED' ? undefined : decodeHolder(metadata?.annotations?.[HOLDER_ANNOTATION])
    addresses.set(metadata?.name ?? '', holder?.addresses[0])
    addresses.tell()
  }
}

/** Leases in a memory. Returns what ends it. */
export function followMemoryLeases(registry: MemoryLeaseRegistry, hear: HearLeases): () => void {
  const addresses = new LeaseAddresses(hear)
  const look = (): void =>
    addresses.tell(
      registry
        .list()
        .map(({ address }) => address)
        .sort(),
    )
  return registry.subscribe(look)
}
