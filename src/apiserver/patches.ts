import { isRecord } from '../kube/resources.ts'
import { DEEPEST_NESTING } from '../kube/transport.ts'
import { equalJson, setMember } from './decode.ts'
import type { Schema } from './kind.ts'
import { badRequest, tooManyOperations, unprocessable, unsupportedMediaType } from './refusal.ts'
import type { StoredObject } from './store.ts'
import { strategicMergePatch } from './strategic-merge-patch.ts'

/** The kinds of patch that are served, by media type. */
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
    // The body of a request is parsed by now, whichever it was.
    case 'application/apply-patch+yaml':
    case 'application/apply-patch+json':
      return 'apply'
    default:
      throw unsupportedMediaType()
  }
}

/** A stored object after a patch, not yet decoded. `schema` is that of its kind. @throws Refusal 400 or 422 */
export function patched(
  type: Exclude<PatchType, 'apply'>,
  live: StoredObject,
  patch: unknown,
  schema: Schema,
): unknown {
  if (type === 'json') return jsonPatch(live, patch)
  if (!isRecord(patch)) {
    const what = `json: cannot unmarshal ${jsonTypeOf(patch)} into Go value of type map[string]interface {}`
    throw badRequest(type === 'merge' ? `error decoding patch: ${what}` : what)
  }
  return type === 'merge' ? mergePatch(live, patch) : strategicMergePatch(live, patch, schema)
}

type Members = Readonly<Record<string, unknown>>

/**
 * The document after a merge patch (RFC 7386).
 * @throws Refusal 400 where it nests too deep
 */
export function mergePatch(document: unknown, patch: unknown, depth = 1): unknown {
  if (!isRecord(patch)) return patch
  if (depth > DEEPEST_NESTING) throw badRequest('error decoding patch: json: exceeded max depth')
  const merged: Record<string, unknown> = isRecord(document) ? { ...document } : {}
  for (const key of Object.keys(patch)) {
    if (patch[key] === null) delete merged[key]
    else if (patch[key] !== undefined) merged[key] = mergePatch(merged[key], patch[key], depth + 1)
  }
  return merged
}

/**
 * The document after a JSON patch (RFC 6902); the document itself is not changed.
 * @throws Refusal 400 where it is no list of operations, 413 for too many, 422 where one does not apply or what `copy`
 *   copies is too large
 */
export function jsonPatch(document: unknown, operations: unknown): unknown {
  if (!Array.isArray(operations) || !operations.every(isRecord)) {
    const given = Array.isArray(operations) ? 'value' : jsonTypeOf(operations)
    throw badRequest(
      `error decoding patch: json: cannot unmarshal ${given} into Go value of type []handlers.jsonPatchOp`,
    )
  }
  if (operations.length > MAX_OPERATIONS) throw tooManyOperations(MAX_OPERATIONS, operations.length)
  let copiedBytes = 0
  return operations.reduce((edited: unknown, operation: Members) => {
    const path = pointer(operation.path)
    switch (operation.op) {
      case 'add':
        return edit(edited, path, 'add', copied(operation.value))
      case 'replace':
        return edit(edited, path, 'replace', copied(operation.value))
      case 'remove':
        return edit(edited, path, 'remove', undefined)
      case 'test':
        if (!equalJson(valueAt(edited, path), copied(operation.value ?? null))) throw unprocessable()
        return edited
      case 'copy': {
        const value = copied(valueAt(edited, pointer(operation.from)))
        // A few operations that double a list would fill the memory.
        copiedBytes += Buffer.byteLength(JSON.stringify(value))
        if (copiedBytes > MAX_COPIED_BYTES) throw unprocessable()
        return edit(edited, path, 'add', value)
      }
      case 'move': {
        const from = pointer(operation.from)
        const value = valueAt(edited, from)
        return edit(edit(edited, from, 'remove', undefined), path, 'add', value)
      }
      default:
        throw unprocessable()
    }
  }, copied(document))
}

/** kube-apiserver's limits: maxJSONPatchOperations and --json-patch-max-copy-bytes. */
const MAX_OPERATIONS = 10_000
const MAX_COPIED_BYTES = 3 * 1024 * 1024

/** @throws Refusal 400 where it nests too deep */
function copied(value: unknown, depth = 1): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > DEEPEST_NESTING) throw badRequest('error decoding patch: json: exceeded max depth')
  if (Array.isArray(value)) return value.map((item) => copied(item, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, copied(member, depth + 1)]))
}

type Edit = 'add' | 'replace' | 'remove'

/** Changes one thing in a document that is not shared, and returns the document. */
function edit(document: unknown, path: readonly string[], how: Edit, value: unknown): unknown {
  const last = path.at(-1)
  if (last === undefined) return how === 'remove' ? {} : value
  const container = valueAt(document, path.slice(0, -1))
  if (Array.isArray(container)) {
    const index = last === '-' && how === 'add' ? container.length : indexIn(container, last, how === 'add')
    if (how === 'replace') container[index] = value
    else container.splice(index, how === 'remove' ? 1 : 0, ...(how === 'remove' ? [] : [value]))
    return document
  }
  if (!isRecord(container) || (how !== 'add' && !Object.hasOwn(container, last))) throw unprocessable()
  if (how === 'remove') Reflect.deleteProperty(container, last)
  else setMember(container as Record<string, unknown>, last, value)
  return document
}

function valueAt(document: unknown, path: readonly string[]): unknown {
  let value = document
  for (const step of path) {
    if (Array.isArray(value)) value = value[indexIn(value, step, false)]
    else if (isRecord(value) && Object.hasOwn(value, step)) value = value[step]
    else throw unprocessable()
  }
  return value
}

function indexIn(items: readonly unknown[], step: string, mayBeEnd: boolean): number {
  const index = /^(0|[1-9]\d*)$/.test(step) ? Number(step) : -1
  if (index < 0 || index > items.length || (index === items.length && !mayBeEnd)) throw unprocessable()
  return index
}

/** The steps of a JSON pointer (RFC 6901). */
function pointer(path: unknown): readonly string[] {
  if (path === '') return []
  if (typeof path !== 'string' || !path.startsWith('/')) throw unprocessable()
  const steps = path.slice(1).split('/')
  if (steps.length > DEEPEST_NESTING) throw unprocessable()
  return steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The type of a JSON value as Go's decoder calls it. */
function jsonTypeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  return typeof value === 'boolean' ? 'bool' : typeof value
}
