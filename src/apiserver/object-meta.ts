import { apiVersionOf, isRecord, type ObjectMeta } from '../kube/resources.ts'
import { GoTypeError } from '../protobuf/go-decode.ts'
import type { Clock } from '../runtime/clock.ts'
import { type Random, randomSuffix, randomUuid } from '../runtime/random.ts'
import { formatTime } from '../runtime/time-format.ts'
import { decode } from './decode.ts'
import { type Draft, type Kind, listMember, member } from './kind.ts'
import { dnsSubdomainFault, labelKeyFault, labelValueFault } from './names.ts'
import { badRequest, cannotDecode, type FieldErrors, isOfResource } from './refusal.ts'
import type { StoredObject } from './store.ts'

/** metav1's limit on all annotations of an object together, in bytes of UTF-8. */
export const MAX_ANNOTATION_BYTES = 256 * 1024

type StoredMeta = StoredObject['metadata']

type UpdatedMeta = ObjectMeta & Pick<StoredMeta, 'deletionGracePeriodSeconds'>

/** Reads a body as an object of this kind, with the kind's defaults. @throws Refusal 400 */
export function readDraft(kind: Kind, body: unknown): Draft {
  const draft = readBody(kind, body)
  return kind.withDefaults?.(draft) ?? draft
}

/** As {@link readDraft}, but without the defaults. @throws Refusal 400 */
export function readBody(kind: Kind, body: unknown): Draft {
  if (!isRecord(body)) {
    throw badRequest(`the object provided is unrecognized (must be of type ${kind.resource.kind})`)
  }
  let draft: Draft
  try {
    draft = decode(body, kind.schema) as Draft
  } catch (error) {
    throw error instanceof GoTypeError ? cannotDecode(kind.resource, error.message) : error
  }
  if (!isOfResource(draft, kind.resource)) {
    const given = `${draft.apiVersion ?? apiVersionOf(kind.resource)}, Kind=${draft.kind ?? kind.resource.kind}`
    throw badRequest(`${given} cannot be handled as a ${kind.resource.kind}`)
  }
  return draft
}

/**
 * Refuses a body that names another object than the path does. The body may leave out the name and the namespace.
 * @throws Refusal 400
 */
export function checkTarget(draft: Draft, namespace: string | undefined, name: string | undefined): void {
  const meta = draft.metadata
  if (name !== undefined && meta?.name !== undefined && meta.name !== name) {
    throw badRequest(`the name of the object (${meta.name}) does not match the name on the URL (${name})`)
  }
  if (meta?.namespace !== undefined && meta.namespace !== (namespace ?? '')) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request')
  }
}

/**
 * The metadata of a new object, without managedFields. Fields that only the server sets are dropped or replaced. If the
 * body has only a `generateName`, the name is generated. If it has neither, the result has no name.
 */
export function metaForCreate(
  draft: Draft,
  namespace: string | undefined,
  { clock, random }: { readonly clock: Clock; readonly random: Random },
): ObjectMeta {
  const {
    deletionTimestamp: _deletion,
    selfLink: _link,
    deletionGracePeriodSeconds: _grace,
    resourceVersion: _version,
    managedFields: _managers,
    name,
    generateName,
    namespace: _namespace,
    ...given
  } = (draft.metadata ?? {}) as ObjectMeta & {
    readonly selfLink?: string
    readonly deletionGracePeriodSeconds?: number
  }
  const chosen = name ?? (generateName === undefined ? undefined : generateName.slice(0, 58) + randomSuffix(random, 5))
  return {
    ...(chosen === undefined ? {} : { name: chosen }),
    ...(generateName === undefined ? {} : { generateName }),
    ...(namespace === undefined ? {} : { namespace }),
    ...given,
    uid: randomUuid(random),
    creationTimestamp: formatTime(clock.wallMs()),
  }
}

/**
 * The metadata of an updated object, without managedFields. Its resourceVersion, generation and creation time are those
 * of `live`. {@link validateMeta} refuses changes of the other fields that clients must not change.
 */
export function metaForUpdate(draft: Draft, live: StoredObject): StoredMeta {
  const {
    selfLink: _link,
    generation: _generation,
    resourceVersion: _version,
    creationTimestamp: _created,
    managedFields: _managers,
    ...given
  } = (draft.metadata ?? {}) as Partial<StoredMeta> & { readonly selfLink?: string }
  return { ...withoutOwnable(live.metadata), ...given }
}

