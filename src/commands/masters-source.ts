import { hostname } from 'node:os'
import { observerRules } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags, Resolved } from '../config/resolve.ts'
import { humanDuration } from '../documents/duration.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { KubeApi } from '../kube/api.ts'
import { type AuditEntry, type AuditTrail, audited } from '../kube/audit.ts'
import { ifFound } from '../kube/errors.ts'
import { referenceIn } from '../kube/event-object.ts'
import { EventRecorder } from '../kube/event-recorder.ts'
import { endpoints, leases } from '../kube/resources.ts'
import { addressesIn, KUBERNETES_SERVICE } from '../kubernetes-service/identity.ts'
import { searchedPlace } from '../kubernetes-service/leases/kubernetes.ts'
import type { InspectedLease, LeaseInspector } from '../kubernetes-service/masters/inspection.ts'
import { LeaseWatch, type MasterRow, mastersRows, type Verdict } from '../kubernetes-service/masters/masters.ts'
import type { Clock } from '../runtime/clock.ts'
import { RemoteError } from '../runtime/errors.ts'
import { linkedController } from '../runtime/signals.ts'
import {
  type ApiServer,
  auditUser,
  openApiServer,
  openSurroundings,
  type Surroundings,
  silentSurroundings,
} from './api-server.ts'
import { openEtcd } from './etcd-store.ts'

/** The interval between reads, in milliseconds. */
export const READ_INTERVAL_MS = 1_000
/** How long one read, or one removal, may take, in milliseconds. */
const LIMIT_MS = 15_000
/** A pause between two reads that is longer than this, in milliseconds, interrupts the watch of the leases. */
const MAX_GAP_MS = 5_000

export interface MastersReading {
  readonly leases: readonly InspectedLease[]
  /** The listed addresses; undefined when they could not be read. */
  readonly listed: readonly string[] | undefined
  /** Why the listed addresses could not be read, in one line. */
  readonly unlistedReason: string | undefined
  readonly rows: readonly MasterRow[]
  verdict(lease: InspectedLease): Verdict
}

interface MastersSourceParts {
  readonly clock: Clock
  readonly leaseStore: 'etcd' | 'kubernetes'
  /** A text for users who find no leases: where the program searched, and which flags select another place. */
  readonly place: string
  readonly inspector: LeaseInspector
  /** The API server; or, with leases in etcd, the reason why there is no usable API server. */
  readonly api: KubeApi | string
  /** Records removals. @default nothing is recorded */
  readonly audit?: AuditTrail | undefined
  readonly close?: () => Promise<unknown>
}

/** The leases of a fleet and the listed addresses, for the commands that show and remove leases. */
export class MastersSource {
  readonly clock: Clock
  readonly leaseStore: 'etcd' | 'kubernetes'
  readonly place: string
  /** See {@link MastersSourceParts.api}. */
  readonly api: KubeApi | string
  readonly #parts: MastersSourceParts
  readonly #watch = new LeaseWatch({ maxGapMs: MAX_GAP_MS })

  constructor(parts: MastersSourceParts) {
    this.clock = parts.clock
    this.leaseStore = parts.leaseStore
    this.place = parts.place
    this.api = parts.api
    this.#parts = parts
  }

  /**
   * Reads the leases and the list within 15 s, or rejects. With leases in etcd, an error of the API server does not
   * reject: `listed` is then undefined.
   */
  async read(signal: AbortSignal): Promise<MastersReading> {
    try {
      const [leases, { listed, unlistedReason }] = await this.#limited(signal, (limit) =>
        Promise.all([this.#parts.inspector.inspect(limit), this.#readListed(limit)]),
      )
      this.#watch.read(leases, this.clock.monotonicMs())
      const verdict = (lease: InspectedLease): Verdict => this.#watch.verdict(lease)
      const rows = mastersRows({ leases, listed, verdict, nowMs: this.clock.wallMs() })
      return { leases, listed, unlistedReason, rows, verdict }
    } catch (error) {
      this.#watch.interrupted()
      throw error
    }
  }

  /** See {@link LeaseInspector.evict}. `reasons` go into the audit trail. */
  evict(lease: InspectedLease, reasons: readonly string[], signal: AbortSignal): Promise<boolean> {
    const { audit, inspector } = this.#parts
    const isDone = (removed: boolean): boolean => removed
    return this.#limited(signal, (limit) =>
      audited(audit, evictionOf(lease, reasons), () => inspector.evict(lease, limit), { signal: limit, isDone }),
    )
  }

