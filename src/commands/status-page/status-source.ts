import type { KubeApi } from '../../kube/api.ts'
import { isKubeError } from '../../kube/errors.ts'
import { type Change, SharedInformers } from '../../kube/informer.ts'
import type { Selection } from '../../kube/reflector.ts'
import {
  coreEvents,
  endpointSlices,
  endpoints,
  type KubeObject,
  namespaces,
  type Resource,
  serviceCidrs,
  services,
} from '../../kube/resources.ts'
import { keyOfObject, objectOf } from '../../kube/store.ts'
import { KUBERNETES_SERVICE, SERVICE_NAME_LABEL } from '../../kubernetes-service/identity.ts'
import type { MasterRow } from '../../kubernetes-service/masters/masters.ts'
import { SYSTEM_NAMESPACES } from '../../namespaces/controller.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { messageOf, printable } from '../../runtime/errors.ts'
import type { Random } from '../../runtime/random.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { Trigger } from '../../runtime/trigger.ts'
import { silentLogger } from '../../telemetry/logger.ts'
import { compareRows, rowOf, type ViewKind, type ViewRow } from '../embedded.ts'
import { type MastersSource, READ_INTERVAL_MS } from '../masters-source.ts'

export interface Status {
  /** Where the program searches for leases, as the end of a sentence for a person. */
  readonly place: string
  /** The age of `masters`, in milliseconds. The time left of each lease in `masters` is shorter by this age. */
  readonly ageMs: number
  /** Undefined before the first read. */
  readonly masters: readonly MasterRow[] | undefined
  readonly objects: readonly ViewRow[]
  /** At most {@link MAX_ACTIVITY}, the newest first. */
  readonly activity: readonly ActivityEntry[]
  /** Lines about missing and old data: each source that cannot be read, with the reason. */
  readonly faults: readonly string[]
}

/** A change of an object, or an Event of a master. */
export interface ActivityEntry {
  readonly atMs: number
  readonly kind: 'created' | 'changed' | 'deleted' | 'Normal' | 'Warning'
  readonly text: string
  /** The reporting instance and the namespace of the Event. */
  readonly source?: string | undefined
  /** The uid of the Event. A repeated Event replaces its former entry. */
  readonly uid?: string | undefined
}

const MAX_ACTIVITY = 200
/** A reading of the masters that is older than this, in milliseconds, is reported as old. */
const OLD_MS = 3_000
/** The shortest pause between two reads of the masters, in milliseconds, however often the list changes. */
const MIN_PAUSE_MS = 100
const REPORTER = 'apiserver-bootstrap'

const kubernetes = {
  namespace: KUBERNETES_SERVICE.namespace,
  fieldSelector: `metadata.name=${KUBERNETES_SERVICE.name}`,
}
/**
 * The slice of the second address family. `kubernetes` selects the first slice by name, so that the page shows the
 * first slice even if somebody removes its label.
 */
const otherSlices = {
  namespace: KUBERNETES_SERVICE.namespace,
  labelSelector: `${SERVICE_NAME_LABEL}=${KUBERNETES_SERVICE.name}`,
  fieldSelector: `metadata.name!=${KUBERNETES_SERVICE.name}`,
}
const followed = [
  ['Namespace', namespaces, {}],
  ['ServiceCIDR', serviceCidrs, {}],
  ['Service', services, kubernetes],
  ['Endpoints', endpoints, kubernetes],
  ['EndpointSlice', endpointSlices, kubernetes],
  ['EndpointSlice', endpointSlices, otherSlices],
] as const satisfies readonly (readonly [ViewKind, Resource<KubeObject>, Selection])[]

type CoreEvent = NonNullable<(typeof coreEvents)['object']>

/** The limit of an Event's note and of an object's details, in characters. Clients may write longer texts. */
const MAX_TEXT_LENGTH = 1024
/** The limit of any other text of an Event, in characters. */
const MAX_NAME_LENGTH = 253

/** A text cut to `limit`, as a copy: a slice of a long string would keep the whole string in memory. */
function clipped(text: unknown, limit = MAX_NAME_LENGTH): string {
  if (typeof text !== 'string') return ''
  return text.length <= limit ? text : Buffer.from(text.slice(0, limit)).toString()
}

