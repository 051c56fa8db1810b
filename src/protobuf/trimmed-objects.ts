import {
  bytesOf,
  envelopeOf,
  fieldsOf,
  jsonOfMessage,
  MessageReader,
  ProtobufError,
  partsOf,
  reading,
  type Step,
  type Steps,
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
  /** Reads the answer to a list request: `{ metadata, items }` of the list, or a Status. */
  answer(bytes: Uint8Array): unknown
  /**
   * Reads the event in one frame of a watch: `{ type, object }`. `bytes` begin after the frame's length. Of a bookmark,
   * the resourceVersion and all annotations are read.
   */
  event(bytes: Uint8Array): unknown
}

/**
 * @param message - as in go-fields.ts: `core/v1.Pod`.
 * @throws TypeError if `fields` does not fit the message.
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
        return readerOf(raw).list(listMetadata, object, 1000 + raw.length / LEAST_OBJECT_BYTES)
      }),
    event: (bytes) =>
      reading(() => {
        // A metav1.WatchEvent: the type, and the object in a RawExtension.
        const event = partsOf(bytes)
        const type = textOf(event.get(1))
        const { apiVersion, kind, raw } = enveloped(bytesOf(partsOf(bytesOf(event.get(2))).get(1)))
        if (type === 'ERROR') return { type, object: statusOf(raw) }
        const steps = type === 'BOOKMARK' ? bookmark : object
        return { type, object: readerOf(raw).message(steps, { apiVersion, kind }) }
      }),
  }
}

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
    const inner = wanted === true ? undefined : stepsOf(field.type, wanted)
    steps[number] = { field, inner, place: `${number} of ${message}` }
  }
  for (const name of left) throw new TypeError(`${message} has no field ${name}`)
  return steps
}

const listMetadata = stepsOf('meta/v1.ListMeta', { resourceVersion: true, continue: true })

function enveloped(bytes: Uint8Array): ReturnType<typeof envelopeOf> {
  if (!protobufPrefix.equals(bytes.subarray(0, protobufPrefix.length))) {
    throw new ProtobufError('the answer is not a protobuf object')
  }
  return envelopeOf(bytes.subarray(protobufPrefix.length))
}

function statusOf(raw: Uint8Array): object {
  return { apiVersion: 'v1', kind: 'Status', ...jsonOfMessage('meta/v1.Status', raw) }
}

/**
 * The least accepted average size in bytes: of the objects of a list, and of all messages, list items and map entries
 * together. Many smaller values are refused: an empty value has two bytes, but takes over a hundred in memory.
 */
const [LEAST_OBJECT_BYTES, LEAST_BYTES] = [64, 8]

function readerOf(raw: Uint8Array): MessageReader {
  return new MessageReader(raw, 1000 + raw.length / LEAST_BYTES)
}
