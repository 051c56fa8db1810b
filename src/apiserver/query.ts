import type { ApiRequest } from '../kube/transport.ts'
import type { Kind } from './kind.ts'
import { badRequest, FieldErrors } from './refusal.ts'
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

/** The first value of a parameter; undefined if the parameter is missing. */
export function parameter(query: ApiRequest['query'], name: string): string | undefined {
  for (const [key, value] of query) if (key === name) return value
  return undefined
}

/**
 * A boolean parameter, as kube-apiserver reads it: `0` and `false` are false, everything else is true. Undefined if the
 * parameter is missing.
 */
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
  const value = parameter(query, matchField) || undefined
  if (value === 'Exact' || value === 'NotOlderThan') return value
  const errors = new FieldErrors()
  if (value !== undefined) errors.notSupported(matchField, value, ['Exact', 'NotOlderThan', ''])
  errors.refuse(listOptionsKind, '')
  return undefined
}

/** Applies those rules of apimachinery's ValidateListOptions that real clients break. */
function checkCombination(options: ListOptions): void {
  const { watch, sendInitialEvents, resourceVersionMatch: match, resourceVersion } = options
  const errors = new FieldErrors()
  if (sendInitialEvents !== undefined) {
    if (!watch) errors.forbidden('sendInitialEvents', 'sendInitialEvents is forbidden for list')
    else if (match !== 'NotOlderThan') {
      errors.forbidden(matchField, 'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan')
      if (match !== undefined) errors.notSupported(matchField, match, ['NotOlderThan'])
    }
  } else if (match !== undefined) {
    const forbid = (why: string): void => errors.forbidden(matchField, `resourceVersionMatch ${why}`)
    if (watch) forbid('is forbidden for watch unless sendInitialEvents is provided')
    else if (resourceVersion === undefined) forbid('is forbidden unless resourceVersion is provided')
    else if (options.continue !== undefined) forbid('is forbidden when continue is provided')
    else if (match === 'Exact' && resourceVersion === '0') forbid('"exact" is forbidden for resourceVersion "0"')
  }
  errors.refuse(listOptionsKind, '')
}

const matchField = 'resourceVersionMatch'
const listOptionsKind = { kind: 'ListOptions', group: 'meta.k8s.io' }

/** Undefined if the parameter is missing, empty, zero or negative, which all mean the same. */
function wholeNumber(query: ApiRequest['query'], name: string): number | undefined {
  const value = parameter(query, name)
  if (value === undefined || value === '') return undefined
  if (!/^[+-]?\d+$/.test(value)) throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(value)}: invalid syntax`)
  return Number(value) > 0 ? Number(value) : undefined
}

/** A resourceVersion of 1 to 16 digits as a number; undefined for any other text. */
export function revisionOf(resourceVersion: string): number | undefined {
  return /^\d{1,16}$/.test(resourceVersion) ? Number(resourceVersion) : undefined
}
