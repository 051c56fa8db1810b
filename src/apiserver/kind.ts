import type { KubeObject, Resource } from '../kube/resources.ts'
import type { Column } from './columns.ts'
import type { FieldErrors } from './refusal.ts'
import type { FieldGetters } from './selectors.ts'
import type { Conversion, StoredObject } from './store.ts'

/** An incoming object: decoded and frozen, but not yet in its stored form. */
export type Draft = Readonly<Record<string, unknown>> & KubeObject

/** Resources that a write needs beside the object itself, such as an address. */
export interface Reservation {
  readonly object: Draft
  /** Takes the reservation. Called after all checks, just before the object is stored. */
  readonly take: () => void
}

/** The specifics of one kind; the rest of the server knows no kind by name. */
export interface Kind {
  readonly resource: Resource<KubeObject>
  readonly singular: string
  readonly shortNames?: readonly string[]
  /** Names for several kinds together: `kubectl get all`. */
  readonly categories?: readonly string[]
  /** The text of a Warning header of every answer. */
  readonly deprecation?: string
  /** The object without the fields that the kind does not have, and their paths. @default by the Go type */
  readonly withoutUnknown?: (object: Draft) => { readonly known: object; readonly unknown: readonly string[] }
  /** The texts of Warning headers for a client that writes such an object. */
  readonly warnings?: (object: Draft) => readonly string[]
  /** What `kubectl get` prints. @default its name and age */
  readonly columns?: readonly Column[]
  readonly schema: Schema
  /** Its objects are those of another kind with the same plural, which this one shows in another form. */
  readonly storedAs?: Conversion
  /** Objects are answered, not stored: the answer to one that is created. Nothing else can be done with them. */
  readonly review?: (draft: Draft) => Draft
  /** The API group in the words of a 422, where upstream's internal type is of another one. */
  readonly refusalGroup?: string
  /**
   * It is defined by a CustomResourceDefinition: its objects have their kind in lists too, and cannot be patched
   * strategically.
   */
  readonly isCustom?: true
  /** Aborts when another definition takes the place of this one, or none does: watches end. */
  readonly replaced?: AbortSignal
  /** Whether `/status` is served; then `status` changes there only. */
  readonly hasStatus: boolean
  /** Where the replicas are that `/scale` serves. Left out: it is not served. */
  readonly scale?: ScalePaths
  /** Whether PUT creates a missing object. */
  readonly createOnUpdate: boolean
  /** Whether PUT must name a resourceVersion. */
  readonly guardedUpdate?: boolean
  /** Whether DELETE returns the deleted object instead of a Status. */
  readonly answersDeleted?: boolean
  readonly selectableFields?: FieldGetters
  /** The fault of a name, or undefined. */
  readonly nameFault: (name: string) => string | undefined
  /** Adds the API's defaults. */
  readonly withDefaults?: (draft: Draft) => Draft
  /** Fields that the server sets at creation: an initial status, a generation. */
  readonly forCreate?: (draft: Draft) => Draft
  /** The same for an update; `live` is the stored object. */
  readonly forUpdate?: (draft: Draft, live: StoredObject) => Draft
  readonly validate: (draft: Draft, errors: FieldErrors, live: StoredObject | undefined) => void
  /**
   * Finds the resources that the object needs; throws a Refusal when they are not available. Must not change anything
   * yet.
   */
  readonly reserve?: (draft: Draft, live: StoredObject | undefined) => Reservation
  /** Called with a removed object: releases its resources. */
  readonly release?: (gone: StoredObject) => void
  /** Throws a Refusal when the object may not be deleted. */
  readonly refuseDelete?: (live: StoredObject) => void
  /** Further changes at deletion, beside the metadata. */
  readonly forDelete?: (marked: StoredObject) => StoredObject
  /** Whether something other than finalizers retains a deleted object. */
  readonly isRetained?: (object: StoredObject) => boolean
  /** How long a deleted object stays, in seconds. `asked` is from the request. Left out: it is removed at once. */
  readonly graceSeconds?: (live: StoredObject, asked: number | undefined) => number
}

