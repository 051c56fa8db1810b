import { apiVersionOf, isRecord } from '../kube/resources.ts'
import { type FieldSet, noFields, union, without } from './field-set.ts'
import type { Draft, Kind } from './kind.ts'
import type { Manager } from './managed-fields.ts'
import { MAX_ANNOTATION_BYTES } from './object-meta.ts'
import type { StoredObject } from './store.ts'
import { compare, fieldsOf } from './typed-fields.ts'

/** The annotation in which `kubectl apply` records what it has applied. */
const ANNOTATION = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * The fields that a client-side `kubectl apply` set and nobody has changed since. An apply by kubectl causes no
 * conflict in these fields (upstream's lastAppliedManager). Empty if `manager`, which applies, is not kubectl.
 */
export function lastAppliedFields(kind: Kind, live: StoredObject, manager: Manager): FieldSet {
  if (manager.name !== 'kubectl') return noFields
  const last = parsed(live.metadata.annotations?.[ANNOTATION])
  if (!isRecord(last) || last.apiVersion !== apiVersionOf(kind.resource)) return noFields
  const { added, modified, removed } = compare(last, live, kind.schema)
  return without(fieldsOf(last, kind.schema), union(union(added, modified), removed))
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '')
  } catch {
    return undefined
  }
}

/**
 * Records `sent` in the annotation, if `manager` is kubectl and the draft already has the annotation (upstream's
 * lastAppliedUpdater). Removes the annotation if all annotations together would exceed their limit.
 */
export function withLastApplied(draft: Draft, sent: Draft, manager: Manager): Draft {
  if (manager.name !== 'kubectl') return draft
  const annotations = (draft.metadata?.annotations ?? {}) as Readonly<Record<string, string>>
  if (!annotations[ANNOTATION]) return draft
  const { [ANNOTATION]: _last, ...others } = annotations
  const given = sent.metadata?.annotations
  const { [ANNOTATION]: _given, ...ownAnnotations } = given ?? {}
  const metadata = given === undefined ? sent.metadata : { ...sent.metadata, annotations: ownAnnotations }
  const next = { ...others, [ANNOTATION]: encoded({ ...sent, metadata }) }
  const bytes = Object.entries(next).reduce((sum, [key, value]) => sum + Buffer.byteLength(key + value), 0)
  return { ...draft, metadata: { ...draft.metadata, annotations: bytes > MAX_ANNOTATION_BYTES ? others : next } }
}

/** JSON as Go's encoder writes it: with sorted members, escapes for HTML and a final newline. */
function encoded(object: object): string {
  const text = JSON.stringify(sorted(object))
  return `${text.replaceAll(/[<>&\u2028\u2029]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((key) => [key, sorted(value[key])]),
  )
}
