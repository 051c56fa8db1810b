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
  /**
   * Takes the reserved values, and releases those that the object no longer needs. Called after all checks, just before
   * the object is stored.
   */
  readonly take: () => void
}

/** What distinguishes one kind, for the code that serves all kinds alike. */
export interface Kind {
  readonly resource: Resource<KubeObject>
  /** @default the name of the kind in lower case */
  readonly singular?: string
  readonly shortNames?: readonly string[]
  /** The categories to which the kind belongs, such as `all` in `kubectl get all`. */
  readonly categories?: readonly string[]
  /** The text of a Warning header in every answer about this kind, except in refusals. */
  readonly deprecation?: string
  /**
   * Finds the unknown fields of an object. `unknown` has their paths. `known` is the object without them, or the same
   * object if `withDefaults` removes them later.
   * @default fields that the kind's Go type lacks are unknown
   */
  readonly withoutUnknown?: (object: Draft) => { readonly known: object; readonly unknown: readonly string[] }
  /** The texts of Warning headers in the answer to a write of this object. */
  readonly warnings?: (object: Draft) => readonly string[]
  /** What `kubectl get` prints. @default the name and age of an object */
  readonly columns?: readonly Column[]
  readonly schema: Schema
  /** How to convert the objects, if they are stored in the form of another group or version. */
  readonly storedAs?: Conversion
  /** Computes the answer to a create. Objects of a kind with `review` are never stored, and can only be created. */
  readonly review?: (draft: Draft) => Draft
  /**
   * The API group that a 422 names, if upstream's internal type has another group than the resource.
   * @default the group of the resource
   */
  readonly refusalGroup?: string
  /**
   * A CustomResourceDefinition defines this kind. Its objects have `kind` and `apiVersion` in lists too, and cannot be
   * patched strategically.
   */
  readonly isCustom?: true
  /** Aborted when the definition of the kind is changed or deleted. Watches then end. */
  readonly definitionChanged?: AbortSignal
  /** Whether `/status` is served. If so, an update of the object itself does not change its status. */
  readonly hasStatus?: boolean
  /** Left out: `/scale` is not served. */
  readonly scale?: ScalePaths
  /** Whether PUT creates a missing object. */
  readonly createOnUpdate?: boolean
  /** Whether PUT must name a resourceVersion. */
  readonly requiresResourceVersion?: boolean
  /** Whether a DELETE that removes the object answers with the object instead of a Status. */
  readonly answersDeleted?: boolean
  readonly selectableFields?: FieldGetters
  /** What is wrong with a name; undefined: nothing. @default dnsSubdomainFault */
  readonly nameFault?: (name: string) => string | undefined
  readonly withDefaults?: (draft: Draft) => Draft
  /** Sets the fields that the server decides at a create, such as an initial status or a generation. */
  readonly forCreate?: (draft: Draft) => Draft
  /** Sets the fields that the server decides at an update. `live` is the stored object. */
  readonly forUpdate?: (draft: Draft, live: StoredObject) => Draft
  readonly validate?: (draft: Draft, errors: FieldErrors, live: StoredObject | undefined) => void
  /**
   * Finds the addresses and ports that the object needs, without taking them. Throws a Refusal if they are not
   * available. `live` is the stored object; undefined at a create.
   */
  readonly reserve?: (
    draft: Draft,
    live: StoredObject | undefined,
    options: { readonly dryRun: boolean },
  ) => Reservation
  /** Called with a removed object: releases its addresses and ports. */
  readonly release?: (gone: StoredObject) => void
  /** Throws a Refusal if the object must not be deleted. */
  readonly refuseDelete?: (live: StoredObject) => void
  /** Completes an object that is being marked as deleted. `marked` already has its deletionTimestamp. */
  readonly forDelete?: (marked: StoredObject) => StoredObject
  /** Whether an object that is marked as deleted stays, even without metadata.finalizers and a grace period. */
  readonly isRetained?: (object: StoredObject) => boolean
  /** The grace period of a deletion, in seconds. `asked` is that of the request, if any. Left out: no grace period. */
  readonly graceSeconds?: (live: StoredObject, asked: number | undefined) => number
}

/** The members that `/scale` shows, as paths from the root of the object. Only `specReplicas` can be changed there. */
export interface ScalePaths {
  readonly specReplicas: readonly string[]
  readonly statusReplicas: readonly string[]
  readonly labelSelector?: readonly string[]
}

/** The part of an object that a path addresses; undefined for the object itself. */
export type Subresource = 'status' | 'scale' | undefined

/** A member that is an object; `{}` if it is missing. */
export function member(container: Members, name: string): Members {
  return (container[name] ?? {}) as Members
}

/** A member that is a list; empty if it is missing. */
export function listMember(container: Members, name: string): readonly Members[] {
  return (container[name] ?? []) as readonly Members[]
}
