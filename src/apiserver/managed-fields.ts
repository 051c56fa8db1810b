import type { KubeObject } from '../kube/json.ts'
import { apiVersionOf } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { formatTime } from '../runtime/time-format.ts'
import { changedFields, type FieldSet, fieldsOf, union, without } from './field-set.ts'
import type { Draft, Kind } from './kind.ts'
import { equalJson } from './plain-json.ts'
import type { StoredObject } from './store.ts'

/** Who writes, and how. */
export interface Manager {
  readonly name: string
  readonly operation: 'Update' | 'Apply'
}

/** One entry of `metadata.managedFields`. */
export interface ManagedEntry {
  readonly manager: string
  readonly operation: 'Update' | 'Apply'
  readonly apiVersion: string
  readonly time: string
  readonly fieldsType: 'FieldsV1'
  readonly fieldsV1: FieldSet
  readonly subresource?: 'status'
}

export type ManagedFields = readonly ManagedEntry[]

/** The entries of an object. */
export function entriesOf(object: KubeObject): ManagedFields {
  return (object.metadata?.managedFields ?? []) as ManagedFields
}

/** The part of an object that a write can own: not what identifies it, nor what only the server sets, nor what is written elsewhere. */
export function ownable(object: KubeObject, subresource: 'status' | undefined, hasStatus: boolean): Draft {
  const { kind: _kind, apiVersion: _apiVersion, metadata, status, ...rest } = object as Draft
  const { labels, annotations, finalizers, ownerReferences, generateName } = metadata ?? {}
  const meta = { labels, annotations, finalizers, ownerReferences, generateName }
  const own = subresource === 'status' ? { status } : hasStatus ? rest : { ...rest, status }
  return Object.values(meta).some((value) => value !== undefined) ? { ...own, metadata: meta } : own
}

/** What the maker of an object owns: everything that it, or a default, said. */
export function ownedOnCreate(kind: Kind, draft: Draft, manager: Manager, clock: Clock): ManagedFields {
  const fields = fieldsOf(ownable(draft, undefined, kind.hasStatus), kind.schema)
  return Object.keys(fields).length === 0 ? [] : [entry(kind, manager, undefined, fields, clock)]
}

/** Who owns what after an update: the writer owns what it changed, and nobody owns what is gone. */
export function ownedOnUpdate(
  kind: Kind,
  live: StoredObject,
  next: Draft,
  manager: Manager,
  subresource: 'status' | undefined,
  clock: Clock,
): ManagedFields {
  const before = ownable(live, subresource, kind.hasStatus)
  const after = ownable(next, subresource, kind.hasStatus)
  const changed = changedFields(before, after, kind.schema)
  const removed = changedFields(after, before, kind.schema)
  const gone = removed === undefined ? undefined : without(removed, changed)
  const touched = changed === undefined ? gone : gone === undefined ? changed : union(changed, gone)
  if (touched === undefined) return entriesOf(live)
  const entries: ManagedEntry[] = []
  let mine = changed
  for (const old of entriesOf(live)) {
    if (isBy(old, manager, subresource)) {
      const kept = without(old.fieldsV1, gone)
      mine = kept === undefined ? mine : mine === undefined ? kept : union(kept, mine)
      continue
    }
    const fieldsV1 = without(old.fieldsV1, touched)
    if (fieldsV1 !== undefined) entries.push(equalJson(fieldsV1, old.fieldsV1) ? old : { ...old, fieldsV1 })
  }
  // Of an object in which nothing is left there is nothing to own.
  if (mine === undefined || Object.keys(mine).length === 0) return entries
  return [...entries, entry(kind, manager, subresource, mine, clock)]
}

/** Whether an entry is the one that this write updates. */
export function isBy(old: ManagedEntry, manager: Manager, subresource: 'status' | undefined): boolean {
  return old.manager === manager.name && old.operation === manager.operation && old.subresource === subresource
}

export function entry(
  kind: Kind,
  manager: Manager,
  subresource: 'status' | undefined,
  fieldsV1: FieldSet,
  clock: Clock,
): ManagedEntry {
  return {
    manager: manager.name,
    operation: manager.operation,
    apiVersion: apiVersionOf(kind.resource),
    time: formatTime(clock.wallMs()),
    fieldsType: 'FieldsV1',
    fieldsV1,
    ...(subresource === undefined ? {} : { subresource }),
  }
}
