import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { memoize } from '../runtime/memo.ts'
import { formatMicroTime, formatTime } from '../runtime/time-format.ts'
import { kindMessages, messageFields } from './go-fields.ts'
import { protobufPrefix } from './object-prefix.ts'

/** One field of a message, from its text in go-fields.ts: `2 ports []core/v1.ServicePort?`. */
export interface Field {
  /** The name in JSON; empty for an embedded message, whose fields JSON shows in the message around it. */
  readonly name: string
  /**
   * A scalar, a type with JSON of its own, or the name of a message. Of a list or map: the type of its items or values.
   */
  readonly type: string
  readonly holds: 'one' | 'list' | 'map'
  /** `?` in the text: Go writes an empty scalar in protobuf, but not in JSON. */
  readonly omitEmpty: boolean
}

/** The bytes are not a valid message of the expected kind. */
export class ProtobufError extends Error {
  override readonly name = 'ProtobufError'
}

type Json = Record<string, unknown>

/** The size of the caches of messages. go-fields.ts has fewer messages, so no cache drops one. */
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
export function jsonOfMessage(name: string, bytes: Uint8Array): Readonly<Json> {
  return reading(() => new MessageReader(bytes, Number.POSITIVE_INFINITY).message(wholeSteps(name), {}))
}

/** The result of `read`. If `read` throws anything but a ProtobufError, throws the ProtobufError for damaged bytes. */
export function reading<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof ProtobufError ? error : damaged()
  }
}

/** How one field is read. `inner`: how the fields of its messages are read; undefined if it holds none. */
export interface Step {
  readonly field: Field
  readonly inner: Steps | undefined
  /** For errors, such as `1 of core/v1.Pod`. */
  readonly place: string
}

/** The steps by field number. A field without a step is skipped. */
export type Steps = readonly (Step | undefined)[]

/** The steps that read all fields. The recursion ends, because no message in go-fields.ts contains itself. */
const wholeSteps: (message: string) => Steps = memoize((message) => {
  const steps: Step[] = []
  for (const [number, field] of fieldsOf(message)) {
    const inner = field.type.includes('/') ? wholeSteps(field.type) : undefined
    steps[number] = { field, inner, place: `${number} of ${message}` }
  }
  return steps
}, MOST_MESSAGES)

/**
 * Reads all messages in an object or a list with one BinaryReader: to make one for each message would take most of the
 * time.
 */
export class MessageReader {
  readonly #bytes: Buffer
  readonly #reader: BinaryReader
  #left: number

  /** `most`: how many messages, items of lists and entries of maps there may be in all. */
  constructor(bytes: Uint8Array, most: number) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#reader = new BinaryReader(bytes)
    this.#left = most
  }

  /** Reads a list of any kind: its metadata is field 1, its items are field 2. */
  list(
    listMetadata: Steps,
    object: Steps,
    mostItems: number,
  ): { readonly metadata: Json; readonly items: readonly Json[] } {
    const reader = this.#reader
    const end = reader.len
    let metadata: Json = {}
    const items: Json[] = []
    while (reader.pos < end) {
      const tag = this.#tag()
      if (tag >>> 3 > 2) this.#skip(tag & 7, end)
      else if ((tag & 7) !== WireType.LengthDelimited) throw damaged()
      else if (tag >>> 3 === 1) metadata = this.#next(end, listMetadata)
      else if (items.length > mostItems) throw tooMany()
      else items.push(this.#next(end, object))
    }
    return { metadata, items }
  }

  #count(): void {
    if (--this.#left < 0) throw tooMany()
  }

  message(steps: Steps, into: Json): Json {
    this.#read(this.#reader.len, steps, into)
    return into
  }

  /** Reads the message whose length comes next. */
  #next(end: number, steps: Steps): Json {
    const into: Json = {}
    this.#read(this.#endOfNext(end), steps, into)
    return into
  }

  #read(end: number, steps: Steps, into: Json): void {
    const reader = this.#reader
    while (reader.pos < end) {
      const tag = this.#tag()
      const step = steps[tag >>> 3]
      if (step === undefined) this.#skip(tag & 7, end)
      else this.#readField(tag & 7, step, end, into)
    }
    if (reader.pos !== end) throw damaged()
  }

  #readField(wireType: number, step: Step, end: number, into: Json): void {
    const { field, inner, place } = step
    const { name, type, holds, omitEmpty } = field
    const wanted = holds !== 'map' && (type === 'bool' || type === 'int') ? WireType.Varint : WireType.LengthDelimited
    if (wireType !== wanted) throw wrongType(place)
    if (holds !== 'one' || inner !== undefined) this.#count()
    if (name === '' && inner !== undefined) {
      this.#read(this.#endOfNext(end), inner, into)
      return
    }
    if (holds === 'map') {
      const map = (into[name] ?? {}) as Json
      into[name] = map
      this.#readEntry(this.#endOfNext(end), step, map)
      return
    }
    const value = this.#value(end, step)
    if (holds === 'list') {
      const list = into[name] as unknown[] | undefined
      if (list === undefined) into[name] = [value]
      else list.push(value)
    } else if (value !== undefined && !(omitEmpty && isEmpty(value))) into[name] = value
  }

  /** Reads an entry of a map: its key is field 1, its value field 2. Go writes both, unless the value is nil. */
  #readEntry(end: number, step: Step, into: Json): void {
    const reader = this.#reader
    const { type } = step.field
    let key = ''
    let value: unknown = type === 'string' || type === 'bytes' ? '' : undefined
    while (reader.pos < end) {
      const tag = this.#tag()
      if (tag >>> 3 > 2) this.#skip(tag & 7, end)
      else if ((tag & 7) !== WireType.LengthDelimited) throw wrongType(step.place)
      else if (tag >>> 3 === 1) key = this.#string(end)
      else value = this.#value(end, step)
    }
    if (reader.pos !== end) throw damaged()
    setMember(into, key, value)
  }

  #value(end: number, { field, inner }: Step): unknown {
    if (inner !== undefined) return this.#next(end, inner)
    if (field.type === 'string') return this.#string(end)
    const value = readScalar(this.#reader, field.type)
    if (this.#reader.pos > end) throw damaged()
    return value
  }

  #string(end: number): string {
    const to = this.#endOfNext(end)
    const text = this.#bytes.toString('utf8', this.#reader.pos, to)
    this.#reader.pos = to
    return text
  }

  /** Reads a length, and returns the end of the part that follows. */
  #endOfNext(end: number): number {
    const length = this.#reader.uint32()
    const to = this.#reader.pos + length
    if (to > end) throw damaged()
    return to
  }

  /**
   * Reads a field number and wire type, and checks the number like BinaryReader's method `tag`, but makes no array. The
   * callers refuse the invalid wire types 6 and 7.
   */
  #tag(): number {
    const start = this.#reader.pos
    const tag = this.#reader.uint32()
    const last = this.#reader.pos - 1
    if (last - start > 4 || (last - start === 4 && (this.#bytes[last] as number) > 0x0f) || tag >>> 3 === 0) {
      throw damaged()
    }
    return tag
  }

  #skip(wireType: number, end: number): void {
    const reader = this.#reader
    if (wireType === WireType.LengthDelimited) reader.pos = this.#endOfNext(end)
    else if (wireType === WireType.Varint) reader.int64()
    else if (wireType === WireType.Bit64) reader.pos += 8
    else if (wireType === WireType.Bit32) reader.pos += 4
    // Groups are obsolete, and can be nested without limit.
    else throw damaged()
    if (reader.pos > end) throw damaged()
  }
}

