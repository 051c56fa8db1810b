/**
 * What is known of a kind's fields: enough to refuse wrong types, to leave out what Go's `omitempty` leaves out, and to own
 * fields one by one. Fields that no schema names are carried along as they are.
 */
export type Schema =
  | { readonly type: 'string'; readonly omitEmpty?: boolean }
  | { readonly type: 'integer' | 'boolean' | 'time' | 'microTime' | 'integerOrString' | 'any' }
  /** A struct. */
  | { readonly type: 'object'; readonly fields: Readonly<Record<string, Schema>>; readonly atomic?: boolean }
  /** Any keys, string values. */
  | { readonly type: 'map'; readonly atomic?: boolean }
  | {
      readonly type: 'list'
      readonly items: Schema
      /** The fields that identify an item; `'value'` for a set of scalars. Left out: the list is owned as a whole. */
      readonly keys?: readonly string[] | 'value'
      /** Written as `[]` and `null` even when empty, as Go does without `omitempty`. */
      readonly keepEmpty?: boolean
    }

export const string: Schema = { type: 'string' }
/** A string whose empty value means that it is absent. */
export const optionalString: Schema = { type: 'string', omitEmpty: true }
export const integer: Schema = { type: 'integer' }
export const boolean: Schema = { type: 'boolean' }
export const time: Schema = { type: 'time' }
export const microTime: Schema = { type: 'microTime' }
export const integerOrString: Schema = { type: 'integerOrString' }
export const any: Schema = { type: 'any' }
export const map: Schema = { type: 'map' }
export const atomicMap: Schema = { type: 'map', atomic: true }
export const strings: Schema = { type: 'list', items: string }
export const stringSet: Schema = { type: 'list', items: string, keys: 'value' }

export function object(fields: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', fields }
}

export function list(items: Schema, keys?: readonly string[]): Schema {
  return keys === undefined ? { type: 'list', items } : { type: 'list', items, keys }
}

/** What every object's `metadata` is. */
export const metadata = object({
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
    object({
      apiVersion: string,
      kind: string,
      name: string,
      uid: string,
      controller: boolean,
      blockOwnerDeletion: boolean,
    }),
    ['uid'],
  ),
  managedFields: list(any),
})

/** A metav1.Condition list, as most statuses have one. */
export const conditions = list(
  object({ type: string, status: string, reason: string, message: string, lastTransitionTime: time }),
  ['type'],
)

/** The schema of a kind from its own fields. */
export function kindSchema(fields: Readonly<Record<string, Schema>>): Schema {
  return object({ kind: string, apiVersion: string, metadata, ...fields })
}
