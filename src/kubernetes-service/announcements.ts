import { formatDuration } from '../documents/duration.ts'
import { type AuditUser, audit, objectRefOf } from '../kube/audit.ts'
import { type EventReason, type EventSink, eventOf, referenceIn } from '../kube/event-object.ts'
import {
  type EndpointSlice,
  type Endpoints,
  endpoints,
  type KubeObject,
  type Resource,
  type Service,
} from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Counter } from '../telemetry/metrics.ts'
import { noOutages, type Outages } from '../telemetry/outages.ts'
import { absenceWords, type FleetView, type Removal } from './fleet-view.ts'
import {
  type Contention,
  ContentionReports,
  type ContentionReportsOptions,
  type Contested,
} from './guarded-writes/contention.ts'
import { isReconciler, OtherReconciler, OWN_MANAGER, TURN_OFF } from './guarded-writes/foreign-overwrites.ts'
import type { Written } from './guarded-writes/object-writer.ts'
import { addressesIn, KUBERNETES_SERVICE } from './identity.ts'
import { addressOf, type Holder, LeaseWithdrawn, type MasterLease } from './leases/master-leases.ts'
import { isHeldBy } from './members.ts'

interface AnnouncementsOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  /** The user who writes; undefined in a dry run. */
  readonly user?: AuditUser | undefined
  /** The first advertised address of this master; undefined if it has none. */
  readonly address: string | undefined
  /** Undefined with a reconciler without leases. */
  readonly fleet: FleetView | undefined
}

interface Listed {
  readonly address: string
  readonly host?: string | undefined
}

interface ListChange {
  readonly added: readonly Listed[]
  readonly removed: readonly (Listed & Removal)[]
}

/**
 * Reports this master's own writes of `default/kubernetes`, in the log and by Events, and never those of another
 * master: so the fleet reports each write once. Also reports other writers and holders that conflict with this master.
 */
export class Announcements {
  readonly #options: AnnouncementsOptions
  /** Detects a kube-apiserver's own reconciler. */
  readonly #otherReconciler = new OtherReconciler()
  /** Detects another apiserver-bootstrap with another lease store. */
  readonly #otherStore = new OtherReconciler()
  /**
   * For each object, its last write if the answer was lost. If the same write is repeated and its answer is lost too,
   * that is not logged again.
   */
  readonly #unanswered = new Map<string, string>()
  /** Whether a read has shown this master's lease. */
  #isAnnounced = false
  /** Whether a read has shown that this process holds the lease, and not another life of this master. */
  #hasHeld = false
  /** The instance id of the process that last took over the lease. */
  #replacedBy: string | undefined

  constructor(options: AnnouncementsOptions) {
    this.#options = options
  }

  /**
   * Reports a write, also one whose answer was lost. A fight has one Event, when it begins; the corrections in a fight
   * have none.
   */
  written(write: Written): void {
    const { resource, found, stored, reasons, correction, error } = write
    const isList = resource.plural === endpoints.plural && error === undefined
    const change = isList ? this.#changeOf(found as Endpoints | undefined, stored as Endpoints | undefined) : undefined
    this.#log(write, change)
    if (error !== undefined) return
    if (isList) this.#noticeOthers(write)
    if (correction?.isFight === true) return
    if (change !== undefined && correction === undefined) this.#announceMasters(change, stored ?? found)
    const wrong = isList && correction === undefined ? reasons.filter((reason) => reason !== 'addresses') : reasons
    // No Event for an object that was missing at the start, nor for a slice that follows the Endpoints.
    if (correction === undefined && (found === undefined || resource.kind === 'EndpointSlice')) return
    if (wrong.length > 0) this.#record('KubernetesServiceReset', resource, stored ?? found, resetNote(write, wrong))
  }

  /**
   * Called after each read of all leases. Reports another process with this master's host name and address that has
   * taken over its lease. When a read first shows this master's lease, reports other hosts with this master's address.
   */
  read(own: Holder, leases: readonly MasterLease[]): void {
    const stored = leases.find((lease) => isHeldBy(lease, own))?.holder
    if (stored === undefined) return
    if (!this.#isAnnounced) this.#announceSharers(own, leases)
    this.#isAnnounced = true
    const { host, instanceId, startedAt } = stored
    this.#hasHeld ||= instanceId === own.instanceId
    // The record of an earlier life is overwritten, or waited for, when this process starts.
    const isReplaced = this.#hasHeld && instanceId !== own.instanceId && startedAt >= own.startedAt
    if (!isReplaced || instanceId === this.#replacedBy || own.state !== 'ready') return
    this.#replacedBy = instanceId
    this.#options.logger.warn(
      { address: addressOf(own), host, instanceId, startedAt },
      "another process with this master's host name and address has taken over its lease; stop one of them",
    )
  }

  #announceSharers(own: Holder, leases: readonly MasterLease[]): void {
    const address = addressOf(own)
    const holders = leases.flatMap((lease) => (lease.address === address ? (lease.holder ?? []) : []))
    const hosts = holders.map(({ host }) => host).filter((host) => host !== own.host)
    if (hosts.length === 0) return
    const note = `${address} is now held by ${own.host} and also by ${hosts.join(', ')}: they share the address, or the earlier holder is gone`
    this.#record('LeaseTakenOver', endpoints, { metadata: KUBERNETES_SERVICE }, note)
  }

