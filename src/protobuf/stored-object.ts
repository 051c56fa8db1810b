import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { type Unknown, UnknownSchema } from './gen/k8s.io/apimachinery/pkg/runtime/generated_pb.ts'
import { asGoWrites } from './go-message.ts'

/** A kind of object that kube-apiserver stores, and the message that it is stored as. */
export interface StoredKind<Desc extends DescMessage> {
  readonly apiVersion: string
  readonly kind: string
  readonly schema: Desc
}

/** A protobuf value that was read. Whoever changes the object changes a clone: the value may be read again. */
export interface ProtobufObject<Desc extends DescMessage> {
  readonly type: 'protobuf'
  readonly object: MessageShape<Desc>
  /** What the object is wrapped in, with the fields that are not described here. */
  readonly envelope: Unknown
}

/** A JSON value; nothing beyond its type is known of it. */
export interface JsonObject {
  readonly apiVersion?: unknown
  readonly kind?: unknown
  readonly [field: string]: unknown
}

/** What is stored under a key of kube-apiserver's. */
export type StoredObject<Desc extends DescMessage> =
  | ProtobufObject<Desc>
  /** An old cluster's (`--storage-media-type=application/json`): it is read, never rewritten. */
  | { readonly type: 'json'; readonly object: JsonObject }
  /**
   * Anything else; it must not be overwritten. The reason is one line and ends a sentence that begins with the key. `object`: what
   * could be read of a protobuf value of this kind that would not come out again as it is.
   */
  | { readonly type: 'unreadable'; readonly reason: string; readonly object?: MessageShape<Desc> }

/** Before every protobuf value: apimachinery's pkg/runtime/serializer/protobuf. */
const magic = Buffer.from('k8s\0')
/** What kube-apiserver puts before a value that it encrypts, with the provider's name after it: apiserver's pkg/storage/value. */
const encrypted = /^k8s:enc:([\w-]{1,32})/
/** More than etcd takes in one request by default (1.5 MiB), so that a value from anywhere cannot cost much memory. */
const maxBytes = 2 * 1024 * 1024

/**
 * Reads a value from kube-apiserver's part of etcd. Never throws.
 *
 * A protobuf value that is read can be written back byte for byte with {@link encodeStored}: one that cannot is unreadable, because
 * whoever wrote it meant something that would be lost. Everything that kube-apiserver writes can, fields that are not described here
 * included. The message may share memory with `value`.
 */
export function decodeStored<Desc extends DescMessage>(kind: StoredKind<Desc>, value: Uint8Array): StoredObject<Desc> {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (bytes.length === 0) return unreadable('is empty')
  if (bytes.length > maxBytes) return unreadable(`has ${bytes.length} bytes, more than ${maxBytes}`)
  if (bytes.subarray(0, magic.length).equals(magic)) return decodeProtobuf(kind, bytes)
  if (bytes[0] === 0x7b) return decodeJson(kind, bytes)
  const provider = encrypted.exec(bytes.toString('latin1', 0, 64))?.[1]
  return unreadable(provider === undefined ? 'is neither protobuf nor JSON' : `is encrypted (${provider})`)
}

/**
 * The bytes that are stored for an object: in the envelope that it was read in, or in a new one. Fields are written as they are;
 * {@link asGoWrites} adds those that kube-apiserver writes always.
 */
export function encodeStored<Desc extends DescMessage>(
  kind: StoredKind<Desc>,
  object: MessageShape<Desc>,
  previous?: Unknown,
): Uint8Array {
  const envelope = previous === undefined ? newEnvelope(kind) : Object.assign(create(UnknownSchema), previous)
  envelope.raw = toBinary(kind.schema, object)
  return Buffer.concat([magic, toBinary(UnknownSchema, envelope)])
}

function newEnvelope({ apiVersion, kind }: StoredKind<DescMessage>): Unknown {
  return asGoWrites(UnknownSchema, create(UnknownSchema, { typeMeta: { apiVersion, kind } }))
}

function decodeProtobuf<Desc extends DescMessage>(kind: StoredKind<Desc>, bytes: Buffer): StoredObject<Desc> {
  try {
    const envelope = fromBinary(UnknownSchema, bytes.subarray(magic.length))
    const mistake = otherKind(kind, envelope.typeMeta?.apiVersion, envelope.typeMeta?.kind)
    if (mistake !== undefined) return unreadable(mistake)
    const object = fromBinary(kind.schema, envelope.raw)
    // The library is lenient: it takes wrong types and lengths, and text that is not UTF-8. What it took wrongly does not come out again.
    return bytes.equals(encodeStored(kind, object, envelope))
      ? { type: 'protobuf', object, envelope }
      : { ...unreadable('is protobuf, but not as Kubernetes writes it'), object }
  } catch {
    return unreadable('is protobuf that ends early or is damaged')
  }
}

function decodeJson(kind: StoredKind<DescMessage>, bytes: Buffer): StoredObject<never> {
  let object: JsonObject
  try {
    object = JSON.parse(bytes.toString('utf8'))
  } catch {
    return unreadable('begins as JSON and is not')
  }
  const mistake = otherKind(kind, object.apiVersion, object.kind)
  return mistake === undefined ? { type: 'json', object } : unreadable(mistake)
}

function otherKind(wanted: StoredKind<DescMessage>, apiVersion: unknown, kind: unknown): string | undefined {
  if (apiVersion === wanted.apiVersion && kind === wanted.kind) return undefined
  return `holds ${quoted(apiVersion)} ${quoted(kind)}, not ${wanted.apiVersion} ${wanted.kind}`
}

/** What was found, in one line and not much of it. */
function quoted(found: unknown): string {
  return JSON.stringify(typeof found === 'string' ? found.slice(0, 60) : '')
}

function unreadable(reason: string): { readonly type: 'unreadable'; readonly reason: string } {
  return { type: 'unreadable', reason }
}
