import { coreEvents, events, type KubeEvent } from '../../kube/resources.ts'
import { equalJson } from '../../runtime/equal-json.ts'
import { type Column, nameColumn, timeSince } from '../columns.ts'
import { type Draft, type Kind, member } from '../kind.ts'
import { labelKeyFault } from '../names.ts'
import type { FieldErrors } from '../refusal.ts'
import * as s from '../schema.ts'
import { fieldsAt, textAt } from '../selectors.ts'
import type { StoredObject } from '../store.ts'

const columns: readonly Column[] = [
  { name: 'Last Seen', cell: (event, nowMs) => timeSince(timesOf(event).last, nowMs) },
  { name: 'Type', cell: textAt('type') },
  { name: 'Reason', cell: textAt('reason') },
  { name: 'Object', cell: regarded },
  { name: 'Subobject', priority: 1, cell: textAt('regarding.fieldPath') },
  { name: 'Source', priority: 1, cell: sourceOf },
  { name: 'Message', cell: (event) => String(event.note ?? '').trim() },
  { name: 'First Seen', priority: 1, cell: (event, nowMs) => timeSince(timesOf(event).first, nowMs) },
  { name: 'Count', priority: 1, cell: (event) => timesOf(event).count },
  { ...nameColumn, priority: 1 },
]

/** The fields of an ObjectReference by which Events can be selected. */
const referenceFields = ['kind', 'namespace', 'name', 'uid', 'apiVersion', 'resourceVersion', 'fieldPath']

export const eventKind: Kind = {
  resource: events,
  shortNames: ['ev'],
  schema: s.kindSchema({
    eventTime: s.microTime,
    series: s.object({ count: s.integer, lastObservedTime: s.microTime }),
    reportingController: s.string,
    reportingInstance: s.string,
    action: s.string,
    reason: s.string,
    regarding: s.atomicReference,
    related: s.atomicReference,
    note: s.string,
    type: s.string,
    deprecatedSource: s.any,
    deprecatedFirstTimestamp: s.time,
    deprecatedLastTimestamp: s.time,
    deprecatedCount: s.integer,
  }),
  createOnUpdate: true,
  selectableFields: fieldsAt(
    ...referenceFields.map((field) => `regarding.${field}`),
    'reason',
    'reportingController',
    'type',
  ),
  columns,
  refusalGroup: '',
  validate(draft, errors, live) {
    checkEvent(draft, 'reportingController', errors)
    if (live === undefined) checkNewEvent(draft, errors)
    else checkUnchanged(draft, live, errors)
  },
}

/** The fields of a core Event that are renamed in events.k8s.io/v1. */
const names: Readonly<Record<string, string>> = {
  involvedObject: 'regarding',
  message: 'note',
  source: 'deprecatedSource',
  firstTimestamp: 'deprecatedFirstTimestamp',
  lastTimestamp: 'deprecatedLastTimestamp',
  count: 'deprecatedCount',
  reportingComponent: 'reportingController',
}
const deprecated = Object.values(names).filter((name) => name.startsWith('deprecated'))
const coreNames: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(names).map(([core, name]) => [name, core]),
)

function renamed<T extends object>(object: T, by: Readonly<Record<string, string>>): T {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [by[name] ?? name, value])) as T
}

function toStored(event: StoredObject): StoredObject {
  const { reportingController, reportingInstance, ...rest } = renamed(event, names)
  return Object.freeze({
    ...rest,
    ...(reportingController ? { reportingController } : {}),
    ...(reportingInstance ? { reportingInstance } : {}),
    apiVersion: 'events.k8s.io/v1',
  })
}

function fromStored(event: StoredObject): StoredObject {
  // Go writes these three fields even if they are empty.
  const empty = { source: {}, reportingComponent: '', reportingInstance: '' }
  return Object.freeze({ ...empty, ...renamed(event, coreNames), apiVersion: 'v1' })
}

