import { clone, type DescField, type DescMessage, type MessageShape } from '@bufbuild/protobuf'
import { type ReflectList, type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect'
import { type MapEntry, MapEntrySchema } from './gen/k8s.io/apimachinery/pkg/apis/meta/v1/generated_pb.ts'

/**
 * The fields that are pointers in Go (or nil slices), and therefore left out when they are not set; the code that gogo protobuf
 * generates for k8s.io/api writes every other singular field, also when it is empty. Time is a special case of theirs: a zero time has neither field.
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
 * A copy of a message with everything that kube-apiserver would write for the same object, so that its bytes are the same ones: the
 * fields that are never left out, and the entries of maps in Go's order.
 */
export function asGoWrites<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): MessageShape<Desc> {
  const copy = clone(schema, message)
  complete(reflect(schema, copy))
  return copy
}

function complete(message: ReflectMessage): void {
  if (message.desc.typeName === time && !message.fields.some((field) => message.isSet(field))) return
  for (const field of message.fields) {
    if (field.fieldKind === 'list') {
      if (field.listKind === 'message') completeList(message.get(field))
    } else if (message.isSet(field) || !pointers.has(nameOf(field))) {
      const value = message.get(field)
      if (field.fieldKind === 'message') complete(value as ReflectMessage)
      message.set(field, value)
    }
  }
}

function completeList(list: ReflectList): void {
  const items = [...list] as ReflectMessage[]
  for (const item of items) complete(item)
  if (items[0]?.desc.typeName !== MapEntrySchema.typeName) return
  items.sort((a, b) => Buffer.compare(keyOf(a), keyOf(b)))
  for (const [at, item] of items.entries()) list.set(at, item)
}

/** The key of a map's entry as Go compares it: by its bytes, not by its UTF-16. */
function keyOf(entry: ReflectMessage): Buffer {
  return Buffer.from((entry.message as MapEntry).key)
}

function nameOf(field: DescField): string {
  return `${field.parent.typeName}.${field.name}`
}
