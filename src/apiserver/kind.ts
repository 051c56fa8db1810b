import type { KubeObject } from '../kube/json.ts'
import type { Resource } from '../kube/resources.ts'
import type { FieldErrors } from './field-errors.ts'
import type { FieldGetters } from './field-selector.ts'
import type { Schema } from './schema.ts'
import type { StoredObject } from './store.ts'

/** An object on its way in: decoded and frozen, but not yet what the server would store. */
export type Draft = Readonly<Record<string, unknown>> & KubeObject

/** What a write needs besides the object itself, such as an address. */
export interface Reservation {
  readonly object: Draft
  /** Takes what is reserved. Called after everything was checked, just before the object is stored. */
  readonly take: () => void
}

/** What one kind does that others do not; the rest of the server knows no kind by name. */
export interface Kind {
  readonly resource: Resource<KubeObject>
  readonly singular: string
  readonly shortNames?: readonly string[]
  readonly schema: Schema
  /** Whether `/status` is served; then `status` changes there only. */
  readonly hasStatus: boolean
  /** Whether PUT makes an object that is not there. */
  readonly createOnUpdate: boolean
  /** Whether PUT must name a resourceVersion. */
  readonly guardedUpdate?: boolean
  /** Whether DELETE answers the deleted object instead of a Status. */
  readonly answersDeleted?: boolean
  readonly selectableFields?: FieldGetters
  /** What is wrong with a name, or undefined. */
  readonly nameFault: (name: string) => string | undefined
  /** Fills in what the API's defaults are. */
  readonly withDefaults?: (draft: Draft) => Draft
  /** What the server decides at creation: an initial status, a generation. */
  readonly forCreate?: (draft: Draft) => Draft
  /** The same for an update; `live` is what is stored. */
  readonly forUpdate?: (draft: Draft, live: StoredObject) => Draft
  readonly validate: (draft: Draft, errors: FieldErrors, live: StoredObject | undefined) => void
  /** Finds what else the object needs; throws a Refusal when that cannot be had. Must not change anything yet. */
  readonly reserve?: (draft: Draft, live: StoredObject | undefined) => Reservation
  /** Called with what was removed: gives back what was taken. */
  readonly release?: (gone: StoredObject) => void
  /** Throws a Refusal when the object may not be deleted. */
  readonly refuseDelete?: (live: StoredObject) => void
  /** What else deletion changes, beside the metadata. */
  readonly forDelete?: (marked: StoredObject) => StoredObject
  /** Whether something other than finalizers keeps a deleted object. */
  readonly isKept?: (object: StoredObject) => boolean
  /** How long a deleted object stays, in seconds. `asked` is what the request wants. Left out: it goes at once. */
  readonly graceSeconds?: (live: StoredObject, asked: number | undefined) => number
}

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