/** The row of an object. Its fields may be of any type, because a proxy may have changed the answer. */
function shownRow(kind: ViewKind, object: KubeObject): Pick<ViewRow, 'name' | 'detail'> {
  try {
    const { name, detail } = rowOf(kind, object)
    return { name, detail: clipped(detail, MAX_TEXT_LENGTH) }
  } catch {
    return { name: printable(keyOfObject(object)), detail: 'it cannot be read' }
  }
}

/** The part of an Event that is shown. Clients may omit fields, and a proxy may have changed their types. */
function shortened(event: CoreEvent): CoreEvent {
  const { name = '', namespace = '', uid = '', resourceVersion = '' } = event.metadata ?? {}
  const { series, count } = event
  const about: Partial<CoreEvent['involvedObject']> = event.involvedObject ?? {}
  return {
    metadata: { name, namespace, uid, resourceVersion },
    reason: clipped(event.reason),
    message: clipped(event.message, MAX_TEXT_LENGTH),
    type: clipped(event.type),
    reportingInstance: clipped(event.reportingInstance),
    involvedObject: { kind: clipped(about.kind), namespace: clipped(about.namespace), name: clipped(about.name) },
    count: Number(series?.count ?? count ?? 1),
    lastTimestamp: clipped(series?.lastObservedTime ?? event.eventTime ?? event.lastTimestamp),
  }
}

/**
 * Observes a fleet: reads its leases about once a second, and watches the bootstrapped objects and the Events of
 * masters.
 */
export class StatusSource {
  readonly #source: MastersSource
  readonly #clock: Clock
  readonly #random: Random
  readonly #objects = new Map<string, ViewRow>()
  /** The newest last. */
  readonly #activity: ActivityEntry[] = []
  readonly #watchFaults = new Map<string, string>()
  readonly #listeners = new Set<() => void>()
  #masters: readonly MasterRow[] | undefined
  #readFaults: readonly string[] = []
  readonly #read = new Trigger<'due' | 'listed'>()
  /**
   * When the last successful read began, on the monotonic clock. Before the first one: when this object was created.
   */
  #readMs: number

  constructor(source: MastersSource, random: Random) {
    this.#source = source
    this.#clock = source.clock
    this.#random = random
    this.#readMs = this.#clock.monotonicMs()
  }

