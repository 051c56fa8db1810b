import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type Lease, leases } from '../../kube/resources.ts'
import type { Clock } from '../../runtime/clock.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { decodeHolder } from './holder-record.ts'
import type { LeaseInspector, LeaseSighting } from './inspect.ts'
import { HOLDER_ANNOTATION, LABEL_SELECTOR, NAMESPACE } from './kubernetes.ts'

/** Of a Lease that does not say; masters always do. */
const DEFAULT_TTL_MS = 15_000

/** Shows and removes the coordination.k8s.io Leases of masters. Whether one is renewed is known only to who watches it. */
export class KubernetesLeaseInspector implements LeaseInspector {
  readonly #api: KubeApi
  readonly #clock: Clock
  readonly #seen = new WeakMap<LeaseSighting, Lease>()

  constructor(options: { readonly api: KubeApi; readonly clock: Clock }) {
    this.#api = options.api
    this.#clock = options.clock
  }

  async inspect(signal: AbortSignal): Promise<readonly LeaseSighting[]> {
    const { items } = await this.#api.list(leases, { namespace: NAMESPACE, labelSelector: LABEL_SELECTOR, signal })
    return items.map((lease) => {
      const sighting = this.#sighting(lease)
      this.#seen.set(sighting, lease)
      return sighting
    })
  }

  async evict(sighting: LeaseSighting, signal: AbortSignal): Promise<boolean> {
    const { name = '', uid, resourceVersion } = this.#seen.get(sighting)?.metadata ?? {}
    try {
      await this.#api.delete(leases, { namespace: NAMESPACE, name }, { uid, resourceVersion, signal })
      return true
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return false
      throw error
    }
  }

  #sighting({ metadata, spec }: Lease): LeaseSighting {
    const holder = decodeHolder(metadata?.annotations?.[HOLDER_ANNOTATION])
    const ttlMs = spec?.leaseDurationSeconds === undefined ? DEFAULT_TTL_MS : spec.leaseDurationSeconds * 1000
    const renewedMs = tryParseTime(spec?.renewTime ?? '')
    return {
      id: `Lease ${NAMESPACE}/${metadata?.name}`,
      revision: metadata?.resourceVersion ?? '',
      address: holder?.addresses[0],
      holders: holder === undefined ? [] : [holder],
      life: {
        type: 'renewed',
        ttlMs,
        leftMs: renewedMs === undefined ? undefined : renewedMs + ttlMs - this.#clock.wallMs(),
      },
      leased: true,
      odd: holder === undefined ? [{ type: 'unreadable', reason: `Lease ${metadata?.name} names no holder` }] : [],
    }
  }
}
