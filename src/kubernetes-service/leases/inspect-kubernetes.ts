import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { referenceIn } from '../../kube/event-object.ts'
import { listPages } from '../../kube/list-pages.ts'
import { type Lease, leases } from '../../kube/resources.ts'
import type { Clock } from '../../runtime/clock.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { deleteAsRead } from './ended-leases.ts'
import type { LeaseInspector, LeaseSighting } from './inspect.ts'
import { holderOf, LABEL_SELECTOR, LEASE_NAMESPACE } from './kubernetes.ts'

/** Of a Lease that does not say; masters always do. */
const DEFAULT_TTL_MS = 15_000

/** Shows and removes the coordination.k8s.io Leases of masters. Whether one is renewed is known only to who watches it. */
export class KubernetesLeaseInspector implements LeaseInspector {
  readonly #api: KubeApi
  readonly #clock: Clock
  readonly #namespace: string
  readonly #seen = new WeakMap<LeaseSighting, Lease>()

  constructor(options: { readonly api: KubeApi; readonly clock: Clock; readonly namespace?: string | undefined }) {
    this.#api = options.api
    this.#clock = options.clock
    this.#namespace = options.namespace ?? LEASE_NAMESPACE
  }

  async inspect(signal: AbortSignal): Promise<readonly LeaseSighting[]> {
    const query = { namespace: this.#namespace, labelSelector: LABEL_SELECTOR, signal }
    const pages = await Array.fromAsync(listPages(this.#api, leases, query))
    return pages.flat().map((lease) => this.#sighting(lease))
  }

  async evict(sighting: LeaseSighting, signal: AbortSignal): Promise<boolean> {
    const lease = this.#seen.get(sighting)
    if (lease === undefined) return false
    try {
      await deleteAsRead(this.#api, lease, { signal })
      return true
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return false
      throw error
    }
  }

  #sighting(lease: Lease): LeaseSighting {
    const { metadata, spec } = lease
    const holder = holderOf(lease)
    const ttlMs = spec?.leaseDurationSeconds === undefined ? DEFAULT_TTL_MS : spec.leaseDurationSeconds * 1000
    const renewedMs = tryParseTime(spec?.renewTime ?? '')
    const leftMs = renewedMs === undefined ? undefined : renewedMs + ttlMs - this.#clock.wallMs()
    const sighting: LeaseSighting = {
      id: `Lease ${this.#namespace}/${metadata?.name}`,
      object: referenceIn(leases, lease),
      revision: metadata?.resourceVersion ?? '',
      address: holder?.addresses[0],
      holders: holder === undefined ? [] : [holder],
      life: { type: 'renewed', ttlMs, leftMs },
      leased: true,
      odd: holder === undefined ? [{ type: 'unreadable', reason: `Lease ${metadata?.name} names no holder` }] : [],
    }
    this.#seen.set(sighting, lease)
    return sighting
  }
}
