import { create, type DescMessage, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { withoutSecrets } from '../telemetry/secrets.ts'
import { type Unknown, UnknownSchema } from './gen/k8s.io/apimachinery/pkg/runtime/generated_pb.ts'
import { asGoWrites } from './go-message.ts'
import { protobufPrefix } from './object-prefix.ts'

/** A kind of object that kube-apiserver stores, and its message. */
export interface StoredKind<Desc extends DescMessage> {
  readonly apiVersion: string
  readonly kind: string
  readonly schema: Desc
}

/** A decoded protobuf value. To change the object, clone it: other callers may share it. */
export interface ProtobufObject<Desc extends DescMessage> {
  readonly type: 'protobuf'
  readonly object: MessageShape<Desc>
  /** The envelope of the object, with unknown fields. */
  readonly envelope: Unknown
}

/** A JSON value of which only apiVersion and kind were checked. */
export type JsonObject = Readonly<Record<string, unknown>>

export type StoredObject<Desc extends DescMessage> =
  | ProtobufObject<Desc>
  /**
   * A value from an old cluster (`--storage-media-type=application/json`): it is read, and at most written back
   * unchanged.
   */
  | { readonly type: 'json'; readonly object: JsonObject }
  /**
   * Anything else; it must not be overwritten. The reason is one line and ends a sentence that begins with the key.
   * `object`: the readable part of a protobuf value of this kind that cannot be encoded without loss.
   */
  | { readonly type: 'unreadable'; readonly reason: string; readonly object?: MessageShape<Desc> }

/** The prefix of encrypted values, followed by the provider's name: apiserver's pkg/storage/value. */
const encrypted = /^k8s:enc:([\w-]{1,32})/
/** The limit on a value: foreign values must not use much memory. etcd's default limit on a request is 1.5 MiB. */
const MAX_BYTES = 2 * 1024 * 1024

/**
 * Decodes a value that kube-apiserver stored in etcd. Never throws.
 *
 * For every readable protobuf value, {@link encodeStored} returns the same bytes. A value that would change is
 * unreadable, because rewriting it would lose something. All protobuf values of kube-apiserver are readable, including
 * their unknown fields. The message may share memory with `value`.
 */
export function decodeStored<Desc extends DescMessage>(kind: StoredKind<Desc>, value: Uint8Array): StoredObject<Desc> {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (bytes.length === 0) return unreadable('is empty')
  if (bytes.length > MAX_BYTES) return unreadable(`has ${bytes.length} bytes, more than ${MAX_BYTES}`)
  if (bytes.subarray(0, protobufPrefix.length).equals(protobufPrefix)) return decodeProtobuf(kind, bytes)
  if (bytes[0] === 0x7b) return decodeJson(kind, bytes)
  const provider = encrypted.exec(bytes.toString('latin1', 0, 64))?.[1]
  return unreadable(provider === undefined ? 'is neither protobuf nor JSON' : `is encrypted (${provider})`)
}

/**
 * The bytes to store for an object: in the envelope from which it was read, or in a new one. The fields are written as
 * they are. A caller uses {@link asGoWrites} to add those that kube-apiserver always writes.
 */
export function encodeStored<Desc extends DescMessage>(
  kind: StoredKind<Desc>,
  object: MessageShape<Desc>,
  previous?: Unknown,
): Uint8Array {
  const envelope = previous === undefined ? newEnvelope(kind) : Object.assign(create(UnknownSchema), previous)
  envelope.raw = toBinary(kind.schema, object)
  return Buffer.concat([protobufPrefix, toBinary(UnknownSchema, envelope)])
}

function newEnvelope({ apiVersion, kind }: StoredKind<DescMessage>): Unknown {
  return asGoWrites(UnknownSchema, create(UnknownSchema, { typeMeta: { apiVersion, kind } }))
}

function decodeProtobuf<Desc extends DescMessage>(kind: StoredKind<Desc>, bytes: Buffer): StoredObject<Desc> {
  try {
    const envelope = fromBinary(UnknownSchema, bytes.subarray(protobufPrefix.length))
    const mistake = otherKind(kind, envelope.typeMeta?.apiVersion, envelope.typeMeta?.kind)
    if (mistake !== undefined) return unreadable(mistake)
    const object = fromBinary(kind.schema, envelope.raw)
    // The library accepts wrong types and lengths, and text that is not UTF-8. Such values do not encode to the same
    // bytes.
    return bytes.equals(encodeStored(kind, object, envelope))
      ? { type: 'protobuf', object, envelope }
      : { ...unreadable('is protobuf, but not a valid Kubernetes object'), object }
  } catch {
    return unreadable('is truncated or damaged protobuf')
  }
}

function decodeJson(kind: StoredKind<DescMessage>, bytes: Buffer): StoredObject<never> {
  let object: JsonObject
  try {
    object = JSON.parse(bytes.toString('utf8'))
  } catch {
    return unreadable('begins like JSON but is not valid JSON')
  }
  const mistake = otherKind(kind, object.apiVersion, object.kind)
  return mistake === undefined ? { type: 'json', object } : unreadable(mistake)
}

function otherKind(wanted: StoredKind<DescMessage>, apiVersion: unknown, kind: unknown): string | undefined {
  if (apiVersion === wanted.apiVersion && kind === wanted.kind) return undefined
  return `holds ${quoted(apiVersion)} ${quoted(kind)}, not ${wanted.apiVersion} ${wanted.kind}`
}

function quoted(found: unknown): string {
  return JSON.stringify(typeof found === 'string' ? withoutSecrets(found).slice(0, 60) : '')
}

function unreadable(reason: string): { readonly type: 'unreadable'; readonly reason: string } {
  return { type: 'unreadable', reason }
}
