import { isRecord } from '../kube/resources.ts'
import { DEEPEST_NESTING } from '../kube/transport.ts'
import { setMember } from '../protobuf/go-json.ts'
import { ownMember } from './decode.ts'
import { goText, goTypeOf } from './go-text.ts'
import type { Members } from './kind.ts'
import { badRequest, internalError, unprocessable } from './refusal.ts'
import { fieldOf, type Schema } from './schema.ts'

type List = readonly unknown[]

/** The names of directives. A directive determines how a part of the object is merged. */
const PATCH = '$patch'
const RETAIN_KEYS = '$retainKeys'
/** The first part of the name of a directive for a list. The second part, after a slash, is the name of the list. */
const ELEMENT_ORDER = '$setElementOrder'
const DELETE_VALUES = '$deleteFromPrimitiveList'

/**
 * The document after a strategic merge patch (k8s.io/apimachinery/pkg/util/strategicpatch), as `kubectl apply`, `patch`
 * and `edit` send it: a merge patch in which the items of a list are merged by their key. If the schema has several
 * keys for a list, the first counts. A list without keys is replaced.
 * @throws Refusal 400 or 422; for a malformed patch 500 where kube-apiserver also answers 500
 */
export function strategicMergePatch(document: unknown, patch: Members, schema: Schema | undefined, depth = 1): Members {
  checkDepth(depth)
  if (Object.hasOwn(patch, PATCH)) return replacement(patch)
  const merged: Record<string, unknown> = isRecord(document) ? { ...document } : {}
  const left = new Map(Object.entries(patch))
  if (left.has(RETAIN_KEYS)) dropOthers(merged, left)
  for (const [key, order] of Object.entries(patch)) {
    if (!key.startsWith(ELEMENT_ORDER)) continue
    const wanted = asList(order)
    const name = nameIn(key, ELEMENT_ORDER, 'invalid patch format of setElementOrder list')
    if (schema?.type === 'map') {
      throw internalError('merging an object in json but data type is not struct, instead is: map')
    }
    const list = orderedList(ownMember(merged, name), left.get(name), wanted, fieldOf(schema, name), depth)
    left.delete(key)
    left.delete(name)
    if (list !== undefined) setMember(merged, name, list)
  }
  for (const [key, value] of left) {
    if (key.startsWith(DELETE_VALUES)) {
      const name = nameIn(key, DELETE_VALUES, 'invalid patch format of primitive list')
      setMember(merged, name, withoutValues(ownMember(merged, name), value))
    } else if (value === null) delete merged[key]
    else {
      const next = mergedMember(ownMember(merged, key), value, fieldOf(schema, key), depth)
      if (next === undefined) delete merged[key]
      else setMember(merged, key, next)
    }
  }
  return merged
}

/** The result of a patch with the directive `$patch`, which concerns the whole map. */
function replacement({ [PATCH]: directive, ...members }: Members): Members {
  if (directive === 'replace') return members
  if (directive === 'delete') return {}
  throw unknownDirective(directive, { [PATCH]: directive, ...members })
}

function unknownDirective(directive: unknown, patch: Members): Error {
  return internalError(`unknown patch type: ${goText(directive)} in map: ${goText(patch)}`)
}

/** The name of a list, from the name of a directive for it. @throws Refusal 400 */
function nameIn(key: string, directive: string, fault: string): string {
  if (!key.startsWith(`${directive}/`)) throw badRequest(fault)
  return key.slice(directive.length + 1)
}

/**
 * Removes the members that `$retainKeys` does not name, and takes the directive out of the patch.
 * @throws Refusal 400 if the patch sets other members
 */
function dropOthers(merged: Record<string, unknown>, patch: Map<string, unknown>): void {
  const retained = patch.get(RETAIN_KEYS)
  patch.delete(RETAIN_KEYS)
  const isDirective = (key: string): boolean => key.startsWith(ELEMENT_ORDER) || key.startsWith(DELETE_VALUES)
  const names = new Set<unknown>(Array.isArray(retained) ? retained : [])
  const isNamed = (key: string): boolean => names.has(key)
  const others = [...patch].filter(([key, value]) => value !== null && !isDirective(key) && !isNamed(key))
  if (!Array.isArray(retained) || others.length > 0) throw badRequest('invalid patch format of retainKeys')
  for (const key of Object.keys(merged)) if (!isNamed(key)) delete merged[key]
}

