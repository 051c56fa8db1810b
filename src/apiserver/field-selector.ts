import { badRequest } from './refusal.ts'
import type { StoredObject } from './store.ts'

/** Reads the fields that a kind can be selected by, beside `metadata.name` and `metadata.namespace`. */
export type FieldGetters = Readonly<Record<string, (object: StoredObject) => string>>

export interface FieldSelector {
  readonly matches: (object: StoredObject) => boolean
  /** The only name that can match, where the selector says so: a list need not look further. */
  readonly name: string | undefined
}

const everyKind: FieldGetters = {
  'metadata.name': (object) => object.metadata.name,
  'metadata.namespace': (object) => object.metadata.namespace ?? '',
}

/**
 * Reads a field selector: `field=value`, `field==value` or `field!=value`, joined by commas; `\` escapes `,`, `=` and itself.
 * @throws Refusal 400
 */
export function parseFieldSelector(text: string, getters: FieldGetters = {}): FieldSelector {
  const terms = splitTerms(text).map((term) => parseTerm(term, text, { ...everyKind, ...getters }))
  return {
    matches: (object) => terms.every((term) => (term.get(object) === term.value) === term.wanted),
    name: terms.find((term) => term.field === 'metadata.name' && term.wanted)?.value,
  }
}

function parseTerm(term: string, whole: string, getters: FieldGetters) {
  const match = /^((?:\\.|[^\\=!])*)(==|!=|=)(.*)$/s.exec(term)
  if (match === null) throw badRequest(`invalid selector: '${whole}'; can't understand '${term}'`)
  const [, field = '', operator, value = ''] = match
  const get = Object.hasOwn(getters, field) ? getters[field] : undefined
  if (get === undefined) {
    const known = Object.keys(getters).map((name) => JSON.stringify(name))
    throw badRequest(`${JSON.stringify(field)} is not a known field selector: only ${known.join(', ')}`)
  }
  return { field, get, wanted: operator !== '!=', value: unescaped(value, whole) }
}

function unescaped(value: string, whole: string): string {
  if (/(^|[^\\])(\\\\)*\\($|[^\\,=])|(^|[^\\])(\\\\)*[,=]/.test(value)) {
    throw badRequest(`invalid selector: '${whole}'; can't understand '${value}'`)
  }
  return value.replace(/\\([\\,=])/g, '$1')
}

/** Splits at commas that are not escaped; empty terms count for nothing. */
function splitTerms(text: string): readonly string[] {
  return (text.match(/(?:\\.|[^\\,]|\\$)+/gs) ?? []).filter((term) => term !== '')
}