/** Reads a value that is neither a message nor a string; undefined if Go writes null for it. */
function readScalar(reader: BinaryReader, type: string): unknown {
  switch (type) {
    case 'bool':
      return reader.bool()
    case 'int':
      return Number(reader.int64())
    case 'bytes':
      return Buffer.from(reader.bytes()).toString('base64')
    case 'time':
    case 'microTime':
      return timeOf(reader.bytes(), type)
    case 'quantity':
      return textOf(partsOf(reader.bytes()).get(1)) || '0'
    case 'intOrString':
      return intOrStringOf(partsOf(reader.bytes()))
    default: {
      // The type `json`.
      const text = textOf(partsOf(reader.bytes()).get(1))
      return text === '' ? undefined : parsed(text)
    }
  }
}

/** The highest number of a field that callers of {@link partsOf} need. */
const LAST_PART = 3

/** The integers and bytes in a small message, by field number. Fields above {@link LAST_PART} are skipped. */
export function partsOf(bytes: Uint8Array): ReadonlyMap<number, bigint | Uint8Array> {
  const parts = new Map<number, bigint | Uint8Array>()
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    // Groups are obsolete, and can be nested without limit.
    const isGroup = wireType === WireType.StartGroup || wireType === WireType.EndGroup
    if (number > LAST_PART && !isGroup) reader.skip(wireType, number)
    else if (wireType === WireType.Varint) parts.set(number, BigInt(reader.int64()))
    else if (wireType === WireType.LengthDelimited) parts.set(number, reader.bytes())
    else throw new ProtobufError(`proto: wrong wireType for field ${number}`)
  }
  return parts
}

type Parts = ReturnType<typeof partsOf>

/** The text of the time in a message; undefined for an empty message, which is Go's zero time. */
function timeOf(bytes: Uint8Array, type: 'time' | 'microTime'): string | undefined {
  if (bytes.length === 0) return undefined
  const parts = partsOf(bytes)
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

function isEmpty(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0
  return value === '' || value === 0 || value === false
}

/** Sets a member, even one called `__proto__`: an assignment would set the prototype instead. */
export function setMember(target: Json, key: string, value: unknown): void {
  const descriptor = { value, enumerable: true, configurable: true, writable: true }
  if (key === '__proto__') Object.defineProperty(target, key, descriptor)
  else target[key] = value
}

function damaged(): ProtobufError {
  return new ProtobufError('the protobuf message is truncated or damaged')
}

function wrongType(place: string): ProtobufError {
  return new ProtobufError(`proto: wrong wireType for field ${place}`)
}

function tooMany(): ProtobufError {
  return new ProtobufError('the protobuf message has too many values for its length')
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
