import { events } from '../../kube/resources.ts'
import type { Kind } from '../kind.ts'
import { dnsSubdomainFault } from '../names.ts'
import { any, integer, kindSchema, microTime, object, string, time } from '../schema.ts'

const required = ['reportingController', 'reportingInstance', 'action', 'reason'] as const

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
    const regarding = draft['regarding'] as { readonly namespace?: string } | undefined
    const namespace = draft.metadata?.namespace
    if ((regarding?.namespace ?? 'default') !== namespace) {
      errors.invalid('involvedObject.namespace', regarding?.namespace ?? '', 'does not match event.namespace')
    }
    if (live !== undefined) return
    if (draft['eventTime'] === undefined) errors.required('eventTime')
    if (draft['type'] !== 'Normal' && draft['type'] !== 'Warning') errors.invalid('type', draft['type'] ?? '', `has invalid value: ${draft['type'] ?? ''}`)
    for (const field of required) if (!draft[field]) errors.required(field)
    if (String(draft['note'] ?? '').length > 1024) errors.invalid('message', '', 'can have at most 1024 characters')
  },
}