/** A list after a patch that gives its order. Undefined if neither the live object nor the patch has the list. */
function orderedList(
  live: unknown,
  patch: unknown,
  order: List,
  schema: Schema | undefined,
  depth: number,
): List | undefined {
  const key = mergeKey(schema)
  const before = live === undefined ? undefined : asList(live)
  const items = patch === undefined ? undefined : asList(patch)
  if (schema !== undefined && schema.type !== 'list' && schema.type !== 'any') {
    // Upstream names the type of the struct that has the field.
    throw internalError('expected slice or array type, but got: struct')
  }
  if (items !== undefined) checkOrder(items, order, key)
  if (before === undefined && items === undefined) return undefined
  const merged =
    items === undefined
      ? (before ?? [])
      : before === undefined
        ? (withoutDirectives(items, depth + 1) as List)
        : mergedList(before, items, schema, depth)
  if (key !== undefined && key !== 'value') for (const item of [...merged, ...order]) keyOf(item, key)
  return inOrder(merged, order, before ?? [], key)
}

/**
 * Refuses a patch whose items are not in the order that its directive gives (upstream's validatePatchWithSetOrderList).
 * Does not check a list without a key, because upstream may have a key that the schema lacks.
 */
function checkOrder(patch: List, order: List, key: string | undefined): void {
  if (patch.length === 0 || order.length === 0 || key === undefined) return
  const field = key === 'value' ? undefined : key
  const present = field === undefined ? patch : patch.filter((item) => asMap(item)[PATCH] !== 'delete')
  let next = 0
  let position = 0
  while (next < present.length && position < order.length) {
    const item = present[next]
    if (isRecord(item) && Object.hasOwn(item, PATCH)) next++
    else if (keyOf(item, field) === keyOf(order[position++], field)) next++
  }
  if (next < present.length) {
    const lists = `in patch list:\n${goText(patch)}\n doesn't match ${ELEMENT_ORDER} list:\n${goText(order)}\n`
    throw internalError(`The order ${lists}`)
  }
}

/**
 * Removes `values` from a list. If `values` is null, removes the list. Like upstream, ignores other `values` that are
 * not a list.
 */
function withoutValues(live: unknown, values: unknown): unknown {
  if (values === null) return undefined
  if (!Array.isArray(live) || !Array.isArray(values)) return live
  checkElements(live, values)
  const gone = new Set(values.map((item) => identityOf(item)))
  return live.filter((item) => !gone.has(identityOf(item)))
}

/** A member after a patch. Undefined: the patch removes it. */
function mergedMember(live: unknown, value: unknown, schema: Schema | undefined, depth: number): unknown {
  if (isRecord(value) && isRecord(live)) return strategicMergePatch(live, value, schema, depth + 1)
  if (Array.isArray(value) && Array.isArray(live)) return mergedList(live, value, schema, depth)
  return withoutDirectives(value, depth + 1)
}

/**
 * A value that a patch adds, without null members and without maps that have a directive. Undefined if the value itself
 * is such a map.
 */
function withoutDirectives(value: unknown, depth: number): unknown {
  checkDepth(depth)
  if (Array.isArray(value))
    return value.map((item) => withoutDirectives(item, depth + 1)).filter((item) => item !== undefined)
  if (!isRecord(value)) return value
  if (Object.hasOwn(value, PATCH)) return undefined
  const members = Object.entries(value)
    .map(([name, member]) => [name, withoutDirectives(member, depth + 1)] as const)
    .filter(([, member]) => member !== undefined && member !== null)
  return Object.fromEntries(members)
}

function mergedList(live: List, patch: List, schema: Schema | undefined, depth: number): List {
  const key = mergeKey(schema)
  if (key === undefined) return patch
  if (live.length === 0 && patch.length === 0) return live
  checkElements(live, patch)
  if (key !== 'value') return mergedItems(live, patch, key, schema, depth)
  const present = new Set(live.map((item) => identityOf(item)))
  const added = patch.filter((item) => !present.has(identityOf(item)))
  return inOrder([...live, ...added], patch, live, key)
}

/** All elements must be of one type, which is not a list (upstream's sliceElementType). @throws Refusal 422 or 500 */
function checkElements(...lists: readonly List[]): void {
  const types = new Set(lists.flat().map((item) => goTypeOf(item)))
  const [first] = types
  if (first === goTypeOf([])) throw unprocessable()
  if (types.size > 1) throw internalError(`list element types are not identical: ${goText(lists)}`)
}

