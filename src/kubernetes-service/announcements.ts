import { type AuditUser, audit, objectRefOf } from '../kube/audit.ts'
import { type EventSink, referenceIn } from '../kube/event-object.ts'
import { type EventReason, eventOf } from '../kube/event-reasons.ts'
import type { KubeObject } from '../kube/json.ts'
import type { Written } from '../kube/object-writer.ts'
import { type EndpointSlice, type Endpoints, endpoints, type Resource, type Service } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Absence, FleetView, Removal } from './fleet-view.ts'
import { addressesIn, KUBERNETES_SERVICE } from './identity.ts'
import { addressOf, type Holder, type MasterLease } from './leases/master-leases.ts'
import { isReconciler, OtherReconciler, OWN_MANAGER, TURN_OFF } from './other-reconciler.ts'

export interface AnnouncementsOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly events: EventSink
  /** Who writes; undefined in a dry run. */
  readonly user?: AuditUser | undefined
  /** Of this master; undefined with a reconciler that lists nobody. */
  readonly address: string | undefined
  /** Undefined with a reconciler that keeps no leases. */
  readonly fleet: FleetView | undefined
}

/** A master that was put on the list or taken off. */
interface Listed {
  readonly address: string
  readonly host?: string | undefined
}

/** Who was put on the list and who was taken off, and why. */
interface ListChange {
  readonly added: readonly Listed[]
  readonly removed: readonly (Listed & Removal)[]
}

/** How a reason is put in an event. */
const REASON_WORDS: Readonly<Record<Absence, string>> = {
  'lease-ended': 'its lease has ended',
  evicted: 'its lease was removed by somebody else',
  leaving: 'it is leaving',
  withdrawn: 'it was withdrawn',
  unready: 'its API server is not ready',
  'own-etcd': 'its own etcd fails',
  'no-lease': 'it has no lease',
  surplus: 'there are more than --apiserver-count',
}

/**
 * Tells in the log and by events what was done to `default/kubernetes`. What a write changed is told by whoever made it, so that each change is
 * told once, however many masters there are.
 */
export class Announcements {
  readonly #options: AnnouncementsOptions
  /** A kube-apiserver's own reconciler. */
  readonly #otherReconciler = new OtherReconciler()
  /** Another apiserver-bootstrap, with another lease store. */
  readonly #otherStore = new OtherReconciler()
  /** Of each object the last write whose answer was lost; the same one once more, on what was found unchanged, is no news. */
  readonly #unanswered = new Map<string, string>()

  constructor(options: AnnouncementsOptions) {
    this.#options = options
  }

  /** A write was made, or its answer was lost. What a fight is about was told by an event when it began. */
  written(write: Written): void {
    const { resource, found, stored, reasons, correction, error } = write
    const isList = resource.plural === endpoints.plural && error === undefined
    const change = isList ? this.#changeOf(found as Endpoints | undefined, stored as Endpoints | undefined) : undefined
    this.#log(write, change)
    if (error !== undefined) return
    if (isList) this.#noticeOthers(write)
    if (correction?.isFight === true) return
    if (change !== undefined && correction === undefined) this.#tellOfMasters(change, stored ?? found)
    const wrong = isList && correction === undefined ? reasons.filter((reason) => reason !== 'addresses') : reasons
    // What was not there at the start is no news, and a slice that follows the Endpoints neither.
    if (correction === undefined && (found === undefined || resource.kind === 'EndpointSlice')) return
    if (wrong.length > 0) this.#record('KubernetesServiceReset', resource, stored ?? found, resetNote(write, wrong))
  }

  /** This master has made its lease, and these are all. Another host that holds the same address is told of. */
  announced(own: Holder, leases: readonly MasterLease[]): void {
    const address = addressOf(own)
    const hosts = leases.flatMap((lease) =>
      lease.address === address && lease.holder !== undefined && lease.holder.host !== own.host
        ? [lease.holder.host]
        : [],
    )
    if (hosts.length === 0) return
    const note = `${address} is now held by ${own.host}, and still by ${hosts.join(', ')}: a shared address, or one of a host that is gone`
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

  /** Each write is one line, that of a slice too: most clients follow the slices. */
  #log({ resource, verb, found, stored, reasons, correction, error }: Written, change: ListChange | undefined): void {
    const [before, after] = [clientsAreSentTo(found), clientsAreSentTo(stored)]
    const portsDiffer = JSON.stringify(before.ports) !== JSON.stringify(after.ports)
    const entry = {
      message: doneTo(resource, verb),
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

  /** Who overwrites the addresses goes by other leases: a kube-apiserver, or who lists masters that have no lease here, and not this one. */
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
    const others = listed.filter((each) => !fleet.isLive(each))
    if (others.length === 0 || listed.includes(address) || !this.#otherStore.overwrote(nowMs)) return
    const note =
      `another apiserver-bootstrap lists ${others.join(', ')}, which no lease in this master's store stands for, and takes this master off: it has ` +
      'another lease store. Give all masters the same --lease-store, --etcd-servers, --etcd-prefix and --lease-namespace; docs/lease-stores.md says how to change them without a gap'
    logger.warn({ others }, note)
    this.#record('OtherLeaseStore', endpoints, found, note)
  }

  #tellOfMasters({ added, removed }: ListChange, subject: KubeObject | undefined): void {
    for (const { address } of added) {
      this.#record('MasterListed', endpoints, subject, `${this.#describe(address)} is listed`)
    }
    for (const { address, reason, detail } of removed) {
      const why = detail === undefined ? REASON_WORDS[reason] : `${REASON_WORDS[reason]} (${detail})`
      const note = `${this.#describe(address)} is no longer listed: ${why}`
      this.#record('MasterRemoved', endpoints, subject, note)
    }
  }

  #whyRemoved(address: string): Removal {
    const { fleet, address: own } = this.#options
    const why = fleet?.removed(address) ?? { reason: 'surplus' }
    // Who takes itself out may have removed its lease first.
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
  if (found === undefined) return `${what} was deleted; it was made again`
  const by = correction?.writer === undefined ? '' : ` by ${correction.writer}`
  return `${what} was ${correction === undefined ? 'found wrong' : `changed${by}`} (${wrong.join(', ')}) and put right`
}

function doneTo({ kind }: Resource<KubeObject>, verb: Written['verb']): string {
  if (kind !== 'Service') return 'resetting endpoints of the kubernetes service'
  return verb === 'create' ? 'created the kubernetes service' : 'resetting the kubernetes service'
}

/** By a Service, Endpoints or a slice, of which each has fields of its own; nowhere if there is none. */
function clientsAreSentTo(object: KubeObject | undefined) {
  const { spec } = (object ?? {}) as Partial<Service>
  const { subsets = [] } = (object ?? {}) as Partial<Endpoints>
  const slice = (object ?? {}) as Partial<EndpointSlice>
  const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false)
  return {
    addresses: [
      ...(spec?.clusterIPs ?? []),
      ...addressesIn({ subsets }),
      ...ready.flatMap(({ addresses }) => addresses),
    ],
    ports: spec?.ports ?? slice.ports ?? subsets.flatMap(({ ports = [] }) => ports),
  }
}
