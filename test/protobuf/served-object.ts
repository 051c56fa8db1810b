import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import { type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect'
import type { MapEntry } from '../../src/protobuf/gen/k8s.io/apimachinery/pkg/apis/meta/v1/generated_pb.ts'
import type { StoredKind } from '../../src/protobuf/stored-object.ts'

type Json = Readonly<Record<string, unknown>>

/** The JSON that an API server serves for a message, without empty fields. */
export function servedObject<Desc extends DescMessage>(kind: StoredKind<Desc>, object: MessageShape<Desc>): Json {
  return withoutEmpty(servedFields(reflect(kind.schema, object)))
}

/**
 * JSON without fields that are null, empty or zero: a tag on each field decides whether Go writes it then. kind and
 * apiVersion are not in the message, so they are left out too.
 */
export function withoutEmpty({ kind: _kind, apiVersion: _apiVersion, ...object }: Json): Json {
  return pruned(object) ?? {}
}

function pruned<T>(value: T): T | undefined {
  if (Array.isArray(value)) return value.length === 0 ? undefined : (value.map((item) => pruned(item) ?? {}) as T)
  if (value === null || typeof value !== 'object') return value || undefined
  const fields = Object.entries(value).map(([name, field]) => [name, pruned(field)] as const)
  const full = fields.filter(([, field]) => field !== undefined)
  return full.length === 0 ? undefined : (Object.fromEntries(full) as T)
}

function servedFields(message: ReflectMessage): Json {
  const set = message.fields.filter((field) => message.isSet(field))
  return Object.fromEntries(set.map((field) => [field.jsonName, served(message.get(field))]))
}

function served(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (typeof value === 'bigint') return Number(value)
  if (value === null || typeof value !== 'object') return value
  if ('desc' in value) return servedMessage(value as ReflectMessage)
  const items = [...(value as Iterable<unknown>)]
  return isEntry(items[0]) ? Object.fromEntries(items.map(keyAndValue)) : items.map(served)
}

function servedMessage(message: ReflectMessage): unknown {
  const fields = servedFields(message)
  switch (message.desc.name) {
    case 'Time':
      return 'seconds' in fields ? new Date(Number(fields.seconds) * 1000).toISOString().replace('.000', '') : undefined
    case 'FieldsV1':
      return 'Raw' in fields ? JSON.parse(Buffer.from(String(fields.Raw), 'base64').toString()) : undefined
    default:
      return fields
  }
}

function isEntry(item: unknown): boolean {
  return (item as ReflectMessage | undefined)?.desc?.name === 'MapEntry'
}

function keyAndValue(item: unknown): readonly [string, string] {
  const { key, value } = (item as ReflectMessage).message as MapEntry
  return [key, value]
}
