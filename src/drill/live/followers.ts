import { ifFound } from '../../kube/errors.ts'
import { endpointSlices, endpoints, type KubeObject, type Resource } from '../../kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Listing } from '../../verify/observation.ts'
import { type Found, followEtcdLeases, followKubernetesLeases, followListings, followObjects } from '../listings.ts'
import type { TargetObserver } from '../target.ts'
import type { Cluster } from './cluster.ts'

/** The pause between the end of a watch and the next attempt, in milliseconds. */
const AGAIN_MS = 200

export type DamagedObject = Listing['object'] | 'service'

/** The time of an observation is the time of its arrival. */
interface FollowOptions {
  readonly cluster: Cluster
  readonly clock: Clock
  readonly observer: Pick<TargetObserver, 'objects' | 'leases'>
  readonly listed: TargetObserver['listed']
  /** Whether a new version of an object is the result of damage. Called once for each version. */
  readonly takeDamage: (object: DamagedObject) => boolean
  readonly signal: AbortSignal
}

/**
 * Follows the listings, the Service, the namespaces and the leases until the signal is aborted. Reopens watches that
 * end or break.
 */
export async function followCluster(options: FollowOptions): Promise<void> {
  const { cluster, signal } = options
  const { api } = cluster
  await Promise.all([
    ...(['endpoints', 'slice'] as const).map((object) => again(options, () => followObject(options, object))),
    again(options, () => {
      let last: Found['service']
      return followObjects(
        api,
        (found) => {
          // A report of a changed namespace repeats the last version of the Service.
          const byDamage = found.service !== last && options.takeDamage('service')
          last = found.service
          options.observer.objects({ ...found, atMs: options.clock.monotonicMs(), byDamage })
        },
        signal,
      )
    }),
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
  const { cluster, clock, listed, takeDamage, signal } = options
  const report = (addresses: readonly string[] | undefined): void =>
    listed({ atMs: clock.monotonicMs(), object, addresses, byDamage: takeDamage(object), by: undefined })
  // A watch reports nothing about an object that does not exist when the watch begins.
  const kind = object === 'endpoints' ? endpoints : endpointSlices
  const found = await ifFound<KubeObject>(cluster.api.get(kind as Resource<KubeObject>, KUBERNETES_SERVICE, { signal }))
  if (found === undefined) report(undefined)
  await followListings(cluster.api, object, report, signal)
}

function followLeases({ cluster: { api, etcd, leaseStore }, observer, signal }: FollowOptions): Promise<void> {
  const report = (addresses: readonly string[]): void => observer.leases(addresses)
  return leaseStore === 'etcd' && etcd !== undefined
    ? followEtcdLeases(etcd.kv, etcd.prefix, report, signal)
    : followKubernetesLeases(api, report, signal)
}