/** The metadata without managedFields, and without the fields that managers can own. */
export function withoutOwnable(metadata: StoredMeta): StoredMeta {
  const {
    labels: _labels,
    annotations: _annotations,
    finalizers: _finalizers,
    ownerReferences: _owners,
    generateName: _generateName,
    managedFields: _entries,
    ...fixed
  } = metadata
  return fixed
}

/** Checks metadata by the rules for all kinds. `live` is the stored object; undefined at a create. */
export function validateMeta(kind: Kind, draft: Draft, errors: FieldErrors, live: StoredObject | undefined): void {
  const meta = draft.metadata ?? {}
  if (live === undefined) {
    const { nameFault = dnsSubdomainFault } = kind
    if (meta.name === undefined) errors.required('metadata.name', 'name or generateName is required')
    else errors.invalid('metadata.name', meta.name, nameFault(meta.name))
  } else {
    checkUnchanged(meta, live.metadata, errors)
  }
  validateLabels(meta, errors)
  validateOwners(draft, errors)
  validateFinalizers(kind, meta, errors)
}

function validateFinalizers(kind: Kind, { finalizers = [] }: ObjectMeta, errors: FieldErrors): void {
  const path = 'metadata.finalizers'
  for (const [index, finalizer] of finalizers.entries()) {
    // Upstream accepts any label key as a finalizer of a custom kind. A finalizer of a built-in kind must have a domain
    // or be a standard one.
    if (kind.isCustom === true) errors.invalid(path, finalizer, labelKeyFault(finalizer))
    else if (!isFinalizer(finalizer)) {
      const why = 'name is neither a standard finalizer name nor is it fully qualified'
      errors.invalid(`${path}[${index}]`, finalizer, why)
    }
  }
}

function checkUnchanged(meta: UpdatedMeta, live: StoredMeta, errors: FieldErrors): void {
  // Upstream compares the uid twice: in the rules for objects of all kinds, and in the rules for the kind.
  const fields = ['name', 'namespace', 'uid', 'uid', 'deletionTimestamp', 'deletionGracePeriodSeconds'] as const
  for (const field of fields) {
    if (meta[field] !== live[field]) errors.invalid(`metadata.${field}`, meta[field] ?? null, 'field is immutable')
  }
  if (live.deletionTimestamp === undefined) return
  // A set, because comparing each of a hundred thousand finalizers with all others would take too long.
  const present = new Set(live.finalizers)
  const added = (meta.finalizers ?? []).filter((finalizer) => !present.has(finalizer))
  if (added.length > 0) {
    const list = added.map((finalizer) => JSON.stringify(finalizer)).join(', ')
    errors.forbidden(
      'metadata.finalizers',
      `no new finalizers can be added if the object is being deleted, found new finalizers []string{${list}}`,
    )
  }
}

function validateLabels(meta: ObjectMeta, errors: FieldErrors): void {
  for (const [key, value] of Object.entries(meta.labels ?? {})) {
    errors.invalid('metadata.labels', key, labelKeyFault(key))
    errors.invalid('metadata.labels', value, labelValueFault(value))
  }
  let bytes = 0
  for (const [key, value] of Object.entries(meta.annotations ?? {})) {
    errors.invalid('metadata.annotations', key, labelKeyFault(key.toLowerCase()))
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value)
  }
  if (bytes > MAX_ANNOTATION_BYTES)
    errors.invalid('metadata.annotations', '', `may not be more than ${MAX_ANNOTATION_BYTES} bytes`)
}

function validateOwners(draft: Draft, errors: FieldErrors): void {
  const path = 'metadata.ownerReferences'
  let controllers = 0
  for (const owner of listMember(member(draft, 'metadata'), 'ownerReferences')) {
    if (!owner.apiVersion) errors.invalid(`${path}.apiVersion`, '', 'version must not be empty')
    for (const field of ['kind', 'name', 'uid']) {
      if (!owner[field]) errors.invalid(`${path}.${field}`, '', 'must not be empty')
    }
    if (owner.controller === true) controllers++
  }
  if (controllers > 1) errors.invalid(path, controllers, 'Only one reference can have Controller set to true')
}

function isFinalizer(name: string): boolean {
  if (name === 'orphan' || name === 'foregroundDeletion' || name === 'kubernetes') return true
  return name.includes('/') && labelKeyFault(name) === undefined
}
