import type { V1ObjectReference } from '@kubernetes/client-node/dist/gen/models/V1ObjectReference.js'
import type { Clock } from '../runtime/clock.ts'
import { type Random, randomInteger, randomUuid } from '../runtime/random.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import { withoutSecrets } from '../telemetry/secrets.ts'
import { apiVersionOf, events, type Json, type KubeEvent, type KubeObject, type Resource } from './resources.ts'

export type ObjectReference = Json<V1ObjectReference>

export interface EventToRecord {
  readonly regarding: ObjectReference
  readonly type: 'Normal' | 'Warning'
  /** Why, in UpperCamelCase for machines: `FailedToCreateEndpoint`. At most 128 characters. */
  readonly reason: string
  /** What was done or tried, in UpperCamelCase: `Reconcile`. At most 128 characters, never empty. */
  readonly action: string
  /** For people. It is cut off after 1,024 bytes. */
  readonly note: string
  /** The controller that reports, if it is not the recorder's own. */
  readonly reportingController?: string | undefined
}

/** Records Events. `record` neither waits nor fails. */
export interface EventSink {
  record(event: EventToRecord): void
}

export const noEvents: EventSink = { record() {} }

/**
 * A sink that records Events under the name of another controller, for controllers that users know by an established
 * name.
 */
export function recordingAs(reportingController: string, events: EventSink): EventSink {
  return { record: (event) => events.record({ ...event, reportingController }) }
}

export interface Reporter {
  /** Such as `apiserver-bootstrap.example.com/endpoints`. */
  readonly reportingController: string
  /** Distinguishes this process from others of its kind. Cut to 128 characters. */
  readonly reportingInstance: string
}

/** What servers accept as the name of an Event. */
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const MAX_NAME = 253
const MAX_NOTE_BYTES = 1_024
const MAX_INSTANCE = 128

/** The Event object for the first occurrence of `event`, now. */
export function newEvent(event: EventToRecord, reporter: Reporter, clock: Clock, random: Random): KubeEvent {
  const wallMs = clock.wallMs()
  // As in client-go, the suffix is the nanoseconds since 1970 in hexadecimal. The part below a millisecond is random.
  const nanos = BigInt(Math.floor(wallMs)) * 1_000_000n + BigInt(randomInteger(random, 1_000_000))
  const suffix = `.${nanos.toString(16)}`
  const name = `${(event.regarding.name ?? '').slice(0, MAX_NAME - suffix.length)}${suffix}`
  return {
    apiVersion: apiVersionOf(events),
    kind: events.kind,
    metadata: {
      // An IPAddress may be named `fd00::1`. An Event may not, so its name is then a UUID, as in client-go.
      name: subdomain.test(name) ? name : randomUuid(random),
      // Events about cluster-scoped objects go into `default`, as in client-go.
      namespace: event.regarding.namespace || 'default',
    },
    eventTime: formatMicroTime(wallMs),
    reportingController: event.reportingController ?? reporter.reportingController,
    reportingInstance: reporter.reportingInstance.slice(0, MAX_INSTANCE),
    action: event.action,
    reason: event.reason,
    regarding: event.regarding,
    note: cutBytes(withoutSecrets(event.note), MAX_NOTE_BYTES),
    type: event.type,
  }
}

export function referenceTo(object: KubeObject): ObjectReference {
  const { name, namespace, uid, resourceVersion } = object.metadata ?? {}
  const fields = { apiVersion: object.apiVersion, kind: object.kind, namespace, name, uid, resourceVersion }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** A reference to an object of `resource`. Objects from a list have no kind of their own. */
export function referenceIn(resource: Resource<KubeObject>, object: KubeObject | undefined): ObjectReference {
  return referenceTo({ ...object, apiVersion: apiVersionOf(resource), kind: resource.kind })
}

/** A key that is equal for repetitions of the same Event. */
export function seriesKey(event: EventToRecord): string {
  const { type, reason, action, note, reportingController } = event
  return JSON.stringify([identity(event.regarding), type, reason, action, note, reportingController])
}

/** A key that is equal for Events that share one rate limit: those of one type about one object. */
export function spamKey(event: EventToRecord): string {
  return JSON.stringify([identity(event.regarding), event.type])
}

/** The fields that identify an object, without the resourceVersion, which changes during a series. */
function identity(reference: ObjectReference): readonly unknown[] {
  const { apiVersion, kind, namespace, name, uid, fieldPath } = reference
  return [apiVersion, kind, namespace, name, uid, fieldPath]
}

/** The longest beginning of `text` that is at most `limit` bytes of UTF-8. */
function cutBytes(text: string, limit: number): string {
  // A UTF-16 code unit is at most three bytes of UTF-8.
  if (text.length * 3 <= limit) return text
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(limit)).read)
}

/**
 * The reasons of Events, except those of the repairs (`repairReasons` in repair/reporter.ts), and except the Event of
 * an unready ServiceCIDR, which repeats the reason of a condition. docs/events.md explains each reason.
 */
export const eventReasons = {
  MasterListed: { type: 'Normal', action: 'Reconcile' },
  MasterRemoved: { type: 'Normal', action: 'Reconcile' },
  LeaseTakenOver: { type: 'Normal', action: 'Announce' },
  MasterWithdrawn: { type: 'Normal', action: 'Withdraw' },
  MasterEvicted: { type: 'Normal', action: 'Evict' },
  KubernetesServiceReset: { type: 'Normal', action: 'Reset' },
  ForeignOverwrite: { type: 'Warning', action: 'BackOff' },
  LeaseContested: { type: 'Warning', action: 'BackOff' },
  OtherReconcilerActive: { type: 'Warning', action: 'Reset' },
  DutyDegraded: { type: 'Warning', action: 'Retry' },
  OtherLeaseStore: { type: 'Warning', action: 'Reset' },
  ReadinessRefused: { type: 'Warning', action: 'Probe' },
  ServiceRangeAdopted: { type: 'Normal', action: 'RangeAllocation' },
  KubernetesDefaultServiceCIDRError: { type: 'Warning', action: 'DefaultServiceCIDR' },
  KubernetesDefaultServiceCIDRInconsistent: { type: 'Warning', action: 'DefaultServiceCIDR' },
  KubernetesServiceCIDRError: { type: 'Warning', action: 'Sync' },
  FailedToCreateEndpoint: { type: 'Warning', action: 'Sync' },
  FailedToUpdateEndpoint: { type: 'Warning', action: 'Sync' },
  FailedToUpdateEndpointSlices: { type: 'Warning', action: 'Sync' },
  TopologyAwareHintsEnabled: { type: 'Normal', action: 'Sync' },
  TopologyAwareHintsDisabled: { type: 'Warning', action: 'Sync' },
  InvalidIPAddress: { type: 'Warning', action: 'Mirror' },
  TooManyAddressesToMirror: { type: 'Warning', action: 'Mirror' },
} as const satisfies Readonly<Record<string, Pick<EventToRecord, 'type' | 'action'>>>

export type EventReason = keyof typeof eventReasons

export function eventOf(reason: EventReason, event: Pick<EventToRecord, 'regarding' | 'note'>): EventToRecord {
  return { ...event, ...eventReasons[reason], reason }
}
