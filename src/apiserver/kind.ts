import type { KubeObject, Resource } from '../kube/resources.ts'
import type { Column } from './columns.ts'
import type { FieldErrors } from './refusal.ts'
import type { Schema } from './schema.ts'
import type { FieldGetters } from './selectors.ts'
import type { Conversion, StoredObject } from './store.ts'

/** The members of a JSON object. */
export type Members = Readonly<Record<string, unknown>>

/** An incoming object: decoded and frozen, but not yet in its stored form. */
export type Draft = Members & KubeObject

/** What a write takes in addition to storing the object, such as a ClusterIP or a NodePort. */
export interface Reservation {
  /** The draft with the reserved values. */
  readonly object: Draft
  /** Takes the reservation. Called after all checks, just before the object is stored. */
  readonly take: () => void
}

/** The specifics of one kind, for the code that serves all kinds alike. */
export interface Kind {
  readonly resource: Resource<KubeObject>
  /** @default the name of the kind in lower case */
  readonly singular?: string
  readonly shortNames?: readonly string[]
  /** Names for several kinds together: `kubectl get all`. */
  readonly categories?: readonly string[]
  /** The text of a Warning header in every answer about this kind. */
  readonly deprecation?: string
  /**
   * The object without unknown fields, and the paths of these fields. @default fields that the kind's Go type lacks are
   * unknown
   */
  readonly withoutUnknown?: (object: Draft) => { readonly known: object; readonly unknown: readonly string[] }
  /** The texts of Warning headers for a client that writes such an object. */
  readonly warnings?: (object: Draft) => readonly string[]
  /** What `kubectl get` prints. @default its name and age */
  readonly columns?: readonly Column[]
  readonly schema: Schema
  /** How to convert the objects, if they are stored in the form of another group or version. */
  readonly storedAs?: Conversion
  /** Computes the answer to a create, whose object is not stored. Such a kind has no verb but create. */
  readonly review?: (draft: Draft) => Draft
  /** The API group that a 422 names, if the group of upstream's internal type is not that of the resource. */
  readonly refusalGroup?: string
  /**
   * A CustomResourceDefinition defines this kind. Its objects have `kind` and `apiVersion` in lists too, and cannot be
   * patched strategically.
   */
  readonly isCustom?: true
  /** Aborts when the definition of the kind is changed or deleted. Watches then end. */
  readonly definitionChanged?: AbortSignal
  /** Whether `/status` is served; then an update changes `status` only there. */
  readonly hasStatus?: boolean
  /** Left out: `/scale` is not served. */
  readonly scale?: ScalePaths
  /** Whether PUT creates a missing object. */
  readonly createOnUpdate?: boolean
  /** Whether PUT must name a resourceVersion. */
  readonly requiresResourceVersion?: boolean
  /** Whether DELETE returns the deleted object instead of a Status. */
  readonly answersDeleted?: boolean
  readonly selectableFields?: FieldGetters
  /** @default dnsSubdomainFault */
  readonly nameFault?: (name: string) => string | undefined
  readonly withDefaults?: (draft: Draft) => Draft
  /** Fields that the server sets at creation: an initial status, a generation. */
  readonly forCreate?: (draft: Draft) => Draft
  /** Fields that the server sets at an update; `live` is the stored object. */
  readonly forUpdate?: (draft: Draft, live: StoredObject) => Draft
  readonly validate?: (draft: Draft, errors: FieldErrors, live: StoredObject | undefined) => void
  /**
   * Finds the addresses and ports that the object needs; throws a Refusal when they are not available. Must not change
   * anything yet.
   */
  readonly reserve?: (
    draft: Draft,
    live: StoredObject | undefined,
    options: { readonly dryRun: boolean },
  ) => Reservation
  /** Called with a removed object: releases its addresses and ports. */
  readonly release?: (gone: StoredObject) => void
  /** Throws a Refusal when the object may not be deleted. */
  readonly refuseDelete?: (live: StoredObject) => void
  /** Changes a marked object further; its metadata already shows the deletion. */
  readonly forDelete?: (marked: StoredObject) => StoredObject
  /** Whether something other than finalizers retains a deleted object. */
  readonly isRetained?: (object: StoredObject) => boolean
  /** How long a deleted object stays, in seconds. `asked` is from the request. Left out: no grace period. */
  readonly graceSeconds?: (live: StoredObject, asked: number | undefined) => number
}

/** The paths, from the root of the object, of the members that `/scale` shows and changes. */
export interface ScalePaths {
  readonly specReplicas: readonly string[]
  readonly statusReplicas: readonly string[]
  readonly labelSelector?: readonly string[]
}

/** The part of an object that a write addresses; undefined for the object itself. */
export type Subresource = 'status' | 'scale' | undefined

/** A member that is an object; `{}` if it is missing. */
export function member(container: Members, name: string): Members {
  return (container[name] ?? {}) as Members
}

/** A member that is a list; empty if it is missing. */
export function listMember(container: Members, name: string): readonly Members[] {
  return (container[name] ?? []) as readonly Members[]
}
