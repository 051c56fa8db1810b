import { DEEPEST_NESTING } from '../kube/transport.ts'
import { equalJson } from './decode.ts'
import { badRequest, unprocessable, unsupportedMediaType } from './refusal.ts'
import type { StoredObject } from './store.ts'

/** The kinds of patch that are served, by media type. */
type PatchType = 'merge' | 'json' | 'apply'

/** @throws Refusal 415 */
export function patchTypeOf(contentType: string): PatchType {
  switch (contentType.split(';')[0]?.trim()) {
    case 'application/merge-patch+json':
      return 'merge'
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

/** A stored object after a merge or JSON patch, not yet decoded. @throws Refusal 400 or 422 */
export function patched(type: 'merge' | 'json', live: StoredObject, patch: unknown): unknown {
  if (type === 'json') return jsonPatch(live, patch)
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) {
    throw badRequest('error decoding patch: json: cannot unmarshal value into Go value of type map[string]interface {}')
  }
  return mergePatch(live, patch)
}

type Members = Readonly<Record<string, unknown>>

/**
 * The document after a merge patch (RFC 7386).
 * @throws Refusal 400 where it nests too deep
 */
export function mergePatch(document: unknown, patch: unknown, depth = 1): unknown {
  if (!isObject(patch)) return patch
  if (depth > DEEPEST_NESTING) throw badRequest('error decoding patch: json: exceeded max depth')
  const merged: Record<string, unknown> = isObject(document) ? { ...document } : {}
  for (const key of Object.keys(patch)) {
    if (patch[key] === null) delete merged[key]
    else if (patch[key] !== undefined) merged[key] = mergePatch(merged[key], patch[key], depth + 1)
  }
  return merged
}

/**
 * The document after a JSON patch (RFC 6902); the document itself is not changed.
 * @throws Refusal 400 where it is no list of operations, 422 where an operation does not apply
 */
export function jsonPatch(document: unknown, operations: unknown): unknown {
  if (!Array.isArray(operations) || !operations.every(isObject)) {
    throw badRequest('error decoding patch: json: cannot unmarshal value into Go value of type []handlers.jsonPatchOp')
  }
  return operations.reduce(applyOperation, document)
}

function applyOperation(document: unknown, operation: Members): unknown {
  const path = pointer(operation.path)
  switch (operation.op) {
    case 'add':
      return edit(document, path, 'add', operation.value)
    case 'replace':
      return edit(document, path, 'replace', operation.value)
    case 'remove':
      return edit(document, path, 'remove', undefined)
    case 'test':
      if (!equalJson(valueAt(document, path), operation.value ?? null)) throw unprocessable()
      return document
    case 'copy':
      return edit(document, path, 'add', valueAt(document, pointer(operation.from)))
    case 'move': {
      const from = pointer(operation.from)
      const value = valueAt(document, from)
      return edit(edit(document, from, 'remove', undefined), path, 'add', value)
    }
    default:
      throw unprocessable()
  }
}

type Edit = 'add' | 'replace' | 'remove'

/** The container with one thing in it changed; only what lies on the path is copied. */
function edit(container: unknown, path: readonly string[], how: Edit, value: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return how === 'remove' ? {} : value
  if (Array.isArray(container)) return editList(container, step, rest, how, value)
  if (!isObject(container)) throw unprocessable()
  const present = Object.hasOwn(container, step)
  if (!present && (rest.length > 0 || how !== 'add')) throw unprocessable()
  if (rest.length > 0) return { ...container, [step]: edit(container[step], rest, how, value) }
  if (how !== 'remove') return { ...container, [step]: value }
  const { [step]: _removed, ...left } = container
  return left
}

function editList(
  items: readonly unknown[],
  step: string,
  rest: readonly string[],
  how: Edit,
  value: unknown,
): unknown {
  const index =
    step === '-' && how === 'add' && rest.length === 0
      ? items.length
      : indexIn(items, step, how === 'add' && rest.length === 0)
  if (rest.length > 0) return items.with(index, edit(items[index], rest, how, value))
  if (how === 'add') return items.toSpliced(index, 0, value)
  return how === 'remove' ? items.toSpliced(index, 1) : items.with(index, value)
}

function valueAt(document: unknown, path: readonly string[]): unknown {
  let value = document
  for (const step of path) {
    if (Array.isArray(value)) value = value[indexIn(value, step, false)]
    else if (isObject(value) && Object.hasOwn(value, step)) value = value[step]
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

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
