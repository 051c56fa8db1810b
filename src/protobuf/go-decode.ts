import { memoize } from '../runtime/memo.ts'
import { tryParseTime } from '../runtime/time-format.ts'
import { kindMessages } from './go-fields.ts'
import { type Field, fieldsOf, MOST_MESSAGES } from './go-json.ts'

type Members = Readonly<Record<string, unknown>>

/** A value does not have the type of its field. The message ends a sentence of the caller. */
export class GoTypeError extends Error {
  override readonly name = 'GoTypeError'
}

/**
 * Reads an object as Go reads JSON into the type of its kind. `known` lacks the fields that the type does not have, and
 * has an empty value for each null in a list or map. `known` is the object itself if nothing changes, or if the kind is
 * not in go-fields.ts. `unknown` has the paths of the dropped fields (`spec.ports[0].prot`). Pure.
 * @throws GoTypeError
 */
export function decodedByGoType(
  apiVersion: string,
  kind: string,
  object: Members,
): { readonly known: Members; readonly unknown: readonly string[] } {
  const message = kindMessages[`${apiVersion} ${kind}`]
  const unknown: string[] = []
  if (message === undefined) return { known: object, unknown }
  const { apiVersion: givenVersion, kind: givenKind, ...fields } = object
  const known = decodedMessage(fields, message, '', unknown)
  if (known === fields) return { known: object, unknown }
  const type = Object.entries({ apiVersion: givenVersion, kind: givenKind }).filter(([, text]) => text !== undefined)
  return { known: { ...Object.fromEntries(type), ...known }, unknown }
}

/** Returns the value itself if nothing changes. */
function decodedMessage(value: unknown, message: string, path: string, unknown: string[]): Members {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) mismatch(value, 'object', path)
  const fields = fieldsByName(message)
  const members = Object.entries(value)
  const known = members.flatMap(([name, member]) => {
    const here = path === '' ? name : `${path}.${name}`
    const field = fields.get(name)
    if (field === undefined) {
      unknown.push(here)
      return []
    }
    return [[name, decodedField(member, field, here, unknown)] as const]
  })
  const isSame = known.length === members.length && known.every(([, member], index) => member === members[index]?.[1])
  return isSame ? (value as Members) : Object.fromEntries(known)
}

function decodedField(value: unknown, { type, holds }: Field, path: string, unknown: string[]): unknown {
  if (value === null || value === undefined) return value
  if (holds === 'one') return decodedValue(value, type, path, unknown)
  if (holds === 'list') {
    if (!Array.isArray(value)) mismatch(value, 'list', path)
    const items = value.map((item, index) => decodedItem(item, type, `${path}[${index}]`, unknown))
    return items.every((item, index) => item === value[index]) ? value : items
  }
  if (typeof value !== 'object' || Array.isArray(value)) mismatch(value, 'map', path)
  const entries = Object.entries(value).map(([key, item]) => [key, decodedItem(item, type, `${path}[${key}]`, unknown)])
  return entries.every(([key, item]) => item === (value as Members)[key as string])
    ? value
    : Object.fromEntries(entries)
}

/** Decodes an item of a list or map. Null becomes an empty value, because Go has no null in a list or map of values. */
function decodedItem(item: unknown, type: string, path: string, unknown: string[]): unknown {
  if (item !== null) return decodedValue(item, type, path, unknown)
  if (type === 'int') return 0
  if (type === 'bool') return false
  if (type === 'quantity') return '0'
  return isMessage(type) ? {} : ''
}

function decodedValue(value: unknown, type: string, path: string, unknown: string[]): unknown {
  switch (type) {
    case 'string':
    case 'bytes':
      return typeof value === 'string' ? value : mismatch(value, 'string', path)
    case 'bool':
      return typeof value === 'boolean' ? value : mismatch(value, 'bool', path)
    case 'int':
      return Number.isSafeInteger(value) ? value : mismatch(value, 'integer', path)
    case 'time':
      return decodedTime(value, path)
    case 'microTime':
      return typeof value === 'string' ? value : mismatch(value, 'time', path)
    case 'quantity':
      return typeof value === 'string' || typeof value === 'number' ? value : mismatch(value, 'quantity', path)
    case 'intOrString':
      return typeof value === 'string' || Number.isSafeInteger(value) ? value : mismatch(value, 'int or string', path)
    default:
      return isMessage(type) ? decodedMessage(value, type, path, unknown) : value
  }
}

function isMessage(type: string): boolean {
  return type.includes('/')
}

/** @throws GoTypeError */
export function decodedTime(value: unknown, path: string): string {
  if (typeof value !== 'string') mismatch(value, 'time', path)
  if (tryParseTime(value) === undefined) {
    throw new GoTypeError(`parsing time ${JSON.stringify(value)} as "2006-01-02T15:04:05Z07:00"`)
  }
  return value
}

export function mismatch(value: unknown, wanted: string, path: string): never {
  const given = Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value
  throw new GoTypeError(`json: cannot unmarshal ${given} into field ${path} of type ${wanted}`)
}

/** The fields of a message by their names in JSON, including the fields of embedded messages, which have no name. */
const fieldsByName: (message: string) => ReadonlyMap<string, Field> = memoize((message) => {
  const all = [...fieldsOf(message).values()].flatMap((field) =>
    field.name === '' ? [...fieldsByName(field.type)] : [[field.name, field] as const],
  )
  return new Map(all)
}, MOST_MESSAGES)
