import { observerRules } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags, Resolved } from '../config/resolve.ts'
import { humanDuration } from '../documents/human-duration.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { KubeApi } from '../kube/api.ts'
import { isKubeError } from '../kube/errors.ts'
import { endpoints } from '../kube/resources.ts'
import { addressesIn, KUBERNETES_SERVICE } from '../kubernetes-service/identity.ts'
import type { LeaseInspector, LeaseSighting } from '../kubernetes-service/leases/inspect.ts'
import { LeaseWatch, type Verdict } from '../kubernetes-service/leases/lease-watch.ts'
import type { Clock } from '../runtime/clock.ts'
import { RemoteError } from '../runtime/remote-error.ts'
import { linkedController } from '../runtime/signals.ts'
import { systemClock } from '../runtime/system-clock.ts'
import { systemRandom } from '../runtime/system-random.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'
import { type ApiServer, openApiServer, type Surroundings } from './api-server.ts'
import { openEtcd } from './etcd-store.ts'

/** Between two reads, in milliseconds. */
export const READ_INTERVAL_MS = 1_000
/** How long one read, or one removal, may take, in milliseconds. */
const LIMIT_MS = 15_000
/** Longer without a read does not count as watching, in milliseconds. */
const MAX_GAP_MS = 5_000

/** What one read showed. */
export interface MastersReading {
  readonly sightings: readonly LeaseSighting[]
  /** What Endpoints list; undefined when they could not be read. */
  readonly listed: readonly string[] | undefined
  /** Why not, in one line. */
  readonly unlistedReason: string | undefined
  verdict(sighting: LeaseSighting): Verdict
}

/** The leases of a fleet and what is listed, for the commands that show and mend them. */
export class MastersSource {
  readonly clock: Clock
  readonly leaseStore: 'etcd' | 'kubernetes'
  readonly #inspector: LeaseInspector
  /** Undefined, with the reason why, when there is only etcd. */
  readonly #api: KubeApi | string
  readonly #watch = new LeaseWatch({ maxGapMs: MAX_GAP_MS })
  readonly #close: () => Promise<void>

  constructor(parts: {
    readonly clock: Clock
    readonly leaseStore: 'etcd' | 'kubernetes'
    readonly inspector: LeaseInspector
    readonly api: KubeApi | string
    readonly close: () => Promise<void>
  }) {
    this.clock = parts.clock
    this.leaseStore = parts.leaseStore
    this.#inspector = parts.inspector
    this.#api = parts.api
    this.#close = parts.close
  }

  /** Reads everything. Rejects when the leases cannot be read; what is listed is then not of interest. */
  async read(signal: AbortSignal): Promise<MastersReading> {
    try {
      const [sightings, { listed, unlistedReason }] = await this.#limited(signal, (limit) =>
        Promise.all([this.#inspector.inspect(limit), this.#readListed(limit)]),
      )
      const nowMs = this.clock.monotonicMs()
      this.#watch.read(sightings, nowMs)
      return { sightings, listed, unlistedReason, verdict: (sighting) => this.#watch.verdict(sighting) }
    } catch (error) {
      this.#watch.interrupted()
      throw error
    }
  }

  /** See {@link LeaseInspector.evict}. */
  evict(sighting: LeaseSighting, signal: AbortSignal): Promise<boolean> {
    return this.#limited(signal, (limit) => this.#inspector.evict(sighting, limit))
  }

  close(): Promise<void> {
    return this.#close()
  }

  async #limited<T>(signal: AbortSignal, work: (limit: AbortSignal) => Promise<T>): Promise<T> {
    const { controller, unlink } = linkedController(signal)
    const cancel = this.clock.schedule(LIMIT_MS, () =>
      controller.abort(new Error(`no answer within ${humanDuration(LIMIT_MS)}`)),
    )
    try {
      return await work(controller.signal)
    } finally {
      cancel()
      unlink()
    }
  }

  async #readListed(signal: AbortSignal): Promise<Pick<MastersReading, 'listed' | 'unlistedReason'>> {
    if (typeof this.#api === 'string') return { listed: undefined, unlistedReason: this.#api }
    try {
      const listed = addressesIn(await this.#api.get(endpoints, KUBERNETES_SERVICE, { signal }))
      return { listed, unlistedReason: undefined }
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return { listed: [], unlistedReason: undefined }
      if (!(error instanceof RemoteError) || this.leaseStore === 'kubernetes') throw error
      return { listed: undefined, unlistedReason: error.message }
    }
  }
}

/**
 * Opens what the flags and the configuration file name, and contacts nobody. With leases in etcd an API server that nobody names is
 * done without. Throws an InvalidInputError with what is wrong with the configuration.
 */
export async function openMasters(flags: Flags): Promise<MastersSource> {
  const resolved = await loadConfiguration(flags, observerRules)
  const { leaseStore = 'kubernetes', leaseNamespace: namespace, etcdPrefix: prefix } = resolved.configuration
  if (leaseStore === 'memory') {
    const message = 'memory is out of reach of another process'
    throw new InvalidInputError([{ where: resolved.placeOf('leaseStore'), message }])
  }
  const clock = systemClock
  const surroundings = { clock, random: systemRandom(), logger: silentLogger, metrics: prometheusMetrics() }
  if (leaseStore === 'kubernetes') {
    const { api, close } = await openApiServer(resolved, surroundings, { gated: false })
    const { KubernetesLeaseInspector } = await import('../kubernetes-service/leases/kubernetes.ts')
    const inspector = new KubernetesLeaseInspector({ api, clock, namespace })
    return new MastersSource({ clock, leaseStore, inspector, api, close })
  }
  const server = await openIfNamed(resolved, surroundings)
  const etcd = await openEtcd(resolved, surroundings)
  if (etcd === undefined) throw new TypeError('the rules let no lease store etcd through without --etcd-servers')
  const { EtcdLeaseInspector } = await import('../kubernetes-service/leases/inspect-etcd.ts')
  return new MastersSource({
    clock,
    leaseStore,
    inspector: new EtcdLeaseInspector({ etcd: etcd.kv, prefix }),
    api: typeof server === 'string' ? server : server.api,
    async close() {
      await Promise.all([typeof server === 'string' ? undefined : server.close(), etcd.kv.close()])
    },
  })
}

/** The API server; or, where none was named and none is found, why not. */
async function openIfNamed(resolved: Resolved, surroundings: Surroundings): Promise<ApiServer | string> {
  const { kubeconfig, context, inCluster } = resolved.configuration
  try {
    return await openApiServer(resolved, surroundings, { gated: false })
  } catch (error) {
    const named = kubeconfig !== undefined || context !== undefined || inCluster
    if (named || !(error instanceof InvalidInputError)) throw error
    return error.mistakes.map(({ message }) => message).join('; ')
  }
}
