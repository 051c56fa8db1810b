import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { memoize } from '../runtime/memo.ts'
import { formatMicroTime, formatTime } from '../runtime/time-format.ts'
import { kindMessages, messageFields } from './go-fields.ts'
import { protobufPrefix } from './object-prefix.ts'

/** One field of a message, from its text in go-fields.ts: `2 ports []core/v1.ServicePort?`. */
export interface Field {
  /** The name in JSON; empty for an embedded message, whose fields JSON shows in the message around it. */
  readonly name: string
  /** A scalar, a type with JSON of its own, or the name of a message. */
  readonly type: string
  readonly holds: 'one' | 'list' | 'map'
  /** `?` in the text: Go always writes the field in protobuf, but in JSON only if it is not empty. */
  readonly omitEmpty: boolean
}

/** The bytes are not a valid message of the expected kind. */
export class ProtobufError extends Error {
  override readonly name = 'ProtobufError'
}

type Json = Record<string, unknown>

/** More messages than go-fields.ts has: none is forgotten. */
export const MOST_MESSAGES = 1000

/**
 * An object in Kubernetes' protobuf (`application/vnd.kubernetes.protobuf`) as the JSON that Go would write of it. If
 * the kind is not in go-fields.ts, only apiVersion and kind are read.
 * @throws ProtobufError
 */
export function jsonOfProtobuf(bytes: Buffer): Readonly<Record<string, unknown>> {
  if (!bytes.subarray(0, protobufPrefix.length).equals(protobufPrefix)) {
    const prefix = [...protobufPrefix].join(' ')
    throw new ProtobufError(`provided data does not appear to be a protobuf message, expected prefix [${prefix}]`)
  }
  const { apiVersion, kind, raw } = envelopeOf(bytes.subarray(protobufPrefix.length))
  const name = kind === 'DeleteOptions' ? 'meta/v1.DeleteOptions' : kindMessages[`${apiVersion} ${kind}`]
  return { apiVersion, kind, ...(name === undefined ? {} : jsonOfMessage(name, raw)) }
}

/** Decodes apimachinery's runtime.Unknown. The generated code would take 30 ms to load. @throws ProtobufError */
export function envelopeOf(bytes: Uint8Array): {
  readonly apiVersion: string
  readonly kind: string
  readonly raw: Uint8Array
} {
  try {
    const parts = partsOf(bytes)
    const type = partsOf(bytesOf(parts.get(1)))
    return { apiVersion: textOf(type.get(1)), kind: textOf(type.get(2)), raw: bytesOf(parts.get(2)) }
  } catch {
    throw damaged()
  }
}

/**
 * A protobuf message as the JSON that Go would write of it. Unknown fields are left out.
 * @param name - as in go-fields.ts: `core/v1.Pod`.
 * @throws ProtobufError
 */
export function jsonOfMessage(name: string, bytes: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const json: Json = {}
    readMessage(bytes, name, json)
    return json
  } catch (error) {
    throw error instanceof ProtobufError ? error : damaged()
  }
}

function readMessage(bytes: Uint8Array, name: string, into: Json): void {
  const fields = fieldsOf(name)
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    // Groups are obsolete, and can be nested without limit.
    if (wireType === WireType.StartGroup || wireType === WireType.EndGroup) throw wrongType(name, number)
    const field = fields.get(number)
    if (field === undefined) reader.skip(wireType, number)
    else readField(reader, wireType, field, into, () => wrongType(name, number))
  }
}

function readField(reader: BinaryReader, wireType: WireType, field: Field, into: Json, wrong: () => Error): void {
  const { name, type, holds, omitEmpty } = field
  if (wireType !== (holds !== 'map' && isVarint(type) ? WireType.Varint : WireType.LengthDelimited)) throw wrong()
  if (name === '') {
    readMessage(reader.bytes(), type, into)
    return
  }
  if (holds === 'map') {
    const [key, value] = readEntry(reader.bytes(), type, wrong)
    setMember(ownMember<Json>(into, name, {}), key, value)
    return
  }
  const value = readValue(reader, type)
  if (holds === 'list') ownMember<unknown[]>(into, name, []).push(value)
  else if (value !== undefined && !(omitEmpty && isEmpty(value))) setMember(into, name, value)
}

