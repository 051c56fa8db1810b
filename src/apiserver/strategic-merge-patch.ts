import { isRecord } from '../kube/resources.ts'
import { DEEPEST_NESTING } from '../kube/transport.ts'
import type { Schema } from './kind.ts'
import { badRequest, internalError } from './refusal.ts'

type Members = Readonly<Record<string, unknown>>

/** The names of directives: how a part of the object is merged. */
const PATCH = '$patch'
const RETAIN_KEYS = '$retainKeys'
const ELEMENT_ORDER = '$setElementOrder/'
const DELETE_VALUES = '$deleteFromPrimitiveList/'

/**
 * The document after a strategic merge patch (k8s.io/apimachinery/pkg/util/strategicpatch), as `kubectl apply`, `patch`
 * and `edit` send it: a merge patch in which the items of a list are merged by their key. The key is the first one by
 * which the schema identifies items; a list without keys is replaced.
 * @throws Refusal 400 or, as kube-apiserver, 500 for a malformed patch
 */
export function strategicMergePatch(document: unknown, patch: Members, schema: Schema | undefined, depth = 1): unknown {
  if (depth > DEEPEST_NESTING) throw badRequest('error decoding patch: json: exceeded max depth')
  const { [PATCH]: directive, [RETAIN_KEYS]: retained, ...members } = patch
  if (directive === 'replace') return members
  if (directive === 'delete') return {}
  if (directive !== undefined && directive !== 'merge') {
    throw internalError(`unknown patch type: ${String(directive)} in map: ${goText(patch)}`)
  }
  const live: Members = isRecord(document) ? document : {}
  const merged: Record<string, unknown> = { ...live }
  if (retained !== undefined) dropOthers(merged, retained, members)
  for (const [key, value] of Object.entries(members)) {
    if (key.startsWith(ELEMENT_ORDER)) continue
    if (key.startsWith(DELETE_VALUES)) {
      const name = key.slice(DELETE_VALUES.length)
      const gone = new Set(listOf(value).map((item) => identityOf(item)))
      merged[name] = listOf(merged[name]).filter((item) => !gone.has(identityOf(item)))
    } else if (value === null) delete merged[key]
    else merged[key] = mergedMember(merged[key], value, fieldOf(schema, key), depth)
  }
  for (const [key, order] of Object.entries(members)) {
    if (!key.startsWith(ELEMENT_ORDER)) continue
    const name = key.slice(ELEMENT_ORDER.length)
    const items = merged[name]
    const itemKey = mergeKey(fieldOf(schema, name))
    if (Array.isArray(items)) merged[name] = inOrder(items, listOf(order), listOf(live[name]), itemKey)
  }
  return merged
}

/** Keeps only the named members; the patch may not set others. */
function dropOthers(merged: Record<string, unknown>, retained: unknown, patch: Members): void {
  const isNamed = (key: string): boolean => Array.isArray(retained) && retained.includes(key)
  if (!Array.isArray(retained) || Object.keys(patch).some((key) => patch[key] !== null && !isNamed(key))) {
    throw badRequest('invalid patch format of retainKeys')
  }
  for (const key of Object.keys(merged)) if (!isNamed(key)) delete merged[key]
}

function mergedMember(live: unknown, value: unknown, schema: Schema | undefined, depth: number): unknown {
  if (isRecord(value)) return strategicMergePatch(live, value, schema, depth + 1)
  if (!Array.isArray(value)) return value
  const key = mergeKey(schema)
  if (key === undefined) return value
  if (key !== 'value') return mergedItems(listOf(live), value, key, schema, depth)
  const present = new Set(listOf(live).map((item) => identityOf(item)))
  const added = value.filter((item) => !present.has(identityOf(item)))
  return inOrder([...listOf(live), ...added], value, listOf(live), key)
}

