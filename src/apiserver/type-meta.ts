import { apiVersionOf, isRecord } from '../kube/resources.ts'
import type { Kind } from './kind.ts'
import { badRequest, cutText, FieldErrors } from './refusal.ts'

/** The length of a body's summary at the end of a refusal, in characters. */
const MAX_SUMMARY = 30

/**
 * Checks kind and apiVersion of a custom resource that a client creates or replaces, as upstream does. Both are
 * required, because no Go type implies them.
 * @throws Refusal 400 or 422
 */
export function checkTypeOfBody(kind: Kind, body: unknown): void {
  if (kind.isCustom !== true || !isRecord(body)) return
  const { resource } = kind
  const { apiVersion = '' } = body
  if (!body.kind) {
    const text = JSON.stringify(body)
    const summary = text.length > MAX_SUMMARY ? `${text.slice(0, MAX_SUMMARY)} ...` : text
    throw badRequest(
      `the object provided is unrecognized (must be of type ${resource.kind}): ${missingKind(body)} (${summary})`,
    )
  }
  const expected = apiVersionOf(resource)
  if (apiVersion !== expected) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${expected})`,
    )
  }
  checkPatchedType(kind, body)
}

/** As {@link checkTypeOfBody}, for a custom resource after a patch. @throws Refusal 422 */
export function checkPatchedType(kind: Kind, patched: unknown): void {
  if (kind.isCustom !== true || !isRecord(patched)) return
  const { resource } = kind
  const errors = new FieldErrors()
  if (!patched.kind) errors.invalid('patch', JSON.stringify(patched), missingKind(patched))
  errors.refuse({ kind: '', group: '' }, '')
  const name = isRecord(patched.metadata) ? textOf(patched.metadata.name) : ''
  const expected = { apiVersion: apiVersionOf(resource), kind: resource.kind }
  for (const field of ['apiVersion', 'kind'] as const) {
    if (patched[field] !== expected[field]) errors.invalid(field, patched[field] ?? '', `must be ${expected[field]}`)
  }
  const [group = '', version] = textOf(patched.apiVersion).split('/')
  errors.refuse({ kind: textOf(patched.kind), group: version === undefined ? '' : group }, name)
}

/** The text, cut to the limit of a refusal; empty for a value of another type, which a patch may have set. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? cutText(value) : ''
}

function missingKind(body: object): string {
  return `Object 'Kind' is missing in '${JSON.stringify(body)}'`
}
