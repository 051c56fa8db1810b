import { apiVersionOf, type KubeObject, qualifiedPlural, type Resource } from '../kube/resources.ts'
import type { ApiResponse } from '../kube/transport.ts'
import { goQuoted } from './go-text.ts'

/** Why one field of an object is refused: a cause in a Status. */
interface Cause {
  readonly reason: string
  readonly message: string
  readonly field: string
}

interface StatusDetails {
  readonly name?: string
  readonly group?: string
  readonly kind?: string
  readonly uid?: string
  readonly causes?: readonly Partial<Cause>[]
  readonly retryAfterSeconds?: number
}

/**
 * How long parts of a refusal may be, in characters. A refusal quotes what the client sent. Without limits, a refusal
 * could repeat the whole body for each of a thousand items.
 */
const MAX_VALUE_LENGTH = 16 * 1024
const MAX_MESSAGE_LENGTH = 64 * 1024
const MAX_CAUSES_LENGTH = 64 * 1024

/** A text from a request, cut to the length that a refusal may quote. */
export function cutText(text: string, limit = MAX_VALUE_LENGTH): string {
  return text.length > limit ? `${text.slice(0, limit)}...` : text
}

/** The answer to a refused request: an HTTP status and a Status body in kube-apiserver's words. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly httpStatus: number
  readonly body: Readonly<Record<string, unknown>>

  constructor(httpStatus: number, reason: string, message: string, details?: StatusDetails, metadata: object = {}) {
    const text = cutText(message, MAX_MESSAGE_LENGTH)
    super(text)
    this.httpStatus = httpStatus
    this.body = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata,
      status: 'Failure',
      message: text,
      ...(reason === '' ? {} : { reason }),
      ...(details === undefined ? {} : { details }),
      code: httpStatus,
    }
  }
}

/** The answer that a client gets, with a Retry-After header if the refusal names a time. */
export function answerOf({ httpStatus, body }: Refusal): Extract<ApiResponse, { body: unknown }> {
  const { retryAfterSeconds } = (body.details ?? {}) as StatusDetails
  const retryAfter = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
  return { status: httpStatus, headers: { 'content-type': 'application/json', ...retryAfter }, body }
}

/** The Status after a successful delete that does not return the deleted object. */
export function successStatus(resource: Resource<KubeObject>, name: string, uid: string): object {
  const details = { ...detailsOf(resource, name), uid }
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }
}

export function badRequest(message: string): Refusal {
  return new Refusal(400, 'BadRequest', message)
}

/** A body that cannot be decoded: a field has the wrong type or, with strict validation, is unknown. */
export function cannotDecode(resource: Resource<KubeObject>, what: string): Refusal {
  const { kind, version } = resource
  return badRequest(`${kind} in version "${version}" cannot be handled as a ${kind}: ${what}`)
}

export function notFound(resource: Resource<KubeObject>, name: string): Refusal {
  return new Refusal(404, 'NotFound', `${titleOf(resource, name)} not found`, detailsOf(resource, name))
}

export function noSuchPath(): Refusal {
  return new Refusal(404, 'NotFound', 'the server could not find the requested resource', {})
}