/** The items of a list after those of a patch were merged into those with the same key, or added. */
function mergedItems(
  live: readonly unknown[],
  patch: readonly unknown[],
  key: string,
  schema: Schema | undefined,
  depth: number,
): readonly unknown[] {
  const items = schema?.type === 'list' ? schema.items : undefined
  const isReplaced = patch.some((item) => isRecord(item) && item[PATCH] === 'replace')
  if (isReplaced) return patch.filter((item) => !isRecord(item) || item[PATCH] === undefined)
  const result: unknown[] = [...live]
  // Several items may have the same key, as the ports 53 of a Service: the first is merged, all are deleted.
  const indices = new Map<string, number[]>()
  for (const [index, item] of live.entries()) {
    if (!isRecord(item)) continue
    const identity = identityOf(item[key])
    indices.set(identity, [...(indices.get(identity) ?? []), index])
  }
  const deleted = new Set<number>()
  const present: unknown[] = []
  for (const item of patch) {
    if (!isRecord(item) || item[key] === undefined) {
      throw internalError(`map: ${goText(item)} does not contain declared merge key: ${key}`)
    }
    const identity = identityOf(item[key])
    const found = indices.get(identity) ?? []
    if (item[PATCH] === 'delete') {
      for (const index of found) deleted.add(index)
      indices.delete(identity)
      continue
    }
    present.push(item)
    const [index = result.length] = found
    if (index === result.length) indices.set(identity, [index])
    result[index] = strategicMergePatch(result[index] ?? {}, item, items, depth + 1)
  }
  const left = result.filter((_, index) => !deleted.has(index))
  return inOrder(left, present, live, key)
}

/**
 * The items in the order that a patch wants, merged with those that it does not name: one of these comes before an item
 * of the patch only if it did so in the live list (upstream's normalizeElementOrder).
 */
function inOrder(
  items: readonly unknown[],
  wanted: readonly unknown[],
  live: readonly unknown[],
  key: string | undefined,
): readonly unknown[] {
  const positions = (list: readonly unknown[]): ReadonlyMap<string, number> => {
    const found = new Map<string, number>()
    for (const [index, item] of list.entries()) {
      const identity = idOf(item)
      if (!found.has(identity)) found.set(identity, index)
    }
    return found
  }
  const idOf = (item: unknown): string => identityOf(key !== undefined && isRecord(item) ? item[key] : item)
  const inWanted = positions(wanted)
  const inLive = positions(live)
  const named = items.filter((item) => inWanted.has(idOf(item)))
  named.sort((a, b) => (inWanted.get(idOf(a)) ?? 0) - (inWanted.get(idOf(b)) ?? 0))
  const others = items.filter((item) => !inWanted.has(idOf(item)))
  const result: unknown[] = []
  let next = 0
  for (const item of named) {
    const index = inLive.get(idOf(item))
    if (index !== undefined) {
      while (next < others.length && (inLive.get(idOf(others[next])) ?? -1) < index) result.push(others[next++])
    }
    result.push(item)
  }
  return [...result, ...others.slice(next)]
}

/** What identifies the items of a list: a field, or their whole value; undefined for a list that is replaced. */
function mergeKey(schema: Schema | undefined): string | undefined {
  if (schema?.type !== 'list' || schema.keys === undefined) return undefined
  return schema.keys === 'value' ? 'value' : schema.keys[0]
}

function fieldOf(schema: Schema | undefined, name: string): Schema | undefined {
  return schema?.type === 'object' ? schema.fields[name] : undefined
}

/** A text that only equal JSON values have. @throws Refusal 400 where the value nests too deep */
function identityOf(value: unknown, depth = 1): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  if (depth > DEEPEST_NESTING) throw badRequest('error decoding patch: json: exceeded max depth')
  if (Array.isArray(value)) return `[${value.map((item) => identityOf(item, depth + 1)).join()}]`
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return `{${members
    .map(([name, member]) => `${JSON.stringify(name)}:${identityOf(member, depth + 1)}`)
    .sort()
    .join()}}`
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** A value as Go's `%v` prints it, for messages in kube-apiserver's words. */
function goText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(goText).join(' ')}]`
  if (!isRecord(value)) return value === null ? '<nil>' : String(value)
  const members = Object.keys(value).sort()
  return `map[${members.map((key) => `${key}:${goText(value[key])}`).join(' ')}]`
}
