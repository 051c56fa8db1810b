import { events } from '../../kube/resources.ts'
import type { Kind } from '../kind.ts'
import { dnsSubdomainFault } from '../names.ts'
import { equalJson } from '../plain-json.ts'
import { any, integer, kindSchema, microTime, object, string, time } from '../schema.ts'

const required = ['reportingController', 'reportingInstance', 'action', 'reason'] as const
const immutable = [...required, 'regarding', 'related', 'note', 'type', 'eventTime'] as const
const maxNoteLength = 1024

/** Where events about cluster-scoped objects are written. */
const clusterScopedPlaces = ['default', 'kube-system']

export const eventKind: Kind = {
  resource: events,
  singular: 'event',
  shortNames: ['ev'],
  schema: kindSchema({
    eventTime: microTime,
    series: object({ count: integer, lastObservedTime: microTime }),
    reportingController: string,
    reportingInstance: string,
    action: string,
    reason: string,
    regarding: any,
    related: any,
    note: string,
    type: string,
    deprecatedSource: any,
    deprecatedFirstTimestamp: time,
    deprecatedLastTimestamp: time,
    deprecatedCount: integer,
  }),
  hasStatus: false,
  createOnUpdate: true,
  nameFault: dnsSubdomainFault,
  validate(draft, errors, live) {
    const regarding = draft.regarding as { readonly namespace?: string } | undefined
    const namespace = draft.metadata?.namespace ?? ''
    if (!regarding?.namespace && !clusterScopedPlaces.includes(namespace)) {
      errors.invalid('involvedObject.namespace', '', 'does not match event.namespace')
    }
    for (const field of required) if (!draft[field]) errors.required(field)
    if (String(draft.note ?? '').length > maxNoteLength) {
      errors.invalid('message', '', `can have at most ${maxNoteLength} characters`)
    }
    if (live !== undefined) {
      for (const field of immutable) {
        if (!equalJson(draft[field], live[field])) errors.invalid(field, draft[field] ?? null, 'field is immutable')
      }
      return
    }
    if (draft.eventTime === undefined) errors.required('eventTime')
    if (draft.type !== 'Normal' && draft.type !== 'Warning') {
      errors.invalid('type', '', `has invalid value: ${draft.type ?? ''}`)
    }
  },
}
