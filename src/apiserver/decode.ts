import { DEEPEST_NESTING } from '../kube/transport.ts'
import { decodedTime, GoTypeError, mismatch } from '../protobuf/go-decode.ts'
import { setMember } from '../protobuf/go-json.ts'
import type { Members } from './kind.ts'
import { anyWithNull, type Schema, string } from './schema.ts'

/** The results of {@link decode}, each with its schema. Results are frozen, so they can be shared instead of copied. */
const decoded = new WeakMap<object, Schema | undefined>()

/**
 * Reads `value` as Go decodes JSON into the type that `schema` describes. Returns a frozen copy. Leaves out members
 * that are `undefined`, members that are `null` unless the schema allows `null`, and empty values that Go would omit by
 * the schema. Preserves fields that the schema lacks, even empty ones. A result of `decode` for the same schema is not
 * copied again. `path` is where the value is in its object, for messages.
 * @throws GoTypeError for a value of the wrong type, or one that is nested too deeply
 */
export function decode(value: unknown, schema: Schema | undefined, path = '', depth = 1): unknown {
  if (typeof value === 'object' && value !== null) {
    const known = decoded.get(value)
    if (known === schema && (known !== undefined || decoded.has(value))) return value
    // The message of Go's decoder, which allows a depth of 10,000. The stack of this program allows less.
    if (depth > DEEPEST_NESTING) throw new GoTypeError('json: exceeded max depth')
  }
  switch (schema?.type) {
    case undefined:
      return decodeUnknown(value, undefined, path, depth)
    case 'any':
      return decodeUnknown(value, schema.keepsNull === true ? anyWithNull : undefined, path, depth)
    case 'string':
      return typeof value === 'string' ? value : mismatch(value, 'string', path)
    case 'boolean':
      return typeof value === 'boolean' ? value : mismatch(value, 'bool', path)
    case 'integer':
      return Number.isSafeInteger(value) ? value : mismatch(value, 'integer', path)
    case 'integerOrString':
      return typeof value === 'string' || Number.isSafeInteger(value) ? value : mismatch(value, 'int or string', path)
    case 'time':
      return decodedTime(value, path)
    case 'microTime':
      return decodeMicroTime(value, path)
    case 'map':
    case 'object':
      return decodeMembers(value, schema, path, depth)
    case 'list':
      return decodeItems(value, schema, path, depth)
  }
}

function decodeMembers(
  value: unknown,
  schema: Schema & { type: 'map' | 'object' },
  path: string,
  depth: number,
): object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) mismatch(value, 'object', path)
  const members = value as Members
  const undeclared = schema.type === 'object' && schema.keepsNull === true ? nullableAny : undefined
  const copy: Record<string, unknown> = {}
  for (const key of Object.keys(members)) {
    const member = members[key]
    if (member === undefined) continue
    const memberSchema =
      schema.type === 'map' ? string : Object.hasOwn(schema.fields, key) ? schema.fields[key] : undeclared
    if (member === null) {
      if (memberSchema?.nullable === true) setMember(copy, key, null)
      continue
    }
    const result = decode(member, memberSchema, path === '' ? key : `${path}.${key}`, depth + 1)
    if (!isOmitted(result, memberSchema)) setMember(copy, key, result)
  }
  return remember(copy, schema)
}

function decodeItems(
  value: unknown,
  schema: Schema & { type: 'list' },
  path: string,
  depth: number,
): readonly unknown[] {
  if (!Array.isArray(value)) mismatch(value, 'list', path)
  const copy = value.map((item, index) => decode(item, schema.items, `${path}[${index}]`, depth + 1))
  return remember(copy, schema)
}

/** Decodes a value of any type. `schema` applies to every part of the value. */
function decodeUnknown(value: unknown, schema: Schema | undefined, path: string, depth: number): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : mismatch(value, 'JSON value', path)
  if (Array.isArray(value)) {
    return remember(
      value.map((item, index) => decode(item, schema, `${path}[${index}]`, depth + 1)),
      schema,
    )
  }
  if (typeof value !== 'object') mismatch(value, 'JSON value', path)
  const copy: Record<string, unknown> = {}
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined || (member === null && schema === undefined)) continue
    setMember(copy, key, decode(member, schema, `${path}.${key}`, depth + 1))
  }
  return remember(copy, schema)
}

/** Requires a time with exactly six decimal places of the second, as metav1.MicroTime does. */
function decodeMicroTime(value: unknown, path: string): unknown {
  if (typeof value !== 'string') mismatch(value, 'time', path)
  if (!/\.\d{6}(?:Z|[+-]\d{2}:\d{2})$/.test(value)) {
    const layout = `parsing time ${JSON.stringify(value)} as "2006-01-02T15:04:05.000000Z07:00"`
    const [, fraction] = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(.*)$/.exec(value) ?? []
    const what = fraction === undefined ? '' : `: cannot parse ${JSON.stringify(fraction)} as ".000000"`
    throw new GoTypeError(layout + what)
  }
  return decodedTime(value, path)
}

const nullableAny: Schema = { ...anyWithNull, nullable: true }

function isOmitted(value: unknown, schema: Schema | undefined): boolean {
  switch (schema?.type) {
    case 'string':
      return schema.omitEmpty === true && value === ''
    case 'integer':
      return schema.omitEmpty === true && value === 0
    case 'list':
      return schema.preserveEmpty !== true && (value as readonly unknown[]).length === 0
    case 'map':
      return Object.keys(value as object).length === 0
    default:
      return false
  }
}

/** The member `key` of `container` itself; undefined for a member of its prototype, such as `__proto__`. */
export function ownMember(container: Members, key: string): unknown {
  return Object.hasOwn(container, key) ? container[key] : undefined
}

/**
 * Freezes a value that this server made in the form of a {@link decode} result. {@link decode} does not copy it again
 * when an in-process client sends the same object back.
 */
export function asDecoded<T extends object>(value: T, schema: Schema): T {
  decoded.set(value, schema)
  return deepFrozen(value)
}

function remember<T extends object>(value: T, schema: Schema | undefined): T {
  Object.freeze(value)
  decoded.set(value, schema)
  return value
}

/** Freezes a JSON value deeply; frozen parts are assumed to be frozen deeply. */
export function deepFrozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const key of Object.keys(value)) deepFrozen((value as Members)[key])
  }
  return value
}
