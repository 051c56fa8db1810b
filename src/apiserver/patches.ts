import { isRecord } from '../kube/resources.ts'
import { DEEPEST_NESTING } from '../kube/transport.ts'
import { setMember } from '../protobuf/go-json.ts'
import { equalJson } from '../runtime/equal-json.ts'
import { ownMember } from './decode.ts'
import type { Members } from './kind.ts'
import { badRequest, tooManyOperations, unprocessable, unsupportedMediaType } from './refusal.ts'
import type { Schema } from './schema.ts'
import type { StoredObject } from './store.ts'
import { checkDepth, strategicMergePatch } from './strategic-merge-patch.ts'

type PatchType = 'merge' | 'strategic' | 'json' | 'apply'

/** @throws Refusal 415 */
export function patchTypeOf(contentType: string): PatchType {
  switch (contentType.split(';')[0]?.trim()) {
    case 'application/merge-patch+json':
      return 'merge'
    case 'application/strategic-merge-patch+json':
      return 'strategic'
    case 'application/json-patch+json':
      return 'json'
    // The body has been parsed by now, whether it was YAML or JSON.
    case 'application/apply-patch+yaml':
    case 'application/apply-patch+json':
      return 'apply'
    default:
      throw unsupportedMediaType()
  }
}

/**
 * A patched object, not yet decoded. `schema` is that of its kind. As in kube-apiserver, the patch `null` changes
 * nothing, but is no merge patch.
 * @throws Refusal 400, 413 or 422; 500 where kube-apiserver also answers 500
 */
export function patched(
  type: Exclude<PatchType, 'apply'>,
  live: StoredObject,
  given: unknown,
  schema: Schema,
): unknown {
  if (given === null && type === 'merge') throw badRequest('Invalid JSON Patch')
  if (type === 'json') return jsonPatch(live, given === null ? [] : given)
  const patch = given === null ? {} : given
  if (!isRecord(patch)) {
    const what = `json: cannot unmarshal ${jsonTypeOf(patch)} into Go value of type map[string]interface {}`
    throw badRequest(type === 'merge' ? `error decoding patch: ${what}` : what)
  }
  return type === 'merge' ? mergePatch(live, patch) : strategicMergePatch(live, patch, schema)
}

/** The document after a merge patch (RFC 7386). @throws Refusal 400 if the patch is nested too deeply */
export function mergePatch(document: unknown, patch: unknown, depth = 1): unknown {
  if (!isRecord(patch)) return patch
  checkDepth(depth)
  const merged: Record<string, unknown> = isRecord(document) ? { ...document } : {}
  for (const key of Object.keys(patch)) {
    if (patch[key] === null) delete merged[key]
    else if (patch[key] !== undefined) setMember(merged, key, mergePatch(ownMember(merged, key), patch[key], depth + 1))
  }
  return merged
}

/**
 * The document after a JSON patch (RFC 6902), as gopkg.in/evanphx/json-patch.v4 applies it: a missing member is read as
 * `null`, `replace` adds it, and negative indices count from the end. The document itself is not changed.
 * @throws Refusal 400 if the patch is not a list of operations or is nested too deeply; 413 for too many operations;
 * 422 if an operation does not apply, or if the operations copy or move too much
 */
export function jsonPatch(document: unknown, operations: unknown): unknown {
  if (!Array.isArray(operations) || !operations.every(isRecord)) {
    const given = Array.isArray(operations) ? 'value' : jsonTypeOf(operations)
    throw badRequest(
      `error decoding patch: json: cannot unmarshal ${given} into Go value of type []handlers.jsonPatchOp`,
    )
  }
  if (operations.length > MAX_OPERATIONS) throw tooManyOperations(MAX_OPERATIONS, operations.length)
  const work = { copiedBytes: 0, movedItems: 0 }
  const edited = operations.reduce((before: unknown, operation) => applied(before, operation, work), copied(document))
  // Also checks values that no operation has read: a later refusal quotes all operations, so no value may be nested too
  // deeply.
  for (const operation of operations) checkNesting(operation)
  return edited
}

/** kube-apiserver's limits: maxJSONPatchOperations and --json-patch-max-copy-bytes. */
const MAX_OPERATIONS = 10_000
const MAX_COPIED_BYTES = 3 * 1024 * 1024
/**
 * Adding or removing an item of a list moves all items after it. This many moves take less than a second. Without a
 * limit, a patch of a list of a million items would delay all requests for many seconds.
 */
const MAX_MOVED_ITEMS = 200_000_000

/** What the operations of a patch have cost so far. */
interface Work {
  copiedBytes: number
  movedItems: number
}