/** The members, from the object down, that a Scale shows. */
export interface ScalePaths {
  readonly specReplicas: readonly string[]
  readonly statusReplicas: readonly string[]
  readonly labelSelector?: readonly string[]
}

/** The part of an object at which a write is. */
export type Subresource = 'status' | 'scale' | undefined

/** A member of a draft that is an object; `{}` where it is not there. */
export function member(draft: Draft, name: string): Readonly<Record<string, unknown>> {
  return (draft[name] ?? {}) as Readonly<Record<string, unknown>>
}

/** A member of a draft that is a list; empty where it is not there. */
export function listMember(
  container: Readonly<Record<string, unknown>>,
  name: string,
): readonly Readonly<Record<string, unknown>>[] {
  return (container[name] ?? []) as readonly Readonly<Record<string, unknown>>[]
}

/**
 * The fields of a kind: enough to refuse wrong types, to leave out what Go's `omitempty` leaves out, and to record the
 * owner of each field in managedFields. Unknown fields are preserved.
 */
export type Schema = TypedSchema & {
  /** Where `null` is a value of its own; elsewhere a member that is null is left out. */
  readonly nullable?: boolean
}

type TypedSchema =
  /** `default`: of a field that identifies an item of a list, where an applied item does not have it. */
  | { readonly type: 'string'; readonly omitEmpty?: boolean; readonly default?: string }
  | { readonly type: 'integer' | 'boolean' | 'time' | 'microTime' | 'integerOrString' }
  /**
   * Any JSON. `granular`: the members of maps in it, at any depth, are owned one by one. `keepsNull`: also members that
   * are null, as in custom resources.
   */
  | { readonly type: 'any'; readonly granular?: true; readonly default?: unknown; readonly keepsNull?: boolean }
  /** A struct; a pointer to one is a field of its own. */
  | {
      readonly type: 'object'
      readonly fields: Readonly<Record<string, Schema>>
      /** Of members that are not among `fields`, where it can have any. */
      readonly others?: Schema
      readonly atomic?: boolean
      readonly pointer?: boolean
      /** The same of fields that it does not declare. */
      readonly keepsNull?: boolean
    }
  /** Any keys, string values. */
  | { readonly type: 'map'; readonly atomic?: boolean }
  | {
      readonly type: 'list'
      readonly items: Schema
      /** The fields that identify an item; `'value'` for a set of scalars. Left out: the list is owned as a whole. */
      readonly keys?: readonly string[] | 'value'
      /** An empty list is stored too, instead of left out: as Go does without `omitempty`. */
      readonly preserveEmpty?: boolean
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
export const anyWithNull: Schema = { type: 'any', keepsNull: true }
export const map: Schema = { type: 'map' }
export const atomicMap: Schema = { type: 'map', atomic: true }
export const strings: Schema = { type: 'list', items: string }
export const stringSet: Schema = { type: 'list', items: string, keys: 'value' }

export function object(fields: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', fields }
}

export function pointer(fields: Readonly<Record<string, Schema>>): Schema {
  return { type: 'object', fields, pointer: true }
}

export function list(items: Schema, keys?: readonly string[]): Schema {
  return keys === undefined ? { type: 'list', items } : { type: 'list', items, keys }
}

/** An empty list is not the same as none: it takes away all owners. */
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

/** What every object's `metadata` is. */
const metadata = object(metadataFields)

/** All that it has in Go, where nothing reads `selfLink`. */
export const metadataNames: ReadonlySet<string> = new Set([...Object.keys(metadataFields), 'selfLink'])

/** A metav1.Condition list, as most statuses have one. */
export const conditions = list(
  object({ type: string, status: string, reason: string, message: string, lastTransitionTime: time }),
  ['type'],
)

/** The schema of a kind from its own fields. */
export function kindSchema(fields: Readonly<Record<string, Schema>>): Schema {
  return object({ kind: string, apiVersion: string, metadata, ...fields })
}