  #changeOf(found: Endpoints | undefined, stored: Endpoints | undefined): ListChange {
    const [before, after] = [addressesIn(found), addressesIn(stored)]
    const listed = (address: string): Listed => ({ address, host: this.#options.fleet?.hostOf(address) })
    const gone = before.filter((address) => !after.includes(address))
    return {
      added: after.filter((address) => !before.includes(address)).map(listed),
      removed: gone.map((address) => ({ ...listed(address), ...this.#whyRemoved(address) })),
    }
  }

  /** Writes to slices are logged too, because most clients follow the slices. */
  #log({ resource, verb, found, stored, reasons, correction, error }: Written, change: ListChange | undefined): void {
    const [before, after] = [destinationsIn(found), destinationsIn(stored)]
    const portsDiffer = JSON.stringify(before.ports) !== JSON.stringify(after.ports)
    const entry = {
      message: auditMessage(resource, verb),
      verb,
      objectRef: objectRefOf(resource, error === undefined ? (stored ?? found) : (found ?? stored)),
      reasons,
      before: before.addresses,
      after: after.addresses,
      ...(portsDiffer && { portsBefore: before.ports, portsAfter: after.ports }),
      ...change,
      writer: correction?.writer,
      error,
    }
    const key = `${resource.plural} ${entry.objectRef.name}`
    const unanswered = error === undefined ? '' : JSON.stringify([verb, entry.objectRef, entry.after])
    if (unanswered !== '' && unanswered === this.#unanswered.get(key)) return
    this.#unanswered.set(key, unanswered)
    audit(this.#options, entry)
  }

  /**
   * Detects writers with other leases: a kube-apiserver's own reconciler, or an apiserver-bootstrap that lists
   * addresses without a lease here and does not list this master.
   */
  #noticeOthers({ found, stored, reasons, correction }: Written): void {
    const { fleet, address, clock, logger } = this.#options
    const writer = correction?.writer
    const nowMs = clock.monotonicMs()
    if (writer !== undefined && isReconciler(writer)) {
      if (!reasons.includes('addresses') && !reasons.includes('subsets')) return
      if (!this.#otherReconciler.overwrote(nowMs)) return
      const note = `${writer} overwrites the addresses of Endpoints default/kubernetes by its own endpoint reconciler: ${TURN_OFF}`
      logger.warn({ writer }, note)
      this.#record('OtherReconcilerActive', endpoints, stored ?? found, note)
    }
    if (writer !== OWN_MANAGER || fleet === undefined || address === undefined) return
    const listed = addressesIn(found as Endpoints | undefined)
    const others = listed.filter((each) => !fleet.isKnown(each))
    if (others.length === 0 || listed.includes(address) || !this.#otherStore.overwrote(nowMs)) return
    const note =
      `another apiserver-bootstrap lists ${others.join(', ')} without a lease in this master's store, and removes this master: it uses ` +
      'another lease store. Give all masters the same --lease-store, --etcd-servers, --etcd-prefix and --lease-namespace; docs/lease-stores.md describes how to change them without a gap'
    logger.warn({ others }, note)
    this.#record('OtherLeaseStore', endpoints, found, note)
  }

  #announceMasters({ added, removed }: ListChange, subject: KubeObject | undefined): void {
    for (const { address } of added) {
      this.#record('MasterListed', endpoints, subject, `${this.#describe(address)} is listed`)
    }
    for (const { address, reason, detail } of removed) {
      const why = detail === undefined ? absenceWords[reason] : `${absenceWords[reason]} (${detail})`
      const note = `${this.#describe(address)} is no longer listed: ${why}`
      this.#record('MasterRemoved', endpoints, subject, note)
    }
  }

  #whyRemoved(address: string): Removal {
    const { fleet, address: own } = this.#options
    const why = fleet?.removed(address) ?? { reason: 'surplus' }
    // This master, when it leaves, may have removed its lease before its address.
    const isGone = ['lease-ended', 'evicted', 'no-lease', 'surplus'].includes(why.reason)
    return address === own && isGone ? { reason: 'leaving' } : why
  }

  #describe(address: string): string {
    const host = this.#options.fleet?.hostOf(address)
    return host === undefined ? address : `${address} (${host})`
  }

  #record(reason: EventReason, resource: Resource<KubeObject>, object: KubeObject | undefined, note: string): void {
    this.#options.events.record(eventOf(reason, { regarding: referenceIn(resource, object), note }))
  }
}

function resetNote({ resource, found, stored, correction }: Written, wrong: readonly string[]): string {
  const { namespace, name } = (stored ?? found)?.metadata ?? {}
  const what = `${resource.kind} ${namespace}/${name}`
  if (found === undefined) return `${what} was deleted and created again`
  const by = correction?.writer === undefined ? '' : ` by ${correction.writer}`
  return `${what} was ${correction === undefined ? 'found out of sync' : `changed${by}`} (${wrong.join(', ')}) and corrected`
}

function auditMessage({ kind }: Resource<KubeObject>, verb: Written['verb']): string {
  if (kind !== 'Service') return 'resetting endpoints of the kubernetes service'
  return verb === 'create' ? 'created the kubernetes service' : 'resetting the kubernetes service'
}

/** The addresses and ports to which a Service, Endpoints or a slice sends clients; none without an object. */
function destinationsIn(object: KubeObject | undefined) {
  const { spec } = (object ?? {}) as Partial<Service>
  const subsets = (object as Partial<Endpoints> | undefined)?.subsets ?? []
  const slice = (object ?? {}) as Partial<EndpointSlice>
  const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false)
  return {
    addresses: [
      ...(spec?.clusterIPs ?? []),
      ...addressesIn({ subsets }),
      ...ready.flatMap(({ addresses }) => addresses ?? []),
    ],
    ports: spec?.ports ?? slice.ports ?? subsets.flatMap(({ ports }) => ports ?? []),
  }
}

interface LeaseTelemetryOptions extends ContentionReportsOptions {
  readonly clock: Clock
  readonly address: string
  readonly leaseTtlMs: number
  /** The outages of the server that holds the leases. @default none */
  readonly outages?: Outages | undefined
  /** When the last successful renewal was sent, on the monotonic clock; undefined while this master is not listed. */
  readonly renewedMs: () => number | undefined
}

/** Reports this master's own lease in metrics, and in the log and an Event if another client keeps deleting it. */
export class LeaseTelemetry {
  readonly #options: LeaseTelemetryOptions
  readonly #renewals: Counter<'result'>
  readonly #reports: ContentionReports

