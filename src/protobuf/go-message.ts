import {
  create,
  type DescField,
  type DescMessage,
  isFieldSet,
  type Message,
  type MessageShape,
} from '@bufbuild/protobuf'
import { getOrMake } from '../runtime/memo.ts'
import { type MapEntry, MapEntrySchema } from './gen/k8s.io/apimachinery/pkg/apis/meta/v1/generated_pb.ts'

/**
 * The fields that are pointers (or nil slices) in Go, and are therefore left out when they are not set. The code that
 * gogo protobuf generates for k8s.io/api writes every other singular field, even when it is empty. Time is a special
 * case: that code writes no field of a zero Time.
 */
const pointers: ReadonlySet<string> = new Set([
  'k8s.io.api.core.v1.EndpointAddress.targetRef',
  'k8s.io.api.core.v1.EndpointAddress.nodeName',
  'k8s.io.api.core.v1.EndpointPort.appProtocol',
  'k8s.io.api.core.v1.RangeAllocation.data',
  'k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1.Raw',
  'k8s.io.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry.fieldsV1',
  'k8s.io.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry.time',
  'k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta.deletionGracePeriodSeconds',
  'k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta.deletionTimestamp',
  'k8s.io.apimachinery.pkg.apis.meta.v1.OwnerReference.blockOwnerDeletion',
  'k8s.io.apimachinery.pkg.apis.meta.v1.OwnerReference.controller',
  'k8s.io.apimachinery.pkg.runtime.Unknown.raw',
])
const time = 'k8s.io.apimachinery.pkg.apis.meta.v1.Time'

/**
 * A copy of a message with everything that kube-apiserver would write for the same object, so that the bytes are equal:
 * the fields that are never left out, and the entries of maps in Go's order. Not for messages with a oneof, which no
 * stored object has. Does not check values.
 */
export function asGoWrites<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): MessageShape<Desc> {
  return copyOf(schema, message) as MessageShape<Desc>
}

/** Does not use the library's reflection, which would take most of the time of a lease's renewal. */
function copyOf(schema: DescMessage, message: Message): Message {
  const from = message as Message & Readonly<Record<string, unknown>>
  const copy = create(schema) as Message & Record<string, unknown>
  if (from.$unknown !== undefined) copy.$unknown = [...from.$unknown]
  const isZeroTime = schema.typeName === time && !schema.fields.some((field) => isFieldSet(message, field))
  for (const field of schema.fields) {
    // An unset field has its default value; that of a message is undefined.
    const value = from[field.localName]
    if (field.fieldKind === 'list') copy[field.localName] = listOf(field, value as readonly unknown[])
    else if (isFieldSet(message, field)) copy[field.localName] = copyOfValue(field, value)
    else if (!isZeroTime && !isPointer(field)) {
      copy[field.localName] = copyOfValue(field, field.fieldKind === 'message' ? create(field.message) : value)
    }
  }
  return copy
}

function copyOfValue(field: DescField, value: unknown): unknown {
  if (field.message !== undefined) return copyOf(field.message, value as Message)
  return value instanceof Uint8Array ? value.slice() : value
}

function listOf(field: DescField, values: readonly unknown[]): readonly unknown[] {
  const items = values.map((value) => copyOfValue(field, value))
  if (field.message?.typeName !== MapEntrySchema.typeName) return items
  return (items as MapEntry[]).sort((a, b) => Buffer.compare(keyOf(a), keyOf(b)))
}

/** The bytes of an entry's key. Go sorts maps by these bytes, not by UTF-16 code units. */
function keyOf(entry: MapEntry): Buffer {
  return Buffer.from(entry.key)
}

const pointerFields = new WeakMap<DescField, boolean>()

function isPointer(field: DescField): boolean {
  return getOrMake(pointerFields, field, () => pointers.has(`${field.parent.typeName}.${field.name}`))
}
