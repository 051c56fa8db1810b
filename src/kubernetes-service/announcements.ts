import { type EventSink, type ObjectReference, referenceTo } from '../kube/event-object.ts'
import { type EventReason, eventOf } from '../kube/event-reasons.ts'
import type { KubeObject } from '../kube/json.ts'
import { apiVersionOf, type Endpoints, endpoints, type Resource } from '../kube/resources.ts'
import type { Absence, FleetView } from './fleet-view.ts'
import { addressesIn, KUBERNETES_SERVICE } from './identity.ts'
import type { Holder, MasterLease } from './leases/master-leases.ts'
import type { Written } from './object-writer.ts'

export interface AnnouncementsOptions {
  readonly events: EventSink
  /** Of this master; undefined with a reconciler that lists nobody. */
  readonly address: string | undefined
  /** Undefined with a reconciler that keeps no leases. */
  readonly fleet: FleetView | undefined
}

const REASON_WORDS: Readonly<Record<Absence | 'surplus', string>> = {
  'lease-ended': 'its lease has ended',
  withdrew: 'it withdrew',
  unready: 'its API server is not ready',
  unknown: 'it has no lease',
  surplus: 'there are more than --apiserver-count',
}

/**
 * Tells by events what was done to `default/kubernetes`. What a write changed is told by whoever made it, so that each change is told
 * once, however many masters there are.
 */
export class Announcements {
  readonly #options: AnnouncementsOptions

  constructor(options: AnnouncementsOptions) {
    this.#options = options
  }

  /** A write was made. What a fight is about was told when it began. */
  written(write: Written): void {
    const { resource, found, stored, reasons, correction } = write
    if (correction?.isFight === true) return
    const isList = resource.plural === endpoints.plural
    if (isList && correction === undefined)
      this.#tellOfMasters(found as Endpoints | undefined, stored as Endpoints | undefined)
    const wrong = isList && correction === undefined ? reasons.filter((reason) => reason !== 'addresses') : reasons
    // What was not there at the start is no news, and a slice that follows the Endpoints neither.
    if (correction === undefined && (found === undefined || resource.kind === 'EndpointSlice')) return
    if (wrong.length > 0) this.#record('KubernetesServiceReset', resource, stored ?? found, resetNote(write, wrong))
  }

  /** This master has made its lease, and these are all. Another host that holds the same address is told of. */
  announced(own: Holder, leases: readonly MasterLease[]): void {
    const address = own.addresses[0] ?? ''
    const hosts = leases.flatMap((lease) =>
      lease.address === address && lease.holder !== undefined && lease.holder.host !== own.host
        ? [lease.holder.host]
        : [],
    )
    if (hosts.length === 0) return
    const note = `${address} is now held by ${own.host}, and still by ${hosts.join(', ')}: a shared address, or one of a host that is gone`
    this.#record('LeaseTakenOver', endpoints, { metadata: KUBERNETES_SERVICE }, note)
  }

  #tellOfMasters(found: Endpoints | undefined, stored: Endpoints | undefined): void {
    const [before, after] = [addressesIn(found), addressesIn(stored)]
    const subject = stored ?? found
    for (const address of after) {
      if (!before.includes(address))
        this.#record('MasterListed', endpoints, subject, `${this.#describe(address)} is listed`)
    }
    for (const address of before) {
      if (after.includes(address)) continue
      const note = `${this.#describe(address)} is no longer listed: ${REASON_WORDS[this.#whyRemoved(address)]}`
      this.#record('MasterRemoved', endpoints, subject, note)
    }
  }

  #whyRemoved(address: string): Absence | 'surplus' {
    const { fleet, address: own } = this.#options
    const why = fleet?.removed(address) ?? 'surplus'
    return address === own && why !== 'unready' ? 'withdrew' : why
  }

  #describe(address: string): string {
    const host = this.#options.fleet?.hostOf(address)
    return host === undefined ? address : `${address} (${host})`
  }

  #record(reason: EventReason, resource: Resource<KubeObject>, object: KubeObject | undefined, note: string): void {
    const regarding: ObjectReference = referenceTo({
      ...object,
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
    })
    this.#options.events.record(eventOf(reason, { regarding, note }))
  }
}

function resetNote({ resource, found, stored, correction }: Written, wrong: readonly string[]): string {
  const { namespace, name } = (stored ?? found)?.metadata ?? {}
  const what = `${resource.kind} ${namespace}/${name}`
  if (found === undefined) return `${what} was deleted; it was made again`
  const by = correction?.writer === undefined ? '' : ` by ${correction.writer}`
  return `${what} was ${correction === undefined ? 'found wrong' : `changed${by}`} (${wrong.join(', ')}) and put right`
}