  async close(): Promise<void> {
    await this.#parts.close?.()
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
    if (typeof this.api === 'string') return { listed: undefined, unlistedReason: this.api }
    try {
      const found = await ifFound(this.api.get(endpoints, KUBERNETES_SERVICE, { signal }))
      return { listed: addressesIn(found), unlistedReason: undefined }
    } catch (error) {
      if (!(error instanceof RemoteError) || this.leaseStore === 'kubernetes') throw error
      return { listed: undefined, unlistedReason: error.message }
    }
  }
}

/**
 * Opens the configured sources, but contacts no server. With leases in etcd the API server is optional. With
 * `evicting`, each removal is recorded with its user in the log and, if there is an API server, as an Event. Throws an
 * InvalidInputError with the mistakes of the configuration.
 */
export async function openMasters(flags: Flags, evicting = false): Promise<MastersSource> {
  const resolved = await loadConfiguration(flags, observerRules)
  const { leaseStore = 'kubernetes', leaseNamespace, etcdPrefix } = resolved.configuration
  if (leaseStore === 'memory') {
    const message = 'leases in memory are not accessible to other processes'
    throw new InvalidInputError([{ where: resolved.placeOf('leaseStore'), message }])
  }
  const place = searchedPlace({ leaseStore, leaseNamespace, etcdPrefix })
  const surroundings = silentSurroundings()
  const { clock } = surroundings
  const named = await openIfNamed(resolved, surroundings)
  const server = typeof named === 'string' ? undefined : named
  const etcd = leaseStore === 'etcd' ? await openEtcd(resolved, surroundings) : undefined
  const { EtcdLeaseInspector, KubernetesLeaseInspector } = await import('../kubernetes-service/masters/inspection.ts')
  const inspector =
    leaseStore === 'etcd'
      ? etcd && new EtcdLeaseInspector({ etcd: etcd.kv, prefix: etcdPrefix })
      : server && new KubernetesLeaseInspector({ api: server.api, clock, namespace: leaseNamespace })
  if (inspector === undefined)
    throw new TypeError('the lease store etcd without --etcd-servers should have been refused as a mistake')
  const host = hostname()
  const reporter = { reportingController: 'apiserver-bootstrap', reportingInstance: host }
  const events = evicting && server ? new EventRecorder({ ...surroundings, ...reporter, api: server.api }) : undefined
  const { logger } = evicting ? await openSurroundings(resolved.configuration) : surroundings
  const audit = evicting ? { logger, events, user: { host, ...auditUser(server, etcd) } } : undefined
  return new MastersSource({
    clock,
    leaseStore,
    place,
    inspector,
    api: typeof named === 'string' ? named : named.api,
    audit,
    async close() {
      // With an aborted signal, `run` only writes the Events that were recorded before.
      await events?.run(AbortSignal.abort())
      await Promise.all([server?.close(), etcd?.kv.close()])
    },
  })
}

/**
 * The API server. With leases in etcd and no named API server, it may be the reason why the default one is unusable.
 */
async function openIfNamed(resolved: Resolved, surroundings: Surroundings): Promise<ApiServer | string> {
  const { kubeconfig, context, inCluster, leaseStore } = resolved.configuration
  try {
    return await openApiServer(resolved, surroundings, { gated: false })
  } catch (error) {
    const isNeeded = leaseStore !== 'etcd' || kubeconfig !== undefined || context !== undefined || inCluster
    if (isNeeded || !(error instanceof InvalidInputError)) throw error
    return error.mistakes.map(({ message }) => message).join('; ')
  }
}

function evictionOf(
  { id: where, object, revision, address = '', holders }: InspectedLease,
  reasons: readonly string[],
): AuditEntry {
  const { namespace, uid, name = address } = object ?? {}
  const resource = object === undefined ? 'masterleases' : leases.plural
  const before = holders.map(({ host, instanceId, state }) => ({ address, host, instanceId, state }))
  const regarding = object ?? referenceIn(endpoints, { metadata: KUBERNETES_SERVICE })
  const note = `the lease of ${address} was removed by masters evict: ${reasons.join(', ')}`
  return {
    message: 'removed the lease of a master',
    verb: 'evict',
    objectRef: { resource, namespace, name, uid, resourceVersion: revision },
    where,
    reasons,
    before: before.length > 0 ? before : [{ address }],
    after: [],
    event: { reason: 'MasterEvicted', regarding, note },
  }
}
