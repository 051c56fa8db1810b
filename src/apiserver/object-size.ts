import { entityTooLarge } from './refusal.ts'

/**
 * The limit on the JSON of an object, in bytes. A body has at most 3 MiB, but managedFields can be several times as
 * long as the fields that they name, and each patch can make an object longer. kube-apiserver needs no such limit,
 * because etcd does not store objects of this size.
 */
const MAX_OBJECT_BYTES = 16 * 1024 * 1024
/** The JSON of one character takes at most this many bytes, as `\u0000` does. */
const MAX_BYTES_OF_CHARACTER = 6

/** @throws Refusal 413 if an object is too large to be stored */
export function checkSize(object: object): void {
  // The estimate costs little. It is never less than a sixth of the length of the JSON.
  if (bytesOf(object, undefined) <= MAX_OBJECT_BYTES / MAX_BYTES_OF_CHARACTER) return
  if (Buffer.byteLength(JSON.stringify(object)) > MAX_OBJECT_BYTES) throw entityTooLarge(MAX_OBJECT_BYTES)
}

/** About how many bytes of memory a value takes, without the maps and lists that it shares with `previous`. */
export function bytesOf(value: unknown, previous: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  if (value === previous) return 0
  const before = (typeof previous === 'object' ? (previous ?? {}) : {}) as Readonly<Record<string, unknown>>
  let bytes = 32
  for (const [name, member] of Object.entries(value)) bytes += 16 + name.length + bytesOf(member, before[name])
  return bytes
}
