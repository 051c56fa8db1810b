import { type Change, SharedInformers } from '../../kube/informer.ts'
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
import { keyOfObject } from '../../kube/store.ts'
import { KUBERNETES_SERVICE } from '../../kubernetes-service/identity.ts'
import type { MasterRow } from '../../kubernetes-service/masters/masters.ts'
import { type Clock, sleep } from '../../runtime/clock.ts'
import { messageOf, printable } from '../../runtime/errors.ts'
import type { Random } from '../../runtime/random.ts'
import { tryParseTime } from '../../runtime/time-format.ts'
import { silentLogger } from '../../telemetry/logger.ts'
import { compareRows, rowOf, type ViewKind, type ViewRow } from '../embedded.ts'
import { type MastersSource, READ_INTERVAL_MS, rowsOf } from '../masters-source.ts'

/** What the page shows. */
export interface Status {
  /** Where the leases are. */
  readonly place: string
  /** When it was observed, in wall time: what time is left of a lease counts from here. */
  readonly observedMs: number
  readonly masters: readonly MasterRow[]
  readonly objects: readonly ViewRow[]
  /** The latest, the newest first; at most {@link MAX_HAPPENINGS}. */
  readonly happenings: readonly Happening[]
  /** What cannot be read at the moment, and why, a line each. */
  readonly faults: readonly string[]
}

/** A change that was seen in the API, or an Event in which a master says what it did about one. */
export interface Happening {
  readonly atMs: number
  readonly kind: 'created' | 'changed' | 'deleted' | 'Normal' | 'Warning'
  readonly text: string
}

const MAX_HAPPENINGS = 200
const REPORTER = 'apiserver-bootstrap'
const systemNamespaces: ReadonlySet<string> = new Set(['default', 'kube-system', 'kube-public', 'kube-node-lease'])

const kubernetes = {
  namespace: KUBERNETES_SERVICE.namespace,
  fieldSelector: `metadata.name=${KUBERNETES_SERVICE.name}`,
}
const followed = [
  ['Namespace', namespaces, {}],
  ['ServiceCIDR', serviceCidrs, {}],
  ['Service', services, kubernetes],
  ['Endpoints', endpoints, kubernetes],
  ['EndpointSlice', endpointSlices, kubernetes],
] as const satisfies readonly (readonly [ViewKind, Resource<KubeObject>, object])[]

type CoreEvent = NonNullable<(typeof coreEvents)['object']>

interface StatusSourceParts {
  readonly masters: MastersSource
  readonly clock: Clock
  readonly random: Random
}

/** As long as an Event's note may be. Whoever may create Events could write more. */
const MAX_TEXT_LENGTH = 1024

function shortened(event: CoreEvent): CoreEvent {
  const { metadata, reason, message, type, involvedObject, series, eventTime, lastTimestamp } = event
  const clipped = { metadata, reason, message: message?.slice(0, MAX_TEXT_LENGTH), type, involvedObject, series }
  return { ...clipped, eventTime, lastTimestamp } as CoreEvent
}

/** Follows a fleet: its leases by a read each second, the bootstrapped objects and the masters' Events by watches. */
export class StatusSource {
  readonly #parts: StatusSourceParts
  readonly #objects = new Map<string, ViewRow>()
  /** The newest last. */
  readonly #happenings: Happening[] = []
  readonly #watchFaults = new Map<string, string>()
  readonly #listeners = new Set<() => void>()
  #masters: readonly MasterRow[] = []
  #readFaults: readonly string[] = []
  #observedMs: number
  readonly #startedMs: number

  constructor(parts: StatusSourceParts) {
    this.#parts = parts
    this.#startedMs = parts.clock.wallMs()
    this.#observedMs = this.#startedMs
  }

