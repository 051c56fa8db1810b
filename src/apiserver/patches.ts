import { jsonPatch, mergePatch } from './json-patch.ts'
import { badRequest, unsupportedMediaType } from './refusal.ts'
import type { StoredObject } from './store.ts'

/** The kinds of patch that are served, by media type. */
export type PatchType = 'merge' | 'json' | 'apply'

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
