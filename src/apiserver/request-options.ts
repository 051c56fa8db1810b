import { isRecord } from '../kube/resources.ts'
import type { ApiRequest } from '../kube/transport.ts'
import { GoTypeError } from '../protobuf/go-decode.ts'
import { decode } from './decode.ts'
import { isPrintable } from './go-text.ts'
import type { Manager } from './managed-fields.ts'
import { flag, parameter } from './query.ts'
import { badRequest, FieldErrors } from './refusal.ts'
import * as s from './schema.ts'
import type { DeleteRequest, WriteOptions } from './writes.ts'

const writeKinds: Readonly<Partial<Record<ApiRequest['method'], string>>> = {
  POST: 'CreateOptions',
  PUT: 'UpdateOptions',
  PATCH: 'PatchOptions',
}
const MAX_MANAGER_BYTES = 128
const fieldValidations = ['', 'Ignore', 'Strict', 'Warn']

/** Reads the options of a create, update, patch or apply from its query and headers. @throws Refusal 422 */
export function writeOptions({ method, query, headers }: ApiRequest, operation: Manager['operation']): WriteOptions {
  const manager = parameter(query, 'fieldManager') ?? ''
  const dryRun = query.flatMap(([name, value]) => (name === 'dryRun' ? [value] : []))
  const fieldValidation = parameter(query, 'fieldValidation') ?? ''
  const errors = new FieldErrors()
  if (operation === 'Apply' && manager === '') errors.required('fieldManager', 'is required for apply patch')
  if (method === 'PATCH' && operation === 'Update' && flag(query, 'force') !== undefined) {
    errors.forbidden('force', 'may not be specified for non-apply patch')
  }
  checkManager(manager, errors)
  checkDryRun(dryRun, errors)
  if (!fieldValidations.includes(fieldValidation)) {
    errors.notSupported('fieldValidation', fieldValidation, fieldValidations)
  }
  errors.refuse({ kind: writeKinds[method] ?? '', group: 'meta.k8s.io' }, '')
  const name = manager || printable(headers['user-agent']?.split('/')[0] ?? '') || 'unknown'
  return { manager: { name, operation }, dryRun: dryRun.includes('All') }
}

/** metav1's ValidateFieldManager. */
function checkManager(manager: string, errors: FieldErrors): void {
  if (Buffer.byteLength(manager) > MAX_MANAGER_BYTES) errors.tooLong('fieldManager', MAX_MANAGER_BYTES)
  let position = 0
  for (const character of manager) {
    if (!isPrintable(character)) {
      const code = `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
      errors.invalid('fieldManager', manager, `invalid character ${code} (at position ${position})`)
    }
    position += Buffer.byteLength(character)
  }
}

/** The part of a text that can be the name of a manager: its printable characters, at most 128 bytes of them. */
function printable(text: string): string {
  let name = ''
  for (const character of text) {
    if (!isPrintable(character)) continue
    if (Buffer.byteLength(name + character) > MAX_MANAGER_BYTES) break
    name += character
  }
  return name
}

const deleteOptions = s.object({
  kind: s.string,
  apiVersion: s.string,
  preconditions: s.pointer({ uid: s.string, resourceVersion: s.string }),
  gracePeriodSeconds: s.integer,
  orphanDependents: s.boolean,
  propagationPolicy: s.string,
  dryRun: s.strings,
})

interface DeleteOptions {
  readonly kind?: string
  readonly apiVersion?: string
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string }
  readonly gracePeriodSeconds?: number | undefined
  readonly orphanDependents?: boolean | undefined
  readonly propagationPolicy?: string | undefined
  readonly dryRun?: readonly string[]
}

const policies = ['Foreground', 'Background', 'Orphan', 'nil']

/** Reads the options of a deletion from the body or, without a body, from the query. @throws Refusal 400 or 422 */
export function deleteRequest({ body, query }: ApiRequest): DeleteRequest {
  const options = body === undefined ? parametersOf(query) : bodyOf(body)
  const { preconditions, propagationPolicy: policy, orphanDependents, dryRun = [], gracePeriodSeconds: grace } = options
  const errors = new FieldErrors()
  if (orphanDependents !== undefined && policy !== undefined) {
    errors.invalid('propagationPolicy', policy, 'orphanDependents and deletionPropagation cannot be both set')
  }
  if (policy !== undefined && !policies.slice(0, 3).includes(policy)) {
    errors.notSupported('propagationPolicy', policy, policies)
  }
  checkDryRun(dryRun, errors)
  errors.refuse({ kind: 'DeleteOptions', group: 'meta.k8s.io' }, '')
  const chosen = orphanDependents === undefined ? policy : orphanDependents ? 'Orphan' : 'Background'
  return {
    uid: preconditions?.uid,
    resourceVersion: preconditions?.resourceVersion,
    // Like upstream's BeforeDelete, replaces a negative period by one second.
    gracePeriodSeconds: grace !== undefined && grace < 0 ? 1 : grace,
    propagation: chosen as DeleteRequest['propagation'],
    dryRun: dryRun.includes('All'),
  }
}

/** @throws Refusal 400 */
function bodyOf(body: unknown): DeleteOptions {
  if (!isRecord(body)) throw badRequest('the object provided is unrecognized (must be of type DeleteOptions)')
  let options: DeleteOptions
  try {
    options = decode(body, deleteOptions) as DeleteOptions
  } catch (error) {
    throw error instanceof GoTypeError ? badRequest(`the body must be DeleteOptions: ${error.message}`) : error
  }
  const { kind = 'DeleteOptions', apiVersion = 'v1' } = options
  if (kind !== 'DeleteOptions') {
    const type = `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)}`
    throw badRequest(`${type} in scheme "pkg/runtime/scheme.go:111"`)
  }
  checkGrace(options.gracePeriodSeconds)
  return options
}

/** @throws Refusal 400 */
function parametersOf(query: ApiRequest['query']): DeleteOptions {
  const grace = parameter(query, 'gracePeriodSeconds')
  if (grace !== undefined && !/^[+-]?\d+$/.test(grace)) {
    throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(grace)}: invalid syntax`)
  }
  const gracePeriodSeconds = grace === undefined ? undefined : Number(grace)
  checkGrace(gracePeriodSeconds)
  return {
    gracePeriodSeconds,
    orphanDependents: flag(query, 'orphanDependents'),
    propagationPolicy: parameter(query, 'propagationPolicy'),
    dryRun: query.flatMap(([name, value]) => (name === 'dryRun' ? [value] : [])),
  }
}

/** Refuses a period of more than ten digits. The end of a much longer period has no valid date. @throws Refusal 400 */
function checkGrace(seconds: number | undefined): void {
  if (seconds !== undefined && seconds >= 1e10) throw badRequest('gracePeriodSeconds must have at most ten digits')
}

function checkDryRun(values: readonly string[], errors: FieldErrors): void {
  if (values.some((value) => value !== 'All')) errors.notSupported('dryRun', values, ['All'])
}
