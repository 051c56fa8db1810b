import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import {
  bytesOf,
  damaged,
  envelopeOf,
  type Field,
  fieldsOf,
  isEmpty,
  isVarint,
  jsonOfMessage,
  ProtobufError,
  partsOf,
  readValue,
  setMember,
  textOf,
} from './go-json.ts'
import { protobufPrefix } from './object-prefix.ts'

/**
 * Which fields of a message are read, by their names in JSON: `true` for a scalar, or for a list or map of scalars; a
 * tree for a message, or for a list of messages.
 */
export interface FieldTree {
  readonly [name: string]: true | FieldTree
}

/**
 * Reads only some fields of objects in Kubernetes' protobuf (`application/vnd.kubernetes.protobuf`), as the JSON that
 * Go would write of them. No objects or strings are created for other fields.
 *
 * The methods throw a {@link ProtobufError}. Their results share no memory with the bytes.
 */
export interface TrimmedReader {
  readonly fields: FieldTree
  /** Reads the answer to a list request: the list, or a Status. */
  answer(bytes: Uint8Array): unknown
  /** Reads the event in one frame of a watch, without its length. All annotations of a bookmark are read. */
  event(bytes: Uint8Array): unknown
}

/**
 * @param message - as in go-fields.ts: `core/v1.Pod`.
 * @throws TypeError if a message has no such field.
 */
export function trimmedReader(message: string, fields: FieldTree): TrimmedReader {
  const object = stepsOf(message, fields)
  const bookmark = stepsOf(message, { metadata: { resourceVersion: true, annotations: true } })
  return {
    fields,
    answer: (bytes) =>
      reading(() => {
        const { kind, raw } = enveloped(bytes)
        if (kind === 'Status') return statusOf(raw)
        if (!kind.endsWith('List')) throw new ProtobufError(`the answer is of kind ${JSON.stringify(kind)}, not a list`)
        return new Source(raw).list(object)
      }),
    event: (bytes) =>
      reading(() => {
        // A metav1.WatchEvent: the type, and the object in a RawExtension.
        const event = partsOf(bytes)
        const type = textOf(event.get(1))
        const { apiVersion, kind, raw } = enveloped(bytesOf(partsOf(bytesOf(event.get(2))).get(1)))
        if (type === 'ERROR') return { type, object: statusOf(raw) }
        const steps = type === 'BOOKMARK' ? bookmark : object
        return { type, object: new Source(raw).message(steps, { apiVersion, kind }) }
      }),
  }
}

type Json = Record<string, unknown>

/** How one field is read. `inner`: how the fields of a message are read. */
interface Step {
  readonly field: Field
  readonly inner: Steps | undefined
}

/** The steps by field number. */
type Steps = readonly (Step | undefined)[]

function stepsOf(message: string, tree: FieldTree): Steps {
  const steps: (Step | undefined)[] = []
  const left = new Set(Object.keys(tree))
  for (const [number, field] of fieldsOf(message)) {
    const wanted = tree[field.name]
    if (wanted === undefined) continue
    left.delete(field.name)
    const isMessage = field.type.includes('/')
    if (isMessage === (wanted === true) || (isMessage && field.holds === 'map')) {
      throw new TypeError(`the field ${field.name} of ${message} cannot be read ${isMessage ? 'whole' : 'in parts'}`)
    }
    steps[number] = { field, inner: wanted === true ? undefined : stepsOf(field.type, wanted) }
  }
  for (const name of left) throw new TypeError(`${message} has no field ${name}`)
  return steps
}

const listMetadata = stepsOf('meta/v1.ListMeta', { resourceVersion: true, continue: true })

function reading<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw error instanceof ProtobufError ? error : damaged()
  }
}

function enveloped(bytes: Uint8Array): ReturnType<typeof envelopeOf> {
  if (!protobufPrefix.equals(bytes.subarray(0, protobufPrefix.length))) {
    throw new ProtobufError('the answer is not a protobuf object')
  }
  return envelopeOf(bytes.subarray(protobufPrefix.length))
}

function statusOf(raw: Uint8Array): Readonly<Json> {
  return { apiVersion: 'v1', kind: 'Status', ...jsonOfMessage('meta/v1.Status', raw) }
}

/**
 * The least accepted average size in an answer, in bytes: of an object, and of a message, list item or map entry. An
 * answer with many smaller values is refused: an empty value has two bytes, but takes some hundred bytes of memory.
 */
const [LEAST_OBJECT_BYTES, LEAST_BYTES] = [64, 8]

function tooMany(): ProtobufError {
  return new ProtobufError('the protobuf message has too many values for its length')
}

/** One reader for all messages in an object or a list: one for each message would take most of the time. */
class Source {
  readonly #bytes: Buffer
  readonly #reader: BinaryReader
  /** How many more messages, items of lists and entries of maps there may be. */
  #left: number

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#reader = new BinaryReader(bytes)
    this.#left = 1000 + bytes.length / LEAST_BYTES
  }

  /** Any list: its metadata is field 1, its items are field 2. */
  list(object: Steps): { readonly metadata: Json; readonly items: readonly Json[] } {
    const reader = this.#reader
    const end = reader.len
    let metadata: Json = {}
    const items: Json[] = []
    while (reader.pos < end) {
      const tag = reader.uint32()
      if (tag >>> 3 > 2) this.#skip(tag & 7, end)
      else if ((tag & 7) !== WireType.LengthDelimited) throw damaged()
      else if (tag >>> 3 === 1) metadata = this.#next(end, listMetadata)
      else if (items.length > 1000 + end / LEAST_OBJECT_BYTES) throw tooMany()
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
      const tag = reader.uint32()
      const step = steps[tag >>> 3]
      if (step === undefined) this.#skip(tag & 7, end)
      else this.#readField(tag & 7, step, end, into)
    }
    if (reader.pos !== end) throw damaged()
  }

  #readField(wireType: number, { field, inner }: Step, end: number, into: Json): void {
    const { name, type, holds, omitEmpty } = field
    if (wireType !== (holds !== 'map' && isVarint(type) ? WireType.Varint : WireType.LengthDelimited)) throw damaged()
    if (holds !== 'one' || inner !== undefined) this.#count()
    if (holds === 'map') {
      const map = (into[name] ?? {}) as Json
      into[name] = map
      this.#readEntry(this.#endOfNext(end), type, map)
      return
    }
    const value = inner !== undefined ? this.#next(end, inner) : this.#scalar(type, end)
    if (holds === 'list') {
      const list = into[name] as unknown[] | undefined
      if (list === undefined) into[name] = [value]
      else list.push(value)
    } else if (value !== undefined && !(omitEmpty && isEmpty(value))) into[name] = value
  }

  /** Reads an entry of a map: its key is field 1, its value field 2. Go writes both, unless the value is nil. */
  #readEntry(end: number, type: string, into: Json): void {
    const reader = this.#reader
    let key = ''
    let value: unknown = type === 'string' ? '' : undefined
    while (reader.pos < end) {
      const tag = reader.uint32()
      if ((tag & 7) !== WireType.LengthDelimited) throw damaged()
      if (tag >>> 3 === 1) key = this.#string(end)
      else if (tag >>> 3 === 2) value = this.#scalar(type, end)
      else this.#skip(tag & 7, end)
    }
    if (reader.pos !== end) throw damaged()
    setMember(into, key, value)
  }

  #scalar(type: string, end: number): unknown {
    if (type === 'string') return this.#string(end)
    const value = readValue(this.#reader, type)
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