  get status(): Status {
    return {
      place: this.#parts.masters.place,
      observedMs: this.#observedMs,
      masters: this.#masters,
      objects: [...this.#objects.values()].sort(compareRows),
      happenings: this.#happenings.toReversed(),
      faults: [...this.#readFaults, ...this.#watchFaults.values()],
    }
  }

  /** Calls `listener` after each change. Returns a function that ends it. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Until `signal` is aborted; nothing that the servers do ends it. */
  async run(signal: AbortSignal): Promise<void> {
    const { masters, clock, random } = this.#parts
    const { api } = masters
    // The leases can be read without an API server.
    if (typeof api === 'string') return this.#readMasters(signal)
    const availability = {
      failed: (source: string, error: unknown) => this.#onFault(source, error),
      succeeded: (source: string) => this.#onFault(source, undefined),
      interrupted() {},
      forget: (source: string) => this.#onFault(source, undefined),
    }
    const informers = new SharedInformers({ api, clock, random, logger: silentLogger, availability })
    for (const [kind, resource, query] of followed) {
      informers.get<KubeObject>(resource, { query }).subscribe((change) => this.#onObject(kind, change))
    }
    informers
      .get(coreEvents, { query: { fieldSelector: `reportingComponent=${REPORTER}` }, transform: shortened })
      .subscribe((change) => this.#onEvent(change))
    await Promise.all([informers.run(signal), this.#readMasters(signal)])
  }

  async #readMasters(signal: AbortSignal): Promise<void> {
    const { masters, clock } = this.#parts
    while (!signal.aborted) {
      try {
        const reading = await masters.read(signal)
        this.#masters = rowsOf(reading, masters)
        const { unlistedReason } = reading
        this.#readFaults =
          unlistedReason === undefined ? [] : [`the listed addresses cannot be read: ${unlistedReason}`]
      } catch (error) {
        if (signal.aborted) return
        this.#readFaults = [`the leases cannot be read: ${messageOf(error)}`]
      }
      this.#observedMs = clock.wallMs()
      this.#changed()
      await sleep(clock, READ_INTERVAL_MS, signal).catch(() => {})
    }
  }

  #onObject(kind: ViewKind, change: Change<KubeObject>): void {
    const object = change.type === 'deleted' ? change.old : change.object
    if (kind === 'Namespace' && !systemNamespaces.has(object.metadata?.name ?? '')) return
    const key = `${kind} ${keyOfObject(object)}`
    const row = change.type === 'deleted' ? undefined : rowOf(kind, object)
    const before = this.#objects.get(key)
    if (row === undefined) this.#objects.delete(key)
    else this.#objects.set(key, row)
    const createdMs = tryParseTime(object.metadata?.creationTimestamp ?? '') ?? 0
    const isOld = change.type === 'added' && createdMs < this.#startedMs - 1000
    this.#changed()
    if (before?.detail === row?.detail || isOld) return
    this.#note({
      atMs: this.#parts.clock.wallMs(),
      kind: row === undefined ? 'deleted' : before === undefined ? 'created' : 'changed',
      text: row === undefined ? `${kind} ${before?.name}` : `${kind} ${row.name}: ${row.detail}`,
    })
  }

  /** Events from before the start of the page are shown too. */
  #onEvent(change: Change<CoreEvent>): void {
    if (change.type === 'deleted') return
    const { reason, message = '', type, involvedObject, series, eventTime, lastTimestamp } = change.object
    const atMs = tryParseTime(series?.lastObservedTime ?? eventTime ?? lastTimestamp ?? '')
    const name = [involvedObject.namespace, involvedObject.name].filter(Boolean).join('/')
    const times = series === undefined ? '' : ` (${series.count} times)`
    this.#note({
      atMs: atMs ?? this.#parts.clock.wallMs(),
      kind: type === 'Warning' ? 'Warning' : 'Normal',
      text: printable(`${reason} ${involvedObject.kind} ${name}: ${message}${times}`).slice(0, MAX_TEXT_LENGTH),
    })
    this.#changed()
  }

  #note(happening: Happening): void {
    // An Event arrives after the change that it is about, perhaps a long time.
    const index = this.#happenings.findLastIndex(({ atMs }) => atMs <= happening.atMs)
    this.#happenings.splice(index + 1, 0, happening)
    this.#happenings.splice(0, this.#happenings.length - MAX_HAPPENINGS)
  }

  #onFault(source: string, error: unknown): void {
    if (error !== undefined) this.#watchFaults.set(source, `${source} cannot be read: ${messageOf(error)}`)
    else if (!this.#watchFaults.delete(source)) return
    this.#changed()
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}
