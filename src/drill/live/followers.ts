import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import type { KubeObject } from '../../kube/json.ts'
import { endpointSlices, endpoints, type Resource } from '../../kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { EtcdLeaseKeys } from '../../kubernetes-service/leases/etcd-keys.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Listing } from '../../verify/listing.ts'
import { followKubernetesLeases, LeaseAddresses } from '../follow-leases.ts'
import { followListings } from '../listings.ts'
import { followObjects } from '../observed-objects.ts'
import type { TargetObserver } from '../target.ts'
import type { Cluster } from './cluster.ts'

/** After a watch that ended, in milliseconds. */
const AGAIN_MS = 200

/** What a damage can be done to. */
export type Spoiled = Listing['object'] | 'service'

/** What a drill sees of the cluster, past all proxies, with the times at which it heard of it. */
export interface FollowOptions {
  readonly cluster: Cluster
  readonly clock: Clock
  readonly observer: TargetObserver
  /** Whether the next version of an object is what a damage made of it. */
  readonly spoiled: (object: Spoiled) => boolean
  readonly signal: AbortSignal
}

/** Follows everything until the signal is aborted; what breaks is opened again. */
export async function followCluster(options: FollowOptions): Promise<void> {
  const { cluster, signal } = options
  const { api } = cluster
  await Promise.all([
    ...(['endpoints', 'slice'] as const).map((object) => again(options, () => followObject(options, object))),
    again(options, () =>
      followObjects(
        api,
        (found) =>
          options.observer.objects({
            ...found,
            atMs: options.clock.monotonicMs(),
            byDamage: options.spoiled('service'),
          }),
        signal,
      ),
    ),
    again(options, () => followLeases(options)),
  ])
}

async function again({ clock, signal }: FollowOptions, follow: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await follow().catch(() => {})
    await sleep(clock, AGAIN_MS, signal).catch(() => {})
  }
}

async function followObject(options: FollowOptions, object: Listing['object']): Promise<void> {
  const { cluster, clock, observer, spoiled, signal } = options
  const hear = (addresses: readonly string[] | undefined): void =>
    observer.listed({ atMs: clock.monotonicMs(), object, addresses, byDamage: spoiled(object), by: undefined })
  // A watch that begins with what is there says nothing of what is not.
  const { api } = cluster
  const found = object === 'endpoints' ? isThere(api, endpoints, signal) : isThere(api, endpointSlices, signal)
  if (!(await found)) hear(undefined)
  await followListings(cluster.api, object, hear, signal)
}

async function isThere(api: KubeApi, kind: Resource<KubeObject>, signal: AbortSignal): Promise<boolean> {
  try {
    await api.get(kind, KUBERNETES_SERVICE, { signal })
    return true
  } catch (error) {
    if (isKubeError(error, 'NotFound')) return false
    throw error
  }
}

function followLeases(options: FollowOptions): Promise<void> {
  const { cluster, observer, signal } = options
  if (cluster.leaseStore === 'etcd') return followEtcdLeases(options)
  return followKubernetesLeases(cluster.api, (addresses) => observer.leases(addresses), signal)
}

async function followEtcdLeases({ cluster, observer, signal }: FollowOptions): Promise<void> {
  if (cluster.etcd === undefined) return
  const { kv, prefix } = cluster.etcd
  const keys = new EtcdLeaseKeys(prefix)
  const addresses = new LeaseAddresses((listed) => observer.leases(listed))
  const add = (key: string): void => addresses.set(key, key.slice(keys.leases.length))
  await kv.watch(keys.leases, {
    onChange: (changes) => {
      if (changes === undefined) {
        // The watch stands anew: whatever may have happened meanwhile is in a list.
        kv.list(keys.leases, { signal }).then(
          ({ items }) => {
            addresses.clear()
            for (const { key } of items) add(key)
            addresses.tell()
          },
          () => {},
        )
        return
      }
      for (const { type, key } of changes) {
        if (type === 'deleted') addresses.set(key, undefined)
        else add(key)
      }
      addresses.tell()
    },
    report: () => {},
    signal,
  })
}
