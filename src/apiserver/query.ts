import type { ApiRequest } from '../kube/transport.ts'
import type { Kind } from './kind.ts'
import { badRequest, FieldErrors, invalid } from './refusal.ts'
import { parseFieldSelector, parseLabelSelector } from './selectors.ts'
import type { StoredObject } from './store.ts'

/** The validated parameters of a list or watch. */
export interface ListOptions {
  /** Whether the label and field selectors select an object. Undefined: there is no selector. */
  readonly matches: ((object: StoredObject) => boolean) | undefined
  /** Undefined: the most recent state. */
  readonly resourceVersion: string | undefined
  readonly resourceVersionMatch: 'Exact' | 'NotOlderThan' | undefined
  readonly limit: number | undefined
  readonly continue: string | undefined
  readonly watch: boolean
  readonly allowWatchBookmarks: boolean
  readonly sendInitialEvents: boolean | undefined
  readonly timeoutSeconds: number | undefined
}

/** The first value of a parameter. */
export function parameter(query: ApiRequest['query'], name: string): string | undefined {
  for (const [key, value] of query) if (key === name) return value
  return undefined
}

/** A boolean parameter, as kube-apiserver reads it: `0` and `false` are false, everything else is true. */
export function flag(query: ApiRequest['query'], name: string): boolean | undefined {
  const value = parameter(query, name)
  return value === undefined ? undefined : value !== '0' && value.toLowerCase() !== 'false'
}

/** @throws Refusal 400 or 422, in kube-apiserver's words */
export function parseListOptions(query: ApiRequest['query'], kind: Kind): ListOptions {
  const label = parameter(query, 'labelSelector') ?? ''
  const field = parameter(query, 'fieldSelector') ?? ''
  const options: ListOptions = {
    matches: label === '' && field === '' ? undefined : matcher(label, field, kind),
    resourceVersion: parameter(query, 'resourceVersion') || undefined,
    resourceVersionMatch: resourceVersionMatch(query),
    limit: wholeNumber(query, 'limit'),
    continue: parameter(query, 'continue') || undefined,
    watch: flag(query, 'watch') ?? false,
    allowWatchBookmarks: flag(query, 'allowWatchBookmarks') ?? false,
    sendInitialEvents: flag(query, 'sendInitialEvents'),
    timeoutSeconds: wholeNumber(query, 'timeoutSeconds'),
  }
  checkCombination(options)
  return options
}

/** Empty selectors select everything. */
function matcher(label: string, field: string, kind: Kind): (object: StoredObject) => boolean {
  const matchesLabels = parseLabelSelector(label)
  const matchesFields = parseFieldSelector(field, kind.selectableFields)
  return (object) => matchesLabels(object.metadata.labels) && matchesFields(object)
}

function resourceVersionMatch(query: ApiRequest['query']): ListOptions['resourceVersionMatch'] {
  const value = parameter(query, 'resourceVersionMatch')
  if (value === undefined || value === '') return undefined
  if (value === 'Exact' || value === 'NotOlderThan') return value
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: "Exact", "NotOlderThan", ""`
  throw refused('FieldValueNotSupported', message)
}

/** Those checks of apimachinery's ValidateListOptions that real clients fail. */
function checkCombination(options: ListOptions): void {
  const { watch, sendInitialEvents, resourceVersionMatch: match, resourceVersion } = options
  if (sendInitialEvents !== undefined) {
    if (!watch) throw forbidden('sendInitialEvents is forbidden for list', 'sendInitialEvents')
    if (match !== 'NotOlderThan') throw withoutNotOlderThan(match)
    return
  }
  if (match === undefined) return
  if (watch) throw forbidden('resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided')
  if (resourceVersion === undefined)
    throw forbidden('resourceVersionMatch is forbidden unless resourceVersion is provided')
  if (options.continue !== undefined) throw forbidden('resourceVersionMatch is forbidden when continue is provided')
  if (match === 'Exact' && resourceVersion === '0')
    throw forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
}

function forbidden(why: string, field?: string): Error {
  return refused('FieldValueForbidden', `Forbidden: ${why}`, field)
}

function withoutNotOlderThan(match: ListOptions['resourceVersionMatch']): Error {
  const field = 'resourceVersionMatch'
  const errors = new FieldErrors()
  errors.forbidden(field, 'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan')
  if (match !== undefined) errors.notSupported(field, match, ['NotOlderThan'])
  return invalid(listOptionsKind, '', errors.causes)
}

function refused(reason: string, message: string, field = 'resourceVersionMatch'): Error {
  return invalid(listOptionsKind, '', [{ reason, message, field }])
}

const listOptionsKind = { kind: 'ListOptions', group: 'meta.k8s.io' }

/** Undefined if the parameter is missing, empty, zero or negative, which all mean the same. */
function wholeNumber(query: ApiRequest['query'], name: string): number | undefined {
  const value = parameter(query, name)
  if (value === undefined || value === '') return undefined
  if (!/^[+-]?\d+$/.test(value)) throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(value)}: invalid syntax`)
  return Number(value) > 0 ? Number(value) : undefined
}

/** A resourceVersion as a number; undefined if it is not a number of at most 16 digits. */
export function revisionOf(resourceVersion: string): number | undefined {
  return /^\d{1,16}$/.test(resourceVersion) ? Number(resourceVersion) : undefined
}
