import { get } from 'node:http'
import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { endpointSlices, endpoints, type KubeObject, type Resource } from '../../kube/resources.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import { EtcdLeaseKeys } from '../../kubernetes-service/leases/etcd/snapshot.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import type { Listing, ObservedRequest } from '../../verify/observation.ts'
import { followKubernetesLeases, followListings, followObjects, LeaseAddresses } from '../listings.ts'
import type { TargetObserver } from '../target.ts'
import type { Cluster } from './cluster.ts'

/** After a watch that ended, in milliseconds. */
const AGAIN_MS = 200

/** The objects that can be damaged. */
export type Spoiled = Listing['object'] | 'service'

/** The observations of the cluster without proxies, with their times of arrival. */
interface FollowOptions {
  readonly cluster: Cluster
  readonly clock: Clock
  readonly observer: TargetObserver
  /** Whether the next version of an object is the result of damage. */
  readonly spoiled: (object: Spoiled) => boolean
  readonly signal: AbortSignal
}

/** Follows everything until the signal is aborted; broken watches are reopened. */
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
  const report = (addresses: readonly string[] | undefined): void =>
    observer.listed({ atMs: clock.monotonicMs(), object, addresses, byDamage: spoiled(object), by: undefined })
  // A watch that begins with the present state does not report missing objects.
  const { api } = cluster
  const found = object === 'endpoints' ? isThere(api, endpoints, signal) : isThere(api, endpointSlices, signal)
  if (!(await found)) report(undefined)
  await followListings(cluster.api, object, report, signal)
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
        // The watch is open again: a list shows what happened meanwhile.
        kv.list(keys.leases, { signal }).then(
          ({ items }) => {
            addresses.clear()
            for (const { key } of items) add(key)
            addresses.report()
          },
          () => {},
        )
        return
      }
      for (const { type, key } of changes) {
        if (type === 'deleted') addresses.set(key, undefined)
        else add(key)
      }
      addresses.report()
    },
    report: () => {},
    signal,
  })
}

type Request = ObservedRequest['request']

const LIMIT_MS = 900
const PATHS: Readonly<Record<string, string>> = {
  Service: '/api/v1/namespaces/default/services/kubernetes',
  Endpoints: '/api/v1/namespaces/default/endpoints/kubernetes',
  EndpointSlice: '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes',
}
const METHODS = { create: 'POST', update: 'PUT', delete: 'DELETE' } as const

/** The writes of one life of a sidecar, from its metrics. */
export class WriteCounts {
  /** By counter. */
  #counted = new Map<string, number>()
  readonly #leasesAreObjects: boolean

  constructor(leasesAreObjects: boolean) {
    this.#leasesAreObjects = leasesAreObjects
  }

  /** The writes since the last call. None when its metrics are not available. */
  async next(where: { readonly host: string; readonly port: number }): Promise<readonly Request[]> {
    const text = await textOf(where).catch(() => undefined)
    if (text === undefined) return []
    const totals = this.#totalsIn(text)
    const requests: Request[] = []
    for (const [what, total] of totals) {
      const [method = 'PUT', path = ''] = what.split(' ')
      for (let count = this.#counted.get(what) ?? 0; count < total; count++) {
        requests.push({ method: method as Request['method'], path })
      }
    }
    this.#counted = totals
    return requests
  }

  #totalsIn(text: string): Map<string, number> {
    const totals = new Map<string, number>()
    for (const [, labels = '', value] of text.matchAll(/^apiserver_bootstrap_writes_total\{(.*)\} (\d+)$/gm)) {
      const kind = labelIn(labels, 'kind')
      const verb = labelIn(labels, 'verb') as keyof typeof METHODS
      const what = `${METHODS[verb] ?? 'PUT'} ${PATHS[kind] ?? kind}`
      // One write counts once for each difference that it corrects.
      totals.set(what, Math.max(totals.get(what) ?? 0, Number(value)))
    }
    const [, renewals] = /^apiserver_bootstrap_lease_renewals_total\{result="success"\} (\d+)$/m.exec(text) ?? []
    if (this.#leasesAreObjects && renewals !== undefined) {
      totals.set('PUT /apis/coordination.k8s.io/v1/namespaces/kube-system/leases/', Number(renewals))
    }
    return totals
  }
}

function labelIn(labels: string, name: string): string {
  return new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? ''
}

function textOf({ host, port }: { readonly host: string; readonly port: number }): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get({ host, port, path: '/metrics', agent: false, timeout: LIMIT_MS }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
      })
      response.on('end', () => resolve(text))
      response.on('error', reject)
    })
    // A frozen sidecar does not answer.
    request.on('timeout', () => request.destroy(new Error('no answer')))
    request.on('error', reject)
  })
}