/** Events in the form of the core group, in which kubectl reads them. */
export const coreEventKind: Kind = {
  resource: coreEvents,
  shortNames: ['ev'],
  schema: s.kindSchema({
    involvedObject: s.atomicReference,
    reason: s.string,
    message: s.string,
    source: s.object({ component: s.optionalString, host: s.optionalString }),
    firstTimestamp: s.time,
    lastTimestamp: s.time,
    count: s.integer,
    type: s.string,
    eventTime: s.microTime,
    series: s.object({ count: s.integer, lastObservedTime: s.microTime }),
    action: s.string,
    related: s.atomicReference,
    reportingComponent: s.string,
    reportingInstance: s.string,
  }),
  storedAs: { resource: events, toStored, fromStored },
  createOnUpdate: true,
  refusalGroup: '',
  selectableFields: {
    ...fieldsAt(...referenceFields.map((field) => `involvedObject.${field}`), 'reason', 'reportingComponent', 'type'),
    source: (event) => String(member(event, 'source').component || event.reportingComponent || ''),
  },
  columns: columns.map((column) => ({ ...column, cell: (event, ...rest) => column.cell(toStored(event), ...rest) })),
  validate: (draft, errors) => checkEvent(renamed(draft, names), 'reportingComponent', errors),
}

/**
 * Checks an Event in the form of events.k8s.io/v1. Most rules are only for newer Events, which have an eventTime.
 * `controllerField` is the name of the field `reportingController` in errors.
 */
function checkEvent(event: Draft, controllerField: string, errors: FieldErrors): void {
  const { namespace: about = '' } = member(event, 'regarding')
  const { namespace = '' } = event.metadata ?? {}
  const isNewer = event.eventTime !== undefined
  const isInPlace =
    about === '' ? namespace === 'default' || (isNewer && namespace === 'kube-system') : isNewer || about === namespace
  if (!isInPlace) errors.invalid('involvedObject.namespace', about, 'does not match event.namespace')
  if (!isNewer) return
  const controller = String(event.reportingController ?? '')
  if (controller === '') errors.required(controllerField)
  errors.invalid(controllerField, controller, labelKeyFault(controller))
  for (const field of ['reportingInstance', 'action', 'reason']) {
    if (!event[field]) errors.required(field)
    checkLength(event, field, 128, field, errors)
  }
  checkLength(event, 'note', 1024, 'message', errors)
}

function checkLength(event: Draft, field: string, most: number, name: string, errors: FieldErrors): void {
  if (Buffer.byteLength(String(event[field] ?? '')) > most) {
    errors.invalid(name, '', `can have at most ${most} characters`)
  }
}

/** Checks upstream's further rules for an Event that is created through events.k8s.io/v1. */
function checkNewEvent(event: Draft, errors: FieldErrors): void {
  if (event.eventTime === undefined) errors.required('eventTime')
  if (event.type !== 'Normal' && event.type !== 'Warning') {
    errors.invalid('type', '', `has invalid value: ${event.type ?? ''}`)
  }
  for (const field of deprecated) {
    if (event[field] !== undefined) errors.invalid(coreNames[field] ?? field, '', 'needs to be unset')
  }
}

/** Refuses an update through events.k8s.io/v1 that changes anything beside the series and the metadata. */
function checkUnchanged(event: Draft, live: StoredObject, errors: FieldErrors): void {
  const inOrder = ['regarding', 'reason', 'note', ...deprecated, 'type', 'eventTime', 'action', 'related']
  for (const field of [...inOrder, 'reportingController', 'reportingInstance']) {
    const name = field === 'reportingController' ? field : (coreNames[field] ?? field)
    if (!equalJson(event[field], live[field])) errors.invalid(name, event[field] ?? null, 'field is immutable')
  }
}

function regarded(event: StoredObject): string {
  const { kind = '', name = '' } = member(event, 'regarding')
  return name === '' ? String(kind).toLowerCase() : `${String(kind).toLowerCase()}/${name}`
}

function sourceOf(event: StoredObject): string {
  const { component, host } = member(event, 'deprecatedSource')
  const parts = component === undefined ? [event.reportingController, event.reportingInstance] : [component, host]
  return parts.filter((part) => part !== undefined && part !== '').join(', ')
}

function timesOf(event: Partial<Omit<KubeEvent, 'metadata'>>) {
  const { series, eventTime, deprecatedFirstTimestamp, deprecatedLastTimestamp, deprecatedCount } = event
  const first = deprecatedFirstTimestamp ?? eventTime
  const last = series?.lastObservedTime ?? deprecatedLastTimestamp ?? first
  return { first, last, count: series?.count ?? deprecatedCount ?? (eventTime === undefined ? 0 : 1) }
}