  get status(): Status {
    const ageMs = this.#ageMs
    const isOld = this.#masters !== undefined && ageMs > OLD_MS
    const old = isOld ? [`the masters are shown as they were ${Math.round(ageMs / 1000)} s ago`] : []
    return {
      place: this.#source.place,
      ageMs,
      masters: this.#masters,
      objects: [...this.#objects.values()].sort(compareRows),
      activity: this.#activity.toReversed(),
      faults: [...old, ...this.#readFaults, ...this.#watchFaults.values()],
    }
  }

  get #ageMs(): number {
    return this.#clock.monotonicMs() - this.#readMs
  }

  /** Calls `listener` after each change, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Observes until `signal` is aborted. No failure of the servers ends it. */
  async run(signal: AbortSignal): Promise<void> {
    const { api } = this.#source
    const parts = [this.#readMasters(signal), this.#reportAge(signal)]
    // Without an API server, only the leases in etcd can be read.
    if (typeof api !== 'string') parts.push(this.#follow(api, signal))
    await Promise.all(parts)
  }

  async #follow(api: KubeApi, signal: AbortSignal): Promise<void> {
    const availability = {
      failed: (source: string, error: unknown) => this.#onFault(source, error),
      succeeded: (source: string) => this.#onFault(source, undefined),
      interrupted() {},
      forget: (source: string) => this.#onFault(source, undefined),
    }
    const informers = new SharedInformers({
      api,
      clock: this.#clock,
      random: this.#random,
      logger: silentLogger,
      availability,
    })
    for (const [kind, resource, query] of followed) {
      const informer = informers.get<KubeObject>(resource, { query })
      const begin = (): void => {
        let isFirst = true
        informer.subscribe((change) => this.#onObject(kind, change, isFirst))
        isFirst = false
      }
      void informer.whenSynced(signal).then(begin, () => {})
    }
    const query = { fieldSelector: `reportingComponent=${REPORTER}` }
    informers.get(coreEvents, { query, transform: shortened }).subscribe((change) => this.#onEvent(change))
    try {
      await informers.run(signal)
    } catch (error) {
      // A defect of this page must not end the command that shows it.
      this.#watchFaults.set('', `the objects are shown as they were: ${messageOf(error)}`)
      this.#changed()
    }
  }

  async #readMasters(signal: AbortSignal): Promise<void> {
    const clock = this.#clock
    while (!signal.aborted) {
      const beganMs = clock.monotonicMs()
      try {
        const { rows, unlistedReason } = await this.#source.read(signal)
        this.#masters = rows
        this.#readMs = beganMs
        this.#readFaults =
          unlistedReason === undefined ? [] : [`the listed addresses cannot be read: ${unlistedReason}`]
      } catch (error) {
        if (signal.aborted) return
        this.#readFaults = [`the leases cannot be read: ${messageOf(error)}`]
      }
      this.#changed()
      const cancel = clock.schedule(READ_INTERVAL_MS, () => this.#read.fire('due'))
      await sleep(clock, MIN_PAUSE_MS, signal)
        .then(() => this.#read.take(signal))
        .catch(() => {})
      cancel()
    }
  }

  /** Reports a change at each interval while no read succeeds, because the time left of each lease shrinks. */
  async #reportAge(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.#clock, READ_INTERVAL_MS, signal).catch(() => {})
      if (this.#ageMs > 2 * READ_INTERVAL_MS) this.#changed()
    }
  }

  #onObject(kind: ViewKind, change: Change<KubeObject>, isFirst: boolean): void {
    const object = objectOf(change)
    if (kind === 'Namespace' && !SYSTEM_NAMESPACES.includes(object.metadata?.name ?? '')) return
    const key = `${kind} ${keyOfObject(object)}`
    const { name, detail } = shownRow(kind, object)
    const row = change.type === 'deleted' ? undefined : { kind, name, detail }
    const before = this.#objects.get(key)
    if (before !== undefined && before.detail === row?.detail) return
    if (row === undefined) this.#objects.delete(key)
    else this.#objects.set(key, row)
    if (!isFirst) {
      this.#note({
        atMs: this.#clock.wallMs(),
        kind: row === undefined ? 'deleted' : before === undefined ? 'created' : 'changed',
        text: row === undefined ? `${kind} ${name}` : `${kind} ${name}: ${row.detail}`,
      })
    }
    // Reads the masters again, because their rows contain whether each master is listed.
    if (kind === 'Endpoints') this.#read.fire('listed')
    this.#changed()
  }

  /** Events from before the start of the page are added too. */
  #onEvent(change: Change<CoreEvent>): void {
    if (change.type === 'deleted') return
    const { metadata, reason, message, type, involvedObject, count = 1, lastTimestamp = '' } = change.object
    const { reportingInstance } = change.object
    const nowMs = this.#clock.wallMs()
    const name = [involvedObject.namespace, involvedObject.name].filter(Boolean).join('/')
    const times = count > 1 ? ` (${count} times)` : ''
    this.#note({
      // An Event with a time in the future would stay above all later entries.
      atMs: Math.min(Math.max(tryParseTime(lastTimestamp) ?? nowMs, 0), nowMs),
      kind: type === 'Warning' ? 'Warning' : 'Normal',
      text: clipped(printable(`${reason} ${involvedObject.kind} ${name}: ${message}${times}`), MAX_TEXT_LENGTH),
      source: printable([reportingInstance, 'in', metadata?.namespace].filter(Boolean).join(' ')),
      uid: metadata?.uid || undefined,
    })
    this.#changed()
  }

  #note(entry: ActivityEntry): void {
    const { atMs, uid } = entry
    const before = uid === undefined ? -1 : this.#activity.findIndex((other) => other.uid === uid)
    if (before >= 0) this.#activity.splice(before, 1)
    // Inserted by time, because an Event may arrive long after the change that it reports.
    const index = this.#activity.findLastIndex((other) => other.atMs <= atMs)
    this.#activity.splice(index + 1, 0, entry)
    this.#activity.splice(0, this.#activity.length - MAX_ACTIVITY)
  }

  #onFault(source: string, error: unknown): void {
    // NotFound is no fault: older servers do not serve every resource.
    const isFault = error !== undefined && !isKubeError(error, 'NotFound')
    if (isFault) this.#watchFaults.set(source, `${source} cannot be read: ${messageOf(error)}`)
    else if (!this.#watchFaults.delete(source)) return
    this.#changed()
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}
