/**
 * The type of a value in an object: enough to refuse wrong types, to leave out what Go's `omitempty` leaves out, and to
 * record the owner of each field in managedFields. `decode` preserves fields that the schema lacks.
 */
export type Schema = TypedSchema & {
  /** Whether `null` is a value of its own. Otherwise a member that is null is left out. */
  readonly nullable?: boolean
}

type TypedSchema =
  /** `default`: for a list key such as `protocol`, the value that counts if an applied item lacks it. */
  | { readonly type: 'string'; readonly omitEmpty?: boolean; readonly default?: string }
  | { readonly type: 'integer'; readonly omitEmpty?: boolean }
  | { readonly type: 'boolean' | 'time' | 'microTime' | 'integerOrString' }
  /**
   * Any JSON. `granular`: the members of maps in it, at any depth, are owned one by one. `keepsNull`: members that are
   * null are preserved, as in custom resources.
   */
  | { readonly type: 'any'; readonly granular?: true; readonly default?: unknown; readonly keepsNull?: boolean }
  /**
   * A struct. `pointer`: the value is a pointer to a struct, which can be absent, so managedFields records an owner of
   * the pointer itself. `atomic`, here and below: the value is owned as a whole.
   */
  | {
      readonly type: 'object'
      readonly fields: Readonly<Record<string, Schema>>
      /** The schema of members that are not among `fields`, if the object can have any. */
      readonly others?: Schema
      readonly atomic?: boolean
      readonly pointer?: boolean
      /** Members that are not among `fields` are preserved even if they are null. */
      readonly keepsNull?: boolean
    }
  /** Any keys, string values. */
  | { readonly type: 'map'; readonly atomic?: boolean }
  | {
      readonly type: 'list'
      readonly items: Schema
      /** The fields that identify an item; `'value'` for a set of scalars. Left out: the list is owned as a whole. */
      readonly keys?: readonly string[] | 'value'
      /** An empty list is stored, as Go does without `omitempty`. Otherwise an empty list is left out. */
      readonly preserveEmpty?: boolean
    }

/** The schema of a declared field of an object. */
export function fieldOf(schema: Schema | undefined, name: string): Schema | undefined {
  return schema?.type === 'object' && Object.hasOwn(schema.fields, name) ? schema.fields[name] : undefined
}

export const string: Schema = { type: 'string' }
/** A string whose empty value means that it is absent. */
export const optionalString: Schema = { type: 'string', omitEmpty: true }
export const integer: Schema = { type: 'integer' }
/** An integer whose value 0 means that it is absent. */
export const optionalInteger: Schema = { type: 'integer', omitEmpty: true }
export const boolean: Schema = { type: 'boolean' }
export const time: Schema = { type: 'time' }
export const microTime: Schema = { type: 'microTime' }
export const integerOrString: Schema = { type: 'integerOrString' }
export const any: Schema = { type: 'any' }
export const anyWithNull: Schema = { type: 'any', keepsNull: true }
export const map: Schema = { type: 'map' }
export const atomicMap: Schema = { type: 'map', atomic: true }
export const strings: Schema = { type: 'list', items: string }
export const stringSet: Schema = { type: 'list', items: string, keys: 'value' }

/** An ObjectReference, which is owned as a whole. */
export const atomicReference: Schema = { type: 'object', fields: {}, atomic: true }

export function object(fields: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', fields }
}

export function pointer(fields: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', fields, pointer: true }
}

export function list(items: Schema, keys?: readonly string[]): Schema {
  return keys === undefined ? { type: 'list', items } : { type: 'list', items, keys }
}

/** An empty list is preserved: in an update it removes all owners, and a missing list does not. */
export const managedFields: Schema = { type: 'list', items: any, preserveEmpty: true }

const metadataFields = {
  name: optionalString,
  generateName: optionalString,
  namespace: optionalString,
  uid: optionalString,
  resourceVersion: optionalString,
  generation: integer,
  creationTimestamp: time,
  deletionTimestamp: time,
  deletionGracePeriodSeconds: integer,
  labels: map,
  annotations: map,
  finalizers: stringSet,
  ownerReferences: list(
    {
      type: 'object',
      atomic: true,
      fields: {
        apiVersion: string,
        kind: string,
        name: string,
        uid: string,
        controller: boolean,
        blockOwnerDeletion: boolean,
      },
    },
    ['uid'],
  ),
  managedFields,
}

const metadata = object(metadataFields)

/** The names of all fields of metadata in Go. `selfLink` has no schema, because the server drops it. */
export const metadataNames: ReadonlySet<string> = new Set([...Object.keys(metadataFields), 'selfLink'])

export const conditions = list(
  object({ type: string, status: string, reason: string, message: string, lastTransitionTime: time }),
  ['type'],
)

export function kindSchema(fields: Readonly<Record<string, Schema>>): Schema {
  return object({ kind: string, apiVersion: string, metadata, ...fields })
}