/** The items of a list after a patch: each item of the patch is merged into the item with the same key, or added. */
function mergedItems(live: List, patch: List, key: string, schema: Schema | undefined, depth: number): List {
  const items = schema?.type === 'list' ? schema.items : undefined
  const deleted = new Set<string>()
  const present: Members[] = []
  let isReplaced = false
  for (const item of patch.map(asMap)) {
    const directive = item[PATCH]
    if (!Object.hasOwn(item, PATCH)) present.push(item)
    else if (directive === 'delete') deleted.add(keyOf(item, key))
    else if (directive === 'replace') isReplaced = true
    else if (directive === 'merge') throw internalError('merging lists cannot yet be specified in the patch')
    else throw unknownDirective(directive, item)
  }
  if (isReplaced) {
    for (const item of present) keyOf(item, key)
    return present
  }
  const result: unknown[] = live.filter((item) => !isRecord(item) || !deleted.has(identityOf(item[key])))
  // Several items may have the same key, such as the ports 53 of a Service. The first one is merged.
  const indices = new Map<string, number>()
  const note = (identity: string, index: number): void => void (indices.has(identity) || indices.set(identity, index))
  for (const [index, item] of result.entries()) if (isRecord(item)) note(identityOf(item[key]), index)
  for (const item of present) {
    const identity = keyOf(item, key)
    const index = indices.get(identity)
    if (index !== undefined) result[index] = strategicMergePatch(result[index], item, items, depth + 1)
    else note(identity, result.push(item) - 1)
  }
  return inOrder(result, present, live, key)
}

/**
 * The items in the order that a patch gives, merged with the items that the patch does not name. An unnamed item comes
 * right before the first named item that it precedes in the live list, or else at the end (upstream's
 * normalizeElementOrder).
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
  // An item that is in neither order comes last.
  const livePosition = (item: unknown): number => inLive.get(idOf(item)) ?? live.length
  const others = items.filter((item) => !inWanted.has(idOf(item)))
  others.sort((a, b) => livePosition(a) - livePosition(b))
  const result: unknown[] = []
  let next = 0
  for (const item of named) {
    // A new item has no place in the live list, so no unnamed item is put right before it.
    const index = inLive.get(idOf(item)) ?? 0
    while (next < others.length && livePosition(others[next]) < index) result.push(others[next++])
    result.push(item)
  }
  return [...result, ...others.slice(next)]
}

/** The field that identifies items, or `value` for the whole item. Undefined: the list is replaced. */
function mergeKey(schema: Schema | undefined): string | undefined {
  if (schema?.type !== 'list' || schema.keys === undefined) return undefined
  return schema.keys === 'value' ? 'value' : schema.keys[0]
}

/**
 * A text that is the same for two JSON values if and only if they are equal.
 * @throws Refusal 400 if the value is nested too deeply
 */
export function identityOf(value: unknown, depth = 1): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  checkDepth(depth)
  if (Array.isArray(value)) return `[${value.map((item) => identityOf(item, depth + 1)).join()}]`
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return `{${members
    .map(([name, member]) => `${JSON.stringify(name)}:${identityOf(member, depth + 1)}`)
    .sort()
    .join()}}`
}

/**
 * The identity of the item's value under `key` or, without a key, of the item itself.
 * @throws Refusal 500 if the item lacks the key
 */
function keyOf(item: unknown, key: string | undefined): string {
  if (key === undefined) return identityOf(item)
  const members = asMap(item)
  if (!Object.hasOwn(members, key)) {
    throw internalError(`map: ${goText(members)} does not contain declared merge key: ${key}`)
  }
  return identityOf(members[key])
}

function asMap(value: unknown): Members {
  return isRecord(value) ? value : wrongType({}, value)
}

function asList(value: unknown): List {
  return Array.isArray(value) ? value : wrongType([], value)
}

function wrongType(expected: object, value: unknown): never {
  throw internalError(`expected a ${goTypeOf(expected)}, but received a ${goTypeOf(value)}`)
}

/** @throws Refusal 400 */
export function checkDepth(depth: number): void {
  if (depth > DEEPEST_NESTING) throw badRequest('error decoding patch: json: exceeded max depth')
}
