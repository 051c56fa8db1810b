import type { Clock } from '../runtime/clock.ts'
import { equalJson } from './decode.ts'
import type { Draft, Kind, Subresource } from './kind.ts'
import {
  appliedFields,
  changedFields,
  entriesOf,
  entry,
  type FieldSet,
  intersection,
  isBy,
  type ManagedEntry,
  type ManagedFields,
  type Manager,
  mergeFields,
  ownable,
  pathsOf,
  removeFields,
  without,
} from './managed-fields.ts'
import { Refusal } from './refusal.ts'
import type { StoredObject } from './store.ts'
import type { Change } from './writes.ts'

/**
 * Server-side apply: merges the manager's fields into the object, removes fields that only this manager applied before
 * and no longer applies, and updates the owners (KEP-555, structured-merge-diff's `merge.Updater.Apply`).
 * @throws Refusal 409 where another manager owns a field with another value, unless `force` takes it over
 */
export function applyTo(
  kind: Kind,
  live: StoredObject,
  wanted: Draft,
  write: {
    readonly manager: Manager
    readonly subresource: Subresource
    readonly force: boolean
    readonly clock: Clock
  },
): Change {
  const { manager, subresource, clock } = write
  const { schema } = kind
  const mine = ownable(wanted, subresource, kind.hasStatus)
  const applied = appliedFields(mine, schema)
  const entries = entriesOf(live)
  const own = entries.find((old) => isBy(old, kind, manager, subresource))
  const others = entries.filter((old) => old !== own)

  const merged = mergeFields(ownable(live, subresource, kind.hasStatus), mine, schema)
  const changed = changedFields(ownable(live, subresource, kind.hasStatus), merged, schema)
  const disputed = changed === undefined ? undefined : intersection(applied, changed)
  const conflicts = others.flatMap((old) => conflictsWith(old, disputed))
  if (conflicts.length > 0 && !write.force) throw applyConflict(conflicts)

  const retained = others.flatMap((old) => {
    const fieldsV1 = without(old.fieldsV1, disputed)
    return fieldsV1 === undefined ? [] : [{ ...old, fieldsV1 }]
  })
  const dropped = own === undefined ? undefined : retained.reduce(minus, without(own.fieldsV1, applied))
  const result = dropped === undefined ? merged : removeFields(merged, dropped, schema)
  return { draft: joined(live, result as Draft, wanted), managers: (isChanged) => withOwn(retained, isChanged) }

  function withOwn(rest: ManagedFields, isChanged: boolean): ManagedFields {
    if (own !== undefined && !isChanged && equalJson(own.fieldsV1, applied)) return entries
    return [...rest, entry(kind, manager, subresource, applied, clock)]
  }
}

/** What the manager owns of an object that an apply creates. */
export function ownedOnApply(kind: Kind, wanted: Draft, manager: Manager, clock: Clock): ManagedFields {
  return [
    entry(kind, manager, undefined, appliedFields(ownable(wanted, undefined, kind.hasStatus), kind.schema), clock),
  ]
}

function minus(fields: FieldSet | undefined, other: ManagedEntry): FieldSet | undefined {
  return fields === undefined ? undefined : without(fields, other.fieldsV1)
}

/** The merged fields within the other fields of the object. */
function joined(live: StoredObject, merged: Draft, wanted: Draft): Draft {
  const { labels: _l, annotations: _a, finalizers: _f, ownerReferences: _o, ...identity } = live.metadata
  const { resourceVersion, uid } = wanted.metadata ?? {}
  const metadata = {
    ...identity,
    ...merged.metadata,
    resourceVersion: resourceVersion ?? live.metadata.resourceVersion,
    uid: uid ?? live.metadata.uid,
  }
  return { ...merged, kind: live.kind, apiVersion: live.apiVersion, metadata }
}

interface ApplyConflict {
  readonly manager: string
  readonly field: string
}

function conflictsWith(other: ManagedEntry, disputed: FieldSet | undefined): readonly ApplyConflict[] {
  const both = disputed === undefined ? undefined : intersection(other.fieldsV1, disputed)
  if (both === undefined) return []
  const using = other.operation === 'Update' ? ` using ${other.apiVersion}` : ''
  const subresource = other.subresource === undefined ? '' : ` with subresource "${other.subresource}"`
  const manager = `${JSON.stringify(other.manager)}${subresource}${using}`
  return pathsOf(both).map((field) => ({ manager, field }))
}

function applyConflict(conflicts: readonly ApplyConflict[]): Refusal {
  const count = `${conflicts.length} conflict${conflicts.length === 1 ? '' : 's'}`
  const managers = [...new Set(conflicts.map((conflict) => conflict.manager))]
  const lines = managers.map((manager) => {
    const fields = conflicts.filter((conflict) => conflict.manager === manager).map((conflict) => conflict.field)
    return fields.length === 1
      ? `conflict with ${manager}: ${fields[0]}`
      : `conflicts with ${manager}:\n- ${fields.join('\n- ')}`
  })
  const causes = conflicts.map(({ manager, field }) => ({
    reason: 'FieldManagerConflict',
    message: `conflict with ${manager}`,
    field,
  }))
  return new Refusal(409, 'Conflict', `Apply failed with ${count}: ${lines.join('\n')}`, { causes })
}