/** Applies an operation. May change `document`. Returns the document, or the value that replaces it. */
function applied(document: unknown, operation: Members, work: Work): unknown {
  const { op, path, from } = operation
  const value = (): unknown => copied(operation.value ?? null)
  switch (op) {
    case 'add':
      add(placeAt(document, path), value(), work)
      return document
    case 'replace': {
      if (path !== '') {
        replace(placeAt(document, path), value())
        return document
      }
      const whole = value()
      return isContainer(whole) ? whole : refused()
    }
    case 'remove':
      remove(placeAt(document, path), work)
      return document
    case 'test':
      return equalJson(path === '' ? document : valueAt(placeAt(document, path)), value()) ? document : refused()
    case 'copy': {
      const copy = copied(valueAt(placeAt(document, from)))
      // Without a limit, a few operations that each double a list would fill the memory.
      work.copiedBytes += Buffer.byteLength(JSON.stringify(copy))
      if (work.copiedBytes > MAX_COPIED_BYTES) throw unprocessable()
      add(placeAt(document, path), copy, work)
      return document
    }
    case 'move': {
      const source = placeAt(document, from)
      const moved = valueAt(source)
      remove(source, work)
      add(placeAt(document, path), moved, work)
      return document
    }
    default:
      return refused()
  }
}

/** @throws Refusal 400 if the value is nested too deeply */
function checkNesting(value: unknown, depth = 1): void {
  if (typeof value !== 'object' || value === null) return
  checkDepth(depth)
  for (const member of Object.values(value)) checkNesting(member, depth + 1)
}

/** A deep copy of a JSON value. @throws Refusal 400 if the value is nested too deeply */
function copied(value: unknown, depth = 1): unknown {
  if (typeof value !== 'object' || value === null) return value
  checkDepth(depth)
  if (Array.isArray(value)) return value.map((item) => copied(item, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, copied(member, depth + 1)]))
}

type Container = unknown[] | Record<string, unknown>

/** Where a value is or would be: a container and a key in it. */
interface Place {
  readonly container: Container
  readonly key: string
}

/** @throws Refusal 422 if there is no such container, as for the path of the whole document */
function placeAt(document: unknown, path: unknown): Place {
  const steps = stepsOf(path)
  const key = steps.at(-1)
  const container = steps.slice(0, -1).reduce((outer, step) => {
    return isContainer(outer) ? valueAt({ container: outer, key: step }) : refused()
  }, document)
  return key !== undefined && isContainer(container) ? { container, key } : refused()
}

function isContainer(value: unknown): value is Container {
  return Array.isArray(value) || isRecord(value)
}

/** The value at a place. A missing member counts as null; a missing item is refused. */
function valueAt({ container, key }: Place): unknown {
  if (Array.isArray(container)) return container[indexOf(key, container.length)]
  return ownMember(container, key) ?? null
}

function add({ container, key }: Place, value: unknown, work: Work): void {
  if (!Array.isArray(container)) setMember(container, key, value)
  else splice(container, key === '-' ? container.length : indexOf(key, container.length + 1), 0, [value], work)
}

function replace({ container, key }: Place, value: unknown): void {
  if (Array.isArray(container)) container[indexOf(key, container.length)] = value
  else setMember(container, key, value)
}

function remove({ container, key }: Place, work: Work): void {
  if (Array.isArray(container)) splice(container, indexOf(key, container.length), 1, [], work)
  else if (Object.hasOwn(container, key)) Reflect.deleteProperty(container, key)
  else throw unprocessable()
}

function splice(list: unknown[], index: number, removed: number, added: readonly unknown[], work: Work): void {
  work.movedItems += list.length - index
  if (work.movedItems > MAX_MOVED_ITEMS) throw unprocessable()
  list.splice(index, removed, ...added)
}

/**
 * The index that `key` names in a list of `count` items, as Go's Atoi reads it. A negative index counts from the end.
 * @throws Refusal 422
 */
function indexOf(key: string, count: number): number {
  if (!/^[+-]?\d+$/.test(key)) throw unprocessable()
  const number = Number(key)
  const index = number < 0 ? number + count : number
  return index >= 0 && index < count ? Math.abs(index) : refused()
}

/** The steps of a JSON pointer (RFC 6901). Text before its first slash is ignored. */
function stepsOf(path: unknown): readonly string[] {
  if (typeof path !== 'string') throw unprocessable()
  const [, ...steps] = path.split('/')
  if (steps.length > DEEPEST_NESTING) throw unprocessable()
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function refused(): never {
  throw unprocessable()
}

/** The type of a JSON value other than null as Go's decoder calls it. */
function jsonTypeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  return typeof value === 'boolean' ? 'bool' : typeof value
}