/** Reads a value of this type; undefined if Go writes null for it. */
export function readValue(reader: BinaryReader, type: string): unknown {
  switch (type) {
    case 'string':
      return reader.string()
    case 'bool':
      return reader.bool()
    case 'int':
      return Number(reader.int64())
    case 'bytes':
      return Buffer.from(reader.bytes()).toString('base64')
    case 'time':
    case 'microTime':
      return timeOf(partsOf(reader.bytes()), type)
    case 'quantity':
      return textOf(partsOf(reader.bytes()).get(1)) || '0'
    case 'intOrString':
      return intOrStringOf(partsOf(reader.bytes()))
    case 'json': {
      const text = textOf(partsOf(reader.bytes()).get(1))
      return text === '' ? undefined : parsed(text)
    }
    default: {
      const json: Json = {}
      readMessage(reader.bytes(), type, json)
      return json
    }
  }
}

/** Reads an entry of a map: its key is field 1, its value field 2. */
function readEntry(bytes: Uint8Array, type: string, wrong: () => Error): readonly [string, unknown] {
  const reader = new BinaryReader(bytes)
  let key = ''
  // Go leaves out a nil value.
  let value: unknown = type === 'string' || type === 'bytes' ? '' : undefined
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    if (wireType !== WireType.LengthDelimited) throw wrong()
    if (number === 1) key = reader.string()
    else if (number === 2) value = readValue(reader, type)
    else reader.skip(wireType, number)
  }
  return [key, value]
}

/** The integers and bytes in a message of scalars, by field number. */
export function partsOf(bytes: Uint8Array): ReadonlyMap<number, bigint | Uint8Array> {
  const parts = new Map<number, bigint | Uint8Array>()
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    if (wireType === WireType.Varint) parts.set(number, BigInt(reader.int64()))
    else if (wireType === WireType.LengthDelimited) parts.set(number, reader.bytes())
    else throw new ProtobufError(`proto: wrong wireType for field ${number}`)
  }
  return parts
}

type Parts = ReturnType<typeof partsOf>

/** The time in a message; undefined for a message without fields, which is Go's zero time. */
function timeOf(parts: Parts, type: 'time' | 'microTime'): string | undefined {
  if (parts.size === 0) return undefined
  const [seconds, nanos] = [Number(parts.get(1) ?? 0n), Number(parts.get(2) ?? 0n)]
  return type === 'time'
    ? formatTime(seconds * 1000)
    : formatMicroTime(seconds * 1000 + Math.floor(nanos / 1000) / 1000)
}

function intOrStringOf(parts: Parts): number | string {
  return parts.get(1) === 1n ? textOf(parts.get(3)) : Number(parts.get(2) ?? 0n)
}

export function textOf(part: bigint | Uint8Array | undefined): string {
  return Buffer.from(bytesOf(part)).toString('utf8')
}

export function bytesOf(part: bigint | Uint8Array | undefined): Uint8Array {
  return part instanceof Uint8Array ? part : new Uint8Array()
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProtobufError('the protobuf message contains invalid JSON')
  }
}

export function isVarint(type: string): boolean {
  return type === 'bool' || type === 'int'
}

export function isEmpty(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0
  return value === '' || value === 0 || value === false
}

/** A list or map among the members. It is added if it is missing. */
function ownMember<T extends object>(into: Json, name: string, empty: T): T {
  if (!Object.hasOwn(into, name)) setMember(into, name, empty)
  return into[name] as T
}

/** Sets a member, even one called `__proto__`: an assignment would set the prototype instead. */
export function setMember(target: Json, key: string, value: unknown): void {
  const descriptor = { value, enumerable: true, configurable: true, writable: true }
  if (key === '__proto__') Object.defineProperty(target, key, descriptor)
  else target[key] = value
}

export function damaged(): ProtobufError {
  return new ProtobufError('the protobuf message is truncated or damaged')
}

function wrongType(name: string, number: number): ProtobufError {
  return new ProtobufError(`proto: wrong wireType for field ${number} of ${name}`)
}

/** The fields of a message by their numbers; empty for an unknown message. */
export const fieldsOf = memoize((message): ReadonlyMap<number, Field> => {
  const texts = (messageFields[message] ?? '').split(', ').filter((text) => text !== '')
  return new Map(texts.map(fieldOf))
}, MOST_MESSAGES)

function fieldOf(text: string): readonly [number, Field] {
  const [number, name = '', rest = ''] = text.split(' ')
  const [, brackets, type = '', mark] = /^(\[\]|\{\})?([^?]+)(\?)?$/.exec(rest) ?? []
  const holds = brackets === '[]' ? 'list' : brackets === '{}' ? 'map' : 'one'
  return [Number(number), { name, type, holds, omitEmpty: mark !== undefined }]
}