export function methodNotAllowed(): Refusal {
  return new Refusal(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource', {})
}

/** As {@link methodNotAllowed} for a custom resource, in the words of apimachinery's NewMethodNotSupported. */
export function notSupported(resource: Resource<KubeObject>, verb: string): Refusal {
  const message = `${verb} is not supported on resources of kind ${JSON.stringify(qualifiedPlural(resource))}`
  return new Refusal(405, 'MethodNotAllowed', message, { ...groupOf(resource), kind: resource.plural })
}

export function unsupportedMediaType(): Refusal {
  return new Refusal(415, 'UnsupportedMediaType', '415: Unsupported Media Type', {})
}

export function notAcceptable(): Refusal {
  return new Refusal(406, 'NotAcceptable', 'only the following media types are accepted: application/json', {})
}

/** The client asked for the metadata of a single object, but the answer is a list, or the reverse. */
export function notInThisForm(form: string, what: string): Refusal {
  return new Refusal(406, 'NotAcceptable', `you requested ${form}, but the requested object is ${what}`)
}

export function unauthorized(): Refusal {
  return new Refusal(401, 'Unauthorized', 'Unauthorized')
}

export function entityTooLarge(limit: number): Refusal {
  return new Refusal(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${limit}`)
}

export function tooManyOperations(limit: number, count: number): Refusal {
  const message = `Request entity too large: The allowed maximum operations in a JSON patch is ${limit}, got ${count}`
  return new Refusal(413, 'RequestEntityTooLarge', message, {})
}

export function tooManyRequests(): Refusal {
  const message = 'Too many requests, please try again later.'
  return new Refusal(429, 'TooManyRequests', message, { retryAfterSeconds: 1 })
}

export function unknownBodyFormat(
  accepted = 'application/json, application/yaml, application/vnd.kubernetes.protobuf',
): Refusal {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted}`
  return new Refusal(415, 'UnsupportedMediaType', message)
}

/** Strategic merge patches need the tags of Go types, which custom resources do not have. */
export function noStrategicPatch(): Refusal {
  return unknownBodyFormat('application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml')
}

export function alreadyExists(resource: Resource<KubeObject>, name: string): Refusal {
  return new Refusal(409, 'AlreadyExists', `${titleOf(resource, name)} already exists`, detailsOf(resource, name))
}

function conflict(resource: Resource<KubeObject>, name: string, why: string): Refusal {
  const message = `Operation cannot be fulfilled on ${titleOf(resource, name)}: ${why}`
  return new Refusal(409, 'Conflict', message, detailsOf(resource, name))
}

export function resourceVersionConflict(resource: Resource<KubeObject>, name: string): Refusal {
  const why = 'the object has been modified; please apply your changes to the latest version and try again'
  return conflict(resource, name, why)
}

/** An update names a uid, but the stored object has another one (`live`), or there is no object (`live` is empty). */
export function uidConflict(resource: Resource<KubeObject>, name: string, uid: string, live: string): Refusal {
  return conflict(resource, name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${live}`)
}

/** An applied object names a uid, but no such object exists. */
export function uidOfNothing(resource: Resource<KubeObject>, name: string, uid: string): Refusal {
  const why = `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`
  return conflict(resource, name, why)
}

/** A precondition of a delete is not met. kube-apiserver names the kind here, not the resource. */
export function preconditionFailed(resource: Resource<KubeObject>, name: string, why: string): Refusal {
  const message = `Operation cannot be fulfilled on ${qualifiedKind(resource)} ${JSON.stringify(name)}: ${why}`
  return new Refusal(409, 'Conflict', message, { ...detailsOf(resource, name), kind: resource.kind })
}

export function forbidden(
  resource: Resource<KubeObject>,
  name: string,
  why: string,
  causes?: readonly Cause[],
): Refusal {
  const details = { ...detailsOf(resource, name), ...(causes === undefined ? {} : { causes }) }
  return new Refusal(403, 'Forbidden', `${titleOf(resource, name)} is forbidden: ${why}`, details)
}

/**
 * An object or an option of a request breaks a rule. `qualified` is the kind with its group. `name` is empty if there
 * is none.
 */
export function invalid(qualified: { kind: string; group: string }, name: string, causes: readonly Cause[]): Refusal {
  const lines = [...new Set(causes.map((cause) => `${cause.field}: ${cause.message}`))]
  const list = lines.length === 1 ? lines[0] : `[${lines.join(', ')}]`
  const shownName = cutText(name)
  const named = { ...(name === '' ? {} : { name: shownName }), ...groupOf(qualified) }
  const details = { ...named, ...(qualified.kind === '' ? {} : { kind: qualified.kind }), causes }
  return new Refusal(
    422,
    'Invalid',
    `${qualifiedKind(qualified)} ${JSON.stringify(shownName)} is invalid: ${list}`,
    details,
  )
}

/** A patch that does not apply. */
export function unprocessable(): Refusal {
  return new Refusal(422, 'Invalid', 'the server rejected our request due to an error in our request', {})
}

/** The requested history has been compacted. */
export function expired(message: string, metadata?: object): Refusal {
  return new Refusal(410, 'Expired', message, undefined, metadata)
}

export function resourceVersionTooLarge(wanted: string, current: number): Refusal {
  return new Refusal(504, 'Timeout', `Timeout: Too large resource version: ${wanted}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  })
}

/** An internal error whose Status has no reason in kube-apiserver. */
export function internalError(message: string): Refusal {
  return new Refusal(500, '', message)
}

/** As {@link internalError} with a reason, in the words of apimachinery's NewInternalError. */
export function internalErrorOccurred(what: string): Refusal {
  return new Refusal(500, 'InternalError', `Internal error occurred: ${what}`, { causes: [{ message: what }] })
}

/** The kind with its group, such as `Service` or `Lease.coordination.k8s.io`. */
export function qualifiedKind({ kind, group }: { readonly kind: string; readonly group: string }): string {
  return group === '' ? kind : `${kind}.${group}`
}

/** The group, version and kind as kube-apiserver's messages write them: `/v1, Kind=Pod`. */
export function groupVersionKind(apiVersion: string, kind: string): string {
  return apiVersion === '' ? `/, Kind=${kind}` : `${apiVersion.includes('/') ? '' : '/'}${apiVersion}, Kind=${kind}`
}

/** Whether `apiVersion` and `kind`, if given, are those of the resource. */
export function isOfResource(object: KubeObject, resource: Resource<KubeObject>): boolean {
  return (
    (object.kind === undefined || object.kind === resource.kind) &&
    (object.apiVersion === undefined || object.apiVersion === apiVersionOf(resource))
  )
}

function titleOf(resource: Resource<KubeObject>, name: string): string {
  return `${qualifiedPlural(resource)} ${JSON.stringify(name)}`
}

function detailsOf(resource: Resource<KubeObject>, name: string): StatusDetails {
  return { name, ...groupOf(resource), kind: resource.plural }
}

function groupOf(resource: { readonly group: string }): { readonly group?: string } {
  return resource.group === '' ? {} : { group: resource.group }
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? goQuoted(cutText(value)) : cutText(String(JSON.stringify(value)))
}

/**
 * Collects the faults of an object, field by field, in the words of apimachinery's `field.Error`. Once the faults
 * exceed the length of a refusal, further faults are dropped.
 */
export class FieldErrors {
  readonly causes: Cause[] = []
  #length = 0

  /** @throws Refusal 422 if there are faults: see {@link invalid} */
  refuse(qualified: { kind: string; group: string }, name: string): void {
    if (this.causes.length > 0) throw invalid(qualified, name, this.causes)
  }

  required(field: string, detail?: string): void {
    this.#add('FieldValueRequired', field, () => `Required value${detail === undefined ? '' : `: ${detail}`}`)
  }

  /** `fault` is what is wrong with the value; undefined: nothing. */
  invalid(field: string, value: unknown, fault: string | undefined): void {
    if (fault === undefined) return
    this.#add('FieldValueInvalid', field, () => `Invalid value: ${valueText(value)}: ${fault}`)
  }

  notSupported(field: string, value: unknown, supported: readonly string[]): void {
    this.#add('FieldValueNotSupported', field, () => {
      const values = supported.map((text) => JSON.stringify(text)).join(', ')
      return `Unsupported value: ${valueText(value)}: supported values: ${values}`
    })
  }

  notFound(field: string, value: unknown): void {
    this.#add('FieldValueNotFound', field, () => `Not found: ${valueText(value)}`)
  }

  duplicate(field: string, value: unknown): void {
    this.#add('FieldValueDuplicate', field, () => `Duplicate value: ${valueText(value)}`)
  }

  forbidden(field: string, detail: string): void {
    this.#add('FieldValueForbidden', field, () => `Forbidden: ${detail}`)
  }

  tooLong(field: string, limitBytes: number): void {
    this.#add('FieldValueTooLong', field, () => `Too long: may not be more than ${limitBytes} bytes`)
  }

  tooMany(field: string, count: number, limit: number): void {
    this.#add('FieldValueTooMany', field, () => `Too many: ${count}: must have at most ${limit} items`)
  }

  #add(reason: string, field: string, message: () => string): void {
    if (this.#length > MAX_CAUSES_LENGTH) return
    const cause = { reason, message: cutText(message(), 2 * MAX_VALUE_LENGTH), field: cutText(field) }
    this.#length += cause.message.length + cause.field.length
    this.causes.push(cause)
  }
}
