import type { V1ObjectReference } from '@kubernetes/client-node'
import type { Clock } from '../runtime/clock.ts'
import { type Random, randomInteger } from '../runtime/random.ts'
import { formatMicroTime } from '../runtime/time-format.ts'
import type { Json, KubeObject } from './json.ts'
import { apiVersionOf, events, type KubeEvent, type Resource } from './resources.ts'

export type ObjectReference = Json<V1ObjectReference>

/** One thing that happened, to be told to whoever asks the cluster for its events. */
export interface EventToRecord {
  readonly regarding: ObjectReference
  readonly related?: ObjectReference | undefined
  readonly type: 'Normal' | 'Warning'
  /** Why, in UpperCamelCase for machines: `FailedToCreateEndpoint`. At most 128 characters. */
  readonly reason: string
  /** What was done or tried, likewise: `Reconcile`. At most 128 characters, never empty. */
  readonly action: string
  /** For people. What exceeds 1,024 bytes is cut off. */
  readonly note: string
  /** Who says so, where that is not who records. */
  readonly reportingController?: string | undefined
}

/** Takes events, at once and without fail; what becomes of them is not its caller's business. */
export interface EventSink {
  record(event: EventToRecord): void
}

/** For those who have nothing to tell, such as a dry run. */
export const noEvents: EventSink = { record() {} }

/** Records as another: controllers that others know by a name of their own. */
export function recordingAs(reportingController: string, events: EventSink): EventSink {
  return { record: (event) => events.record({ ...event, reportingController }) }
}

/** Who reports. */
export interface Reporter {
  /** Such as `apiserver-bootstrap.example.com/endpoints`. */
  readonly reportingController: string
  /** Tells this process from others of its kind. Cut to 128 characters. */
  readonly reportingInstance: string
}

const maxName = 253
const maxNoteBytes = 1_024
const maxInstance = 128

/** The Event object that tells of `event` for the first time, now. */
export function newEvent(event: EventToRecord, reporter: Reporter, clock: Clock, random: Random): KubeEvent {
  const wallMs = clock.wallMs()
  // Looks like client-go's suffix, nanoseconds since 1970; what is below a millisecond is chance.
  const nanos = BigInt(Math.floor(wallMs)) * 1_000_000n + BigInt(randomInteger(random, 1_000_000))
  const suffix = `.${nanos.toString(16)}`
  return {
    apiVersion: apiVersionOf(events),
    kind: events.kind,
    metadata: {
      name: `${(event.regarding.name ?? '').slice(0, maxName - suffix.length)}${suffix}`,
      // Events of what has no namespace are in `default`, as everybody expects.
      namespace: event.regarding.namespace || 'default',
    },
    eventTime: formatMicroTime(wallMs),
    reportingController: event.reportingController ?? reporter.reportingController,
    reportingInstance: reporter.reportingInstance.slice(0, maxInstance),
    action: event.action,
    reason: event.reason,
    regarding: event.regarding,
    ...(event.related === undefined ? {} : { related: event.related }),
    note: cutBytes(event.note, maxNoteBytes),
    type: event.type,
  }
}

/** What an Event says of the object that it regards. */
export function referenceTo(object: KubeObject): ObjectReference {
  const { name, namespace, uid, resourceVersion } = object.metadata ?? {}
  const fields = { apiVersion: object.apiVersion, kind: object.kind, namespace, name, uid, resourceVersion }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

/** The same for an object as a resource serves it: in lists and watches objects do not say their kind. */
export function referenceIn(resource: Resource<KubeObject>, object: KubeObject | undefined): ObjectReference {
  return referenceTo({ ...object, apiVersion: apiVersionOf(resource), kind: resource.kind })
}

/** Equal for what is the same event again. */
export function seriesKey(event: EventToRecord): string {
  const related = event.related === undefined ? [] : identity(event.related)
  const { type, reason, action, note, reportingController } = event
  return JSON.stringify([identity(event.regarding), related, type, reason, action, note, reportingController])
}

/** Equal for events that share one allowance: those of a type about one object. */
export function spamKey(event: EventToRecord): string {
  return JSON.stringify([identity(event.regarding), event.type])
}

/** What makes two references mean the same object: not its resourceVersion, which changes under a series. */
function identity(reference: ObjectReference): readonly unknown[] {
  const { apiVersion, kind, namespace, name, uid, fieldPath } = reference
  return [apiVersion, kind, namespace, name, uid, fieldPath]
}

/** The longest beginning of `text` that is at most `limit` bytes of UTF-8. */
function cutBytes(text: string, limit: number): string {
  return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(limit)).read)
}
