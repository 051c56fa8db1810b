import { isRecord } from '../kube/resources.ts'
import { badRequest } from './refusal.ts'
import type { StoredObject } from './store.ts'

type Labels = Readonly<Record<string, string>> | undefined

interface Requirement {
  readonly key: string
  /** Whether a label with this value is allowed; undefined: whether the label may be absent. */
  readonly allows: (value: string | undefined) => boolean
}

/** Reads `a=b,c!=d,e in (f,g),h,!i,j>1` by apimachinery's grammar (pkg/labels/selector.go). @throws Refusal 400 */
export function parseLabelSelector(text: string): (labels: Labels) => boolean {
  const requirements = new Parser(text).requirements()
  const valueIn = (labels: Labels, key: string): string | undefined =>
    labels !== undefined && Object.hasOwn(labels, key) ? labels[key] : undefined
  return (labels) => requirements.every(({ key, allows }) => allows(valueIn(labels, key)))
}

function isInteger(text: string | undefined): text is string {
  return text !== undefined && /^-?\d+$/.test(text)
}

/** One token with the blanks around it: an operator (`==` is tried before `=`), a bracket, a comma or a word. */
const tokenPattern = /\s*(==|!=|=|!|<|>|\(|\)|,|[^\s=!<>(),]+)\s*/gy

class Parser {
  readonly #tokens: readonly string[]
  #next = 0

  constructor(text: string) {
    this.#tokens = [...text.matchAll(tokenPattern)].map(([, token]) => token as string)
  }