  constructor(options: LeaseTelemetryOptions) {
    this.#options = options
    const { metrics, clock, renewedMs } = options
    this.#renewals = metrics.counter({
      name: 'apiserver_bootstrap_lease_renewals_total',
      help: "Attempts to renew this master's lease: success, failure, or withdrawn when somebody has withdrawn the master.",
      labels: ['result'],
    })
    const age = metrics.gauge({
      name: 'apiserver_bootstrap_lease_age_seconds',
      help: "Time since the last renewal of this master's lease; absent until the master has joined the list, and once it is stopped or withdrawn.",
    })
    metrics.onCollect(() => {
      const sinceMs = renewedMs()
      if (sinceMs === undefined) age.remove({})
      else age.set({}, (clock.monotonicMs() - sinceMs) / 1000)
    })
    this.#reports = new ContentionReports(options)
  }

  attempted(error: unknown): void {
    const result = error === undefined ? 'success' : error instanceof LeaseWithdrawn ? 'withdrawn' : 'failure'
    this.#renewals.add({ result })
    const { clock, logger, outages = noOutages, address, leaseTtlMs, renewedMs } = this.#options
    const unrenewedMs = Math.round(clock.monotonicMs() - (renewedMs() ?? Number.POSITIVE_INFINITY))
    if (result !== 'success' || unrenewedMs <= leaseTtlMs) return
    outages.consequence(
      logger,
      { address, unrenewedMs, leaseTtlMs },
      "this master's lease was not renewed in time; others may have taken its address off the list",
    )
  }

  /**
   * Called when the contention for the lease has changed from `before` to `now`. `corrected`: this master has just
   * created the lease again after another client deleted it.
   */
  contended(corrected: boolean, before: Contention, now: Contention): void {
    const { address, clock } = this.#options
    if (corrected) this.#reports.corrected('Lease', undefined)
    const contested: Contested = {
      kind: 'Lease',
      fields: { address },
      backingOff: "another client keeps deleting this master's lease; backing off",
      calmAgain:
        "no other client deletes this master's lease any more; if it is deleted again, it is created again at once",
      event({ corrections, withinMs }) {
        const regarding = referenceIn(endpoints, { metadata: KUBERNETES_SERVICE })
        const note =
          `The lease of ${address} was deleted and created again ${corrections} times in ${formatDuration(withinMs)}; from now on it is ` +
          'created again at growing intervals, and without it the master is not listed. Find out what deletes it: see the audit log of the ' +
          'API server or of etcd.'
        return eventOf('LeaseContested', { regarding, note })
      },
    }
    this.#reports.changed(contested, before, now, clock.monotonicMs())
  }
}