  requirements(): readonly Requirement[] {
    const requirements: Requirement[] = []
    if (this.#tokens.length === 0) return requirements
    for (;;) {
      requirements.push(this.#requirement())
      const separator = this.#take()
      if (separator === '') return requirements
      if (separator !== ',') throw unexpected(separator, "',' or 'end of string'")
      if (this.#peek() === '' || this.#peek() === ',') throw unexpected(this.#peek(), "identifier after ','")
    }
  }

  #requirement(): Requirement {
    const first = this.#take()
    if (first === '!') return { key: this.#key('identifier'), allows: (value) => value === undefined }
    this.#next--
    const key = this.#key("!, identifier, or 'end of string'")
    switch (this.#peek()) {
      case '':
      case ',':
        return { key, allows: (value) => value !== undefined }
      case '=':
      case '==':
      case '!=': {
        const isExcluded = this.#take() === '!='
        const named = this.#exactValue()
        return { key, allows: (value) => (value === named) !== isExcluded }
      }
      case 'in':
      case 'notin': {
        const areExcluded = this.#take() === 'notin'
        const named: readonly unknown[] = this.#set()
        return { key, allows: (value) => named.includes(value) !== areExcluded }
      }
      case '<':
      case '>': {
        const isUpper = this.#take() === '<'
        const bound = this.#exactValue()
        if (!isInteger(bound))
          throw badRequest(
            `values[0][${key}]: Invalid value: ${JSON.stringify(bound)}: for 'Gt', 'Lt' operators, the value must be an integer`,
          )
        const limit = BigInt(bound)
        const isWithin = (number: bigint): boolean => (isUpper ? number < limit : number > limit)
        return { key, allows: (value) => isInteger(value) && isWithin(BigInt(value)) }
      }
      default:
        throw unexpected(this.#peek(), 'in, notin, =, ==, !=, gt, lt')
    }
  }

  #key(expected: string): string {
    const key = this.#take()
    if (!isWord(key)) throw unexpected(key, expected)
    if (!keyPattern.test(key)) throw badRequest(`key: Invalid value: ${JSON.stringify(key)}: name part is not valid`)
    return key
  }

  /** The value after an operator; empty when the requirement ends there. */
  #exactValue(): string {
    if (this.#peek() === '' || this.#peek() === ',') return ''
    const value = this.#take()
    if (!isWord(value)) throw unexpected(value, 'identifier')
    return checkedValue(value)
  }

  #set(): readonly string[] {
    if (this.#peek() !== '(') throw unexpected(this.#peek(), "'('")
    this.#take()
    const values: string[] = []
    for (;;) {
      const token = this.#take()
      if (isWord(token)) {
        values.push(checkedValue(token))
        const separator = this.#take()
        if (separator === ')') return values
        if (separator !== ',') throw unexpected(separator, "',' or ')'")
      } else if (token === ')') {
        values.push('')
        return values
      } else if (token === ',') {
        values.push('')
      } else {
        throw badRequest(`unable to parse requirement: found '${token}', expected: ',', ')' or identifier`)
      }
    }
  }

  #peek(): string {
    return this.#tokens[this.#next] ?? ''
  }

  #take(): string {
    return this.#tokens[this.#next++] ?? ''
  }
}

const keyPattern = /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/
const valuePattern = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/

function checkedValue(value: string): string {
  if (!valuePattern.test(value))
    throw badRequest(`values: Invalid value: ${JSON.stringify(value)}: not a valid label value`)
  return value
}

function isWord(token: string): boolean {
  return /^[^=!<>(),]/.test(token)
}

function unexpected(token: string, expected: string): Error {
  return badRequest(`found '${token}', expected: ${expected}`)
}

/**
 * The selectable fields of a kind beside `metadata.name` and `metadata.namespace`. For each name: a function that reads
 * the field.
 */
export type FieldGetters = Readonly<Record<string, (object: StoredObject) => string>>

/** Selectable fields whose names are their paths, read by {@link textAt}. */
export function fieldsAt(...paths: readonly string[]): FieldGetters {
  return Object.fromEntries(paths.map((path) => [path, textAt(path)]))
}

/**
 * Returns a function that reads the field at a path such as `status.phase` as a text. The text is empty if the field is
 * missing.
 */
export function textAt(path: string): (object: StoredObject) => string {
  const names = path.split('.')
  return (object) =>
    String(names.reduce((outer: unknown, name) => (isRecord(outer) ? outer[name] : undefined), object) ?? '')
}

const everyKind: FieldGetters = {
  'metadata.name': (object) => object.metadata.name,
  'metadata.namespace': (object) => object.metadata.namespace ?? '',
}

/**
 * Reads a field selector: `field=value`, `field==value` or `field!=value`, joined by commas; `\` escapes `,`, `=` and
 * itself.
 * @throws Refusal 400
 */
export function parseFieldSelector(text: string, getters?: FieldGetters): (object: StoredObject) => boolean {
  // Splits at unescaped commas. Empty terms are ignored.
  const terms = (text.match(/(?:\\.|[^\\,]|\\$)+/gs) ?? []).map((term) => parseTerm(term, text, getters))
  return (object) => terms.every((term) => (term.get(object) === term.value) === term.wanted)
}

function parseTerm(term: string, whole: string, own: FieldGetters | undefined) {
  const match = /^((?:\\.|[^\\=!])*)(==|!=|=)(.*)$/s.exec(term)
  if (match === null) throw badRequest(`invalid selector: '${whole}'; can't understand '${term}'`)
  const [, field = '', operator, value = ''] = match
  const getters = { ...everyKind, ...own }
  const get = Object.hasOwn(getters, field) ? getters[field] : undefined
  if (get === undefined) {
    if (own !== undefined) throw badRequest(`field label not supported: ${field}`)
    const known = Object.keys(getters).map((name) => JSON.stringify(name))
    throw badRequest(`${JSON.stringify(field)} is not a known field selector: only ${known.join(', ')}`)
  }
  return { get, wanted: operator !== '!=', value: unescaped(value, whole) }
}

function unescaped(value: string, whole: string): string {
  if (/(^|[^\\])(\\\\)*\\($|[^\\,=])|(^|[^\\])(\\\\)*[,=]/.test(value)) {
    throw badRequest(`invalid selector: '${whole}'; can't understand '${value}'`)
  }
  return value.replace(/\\([\\,=])/g, '$1')
}
