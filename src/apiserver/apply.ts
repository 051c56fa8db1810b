import { isRecord } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { equalJson } from '../runtime/equal-json.ts'
import { type FieldSet, intersection, isEmpty, pathsOf, union, unionOf, without } from './field-set.ts'
import type { Draft, Kind } from './kind.ts'
import { lastAppliedFields, withLastApplied } from './last-applied.ts'
import {
  entriesOf,
  entry,
  entryWithout,
  isBy,
  type ManagedEntry,
  type ManagedFields,
  type Manager,
  ownable,
  type Write,
} from './managed-fields.ts'
import { withoutOwnable } from './object-meta.ts'
import { invalid, Refusal } from './refusal.ts'
import { fieldOf, type Schema } from './schema.ts'
import type { StoredObject } from './store.ts'
import { compare, fieldsOf, mergeFields, removeFields, withDeclared } from './typed-fields.ts'
import type { Outcome } from './writes.ts'

/**
 * Server-side apply: merges the manager's fields into the object, removes the fields that the manager applied before
 * but no longer applies, if no other manager owns them, and updates the owners (KEP-555, structured-merge-diff's
 * `merge.Updater.Apply`). The applied object comes in two forms: decoded (`wanted`), and as the client sent it
 * (`sent`). Only in `sent` can an empty map or list be distinguished from a missing one.
 * @throws Refusal 409 if another manager owns a field with another value, unless `force` is set, or the field was last
 * set by kubectl's client-side apply ({@link lastAppliedFields}); 422 for a null container in a custom resource
 */
export function applyTo(
  kind: Kind,
  live: StoredObject,
  { wanted, sent }: { readonly wanted: Draft; readonly sent: Draft },
  write: Write & { readonly force: boolean },
): Required<Outcome> {
  const { manager, subresource } = write
  const { schema } = kind
  const before = ownable(live, subresource, kind)
  const applied = fieldsOf(ownable(sent, subresource, kind), schema)
  const entries = ownersToApply(kind, live, before, write)
  const own = entries.find((old) => isBy(old, kind, write))
  const others = entries.filter((old) => old !== own)

  // Merges `sent`: an empty or null value can replace an atomic list or map, and `wanted` lacks such values.
  const merged = mergeFields(before, ownable(sent, subresource, kind), schema)
  const managed = unionOf([applied, ...others.map(({ fieldsV1 }) => fieldsV1)])
  const after = own === undefined ? merged : withoutDropped(merged, own.fieldsV1, managed, schema)
  const { added, modified, removed } = compare(before, after, schema)
  const changed = union(added, modified)
  if (!write.force) checkConflicts(others, changed, lastAppliedFields(kind, live, manager))
  refuseNull(kind, live.metadata.name, after)

  const lost = union(changed, removed)
  const retained = others.flatMap((old) => entryWithout(old, lost))
  const draft = joined(live, after as Draft, wanted)
  return {
    draft: withLastApplied(draft, sent, manager),
    managers(isChanged) {
      if (isEmpty(applied)) return retained
      const next = entry(kind, write, applied)
      const isSame = own?.apiVersion === next.apiVersion && equalJson(own.fieldsV1, applied)
      // The entry has its previous time (a new one has none) if the apply changes no field, or if neither the entry nor
      // the stored object changes in the end: a new time alone is not a change.
      return [...retained, equalJson(before, after) || (isSame && !isChanged) ? withTime(next, own?.time) : next]
    },
  }
}

function withTime({ time: _time, ...rest }: ManagedEntry, time: string | undefined): ManagedEntry {
  return time === undefined ? rest : { ...rest, time }
}

/** The owners of an object that an apply creates: the applying manager owns the applied fields. */
export function ownedOnApply(kind: Kind, sent: Draft, manager: Manager, clock: Clock): ManagedFields {
  const applied = fieldsOf(ownable(sent, undefined, kind), kind.schema)
  return isEmpty(applied) ? [] : [entry(kind, { manager, subresource: undefined, clock }, applied)]
}

/**
 * The owners before an apply. If the object has no owners, `before-first-apply` counts as the owner of all its fields
 * (upstream's skipNonAppliedManager).
 */
function ownersToApply(kind: Kind, live: StoredObject, before: Draft, write: Write): ManagedFields {
  const entries = entriesOf(live)
  if (entries.length > 0) return entries
  const { added } = compare({}, before, kind.schema)
  return isEmpty(added) ? [] : [entry(kind, { ...write, manager: firstOwner }, added)]
}

const firstOwner: Manager = { name: 'before-first-apply', operation: 'Update' }

/**
 * The merged value without the fields that the manager owned before this apply (`last`) and that no manager owns after
 * it (upstream's `Updater.prune`). A container that loses all its contents is removed; if a manager owns the container
 * itself, it becomes null.
 * @param managed the fields that some manager owns after the apply
 */
function withoutDropped(merged: unknown, last: FieldSet, managed: FieldSet, schema: Schema): unknown {
  const all = (value: unknown): FieldSet => withDeclared(fieldsOf(value, schema), schema)
  const mine = withDeclared(last, schema)
  const withoutMine = removeFields(merged, mine, schema)
  const owned = union(all(withoutMine), withDeclared(managed, schema))
  const onlyOwned = removeFields(merged, without(all(merged), owned), schema)
  // A field without an owner stays, unless its container is removed.
  const dropped = intersection(without(all(merged), all(onlyOwned)), mine)
  return removeFields(merged, dropped, schema) ?? {}
}

/**
 * The merged fields as a complete draft, with the type and the other metadata of the live object. A resourceVersion or
 * uid in `wanted` replaces that of the live object.
 */
function joined(live: StoredObject, merged: Draft, wanted: Draft): Draft {
  const { resourceVersion, uid } = wanted.metadata ?? {}
  const metadata = {
    ...withoutOwnable(live.metadata),
    ...merged.metadata,
    resourceVersion: resourceVersion ?? live.metadata.resourceVersion,
    uid: uid ?? live.metadata.uid,
  }
  return { ...merged, kind: live.kind, apiVersion: live.apiVersion, metadata }
}

/**
 * Refuses a null where the schema of a custom resource has an object or a list, unless the schema allows null there.
 * Such a null was applied as null, or is a container that a manager owns and that has lost its last member.
 * @throws Refusal 422
 */
export function refuseNull({ resource, schema, isCustom }: Kind, name: string, after: unknown): void {
  if (!isCustom) return
  const causes = nullsIn(after, schema, '').map(({ field, type }) => {
    const message = `Invalid value: "null": ${field} in body must be of type ${type}: "null"`
    return { reason: 'FieldValueTypeInvalid', message, field }
  })
  if (causes.length > 0) throw invalid(resource, name, causes)
}

function nullsIn(
  value: unknown,
  schema: Schema | undefined,
  field: string,
): readonly { readonly field: string; readonly type: string }[] {
  if (value === null) {
    if (schema?.nullable === true || (schema?.type !== 'object' && schema?.type !== 'list')) return []
    return [{ field, type: schema.type === 'list' ? 'array' : 'object' }]
  }
  if (Array.isArray(value) && schema?.type === 'list') {
    return value.flatMap((item, index) => nullsIn(item, schema.items, `${field}[${index}]`))
  }
  if (!isRecord(value) || schema?.type !== 'object') return []
  return Object.entries(value).flatMap(([name, member]) => {
    return nullsIn(member, fieldOf(schema, name) ?? schema.others, field === '' ? name : `${field}.${name}`)
  })
}

/** @throws Refusal 409 if `others` own `changed` fields that are not among the `allowed` ones */
function checkConflicts(others: ManagedFields, changed: FieldSet, allowed: FieldSet): void {
  const conflicts = others
    .map((old) => ({
      manager: managerText(old),
      fields: pathsOf(without(intersection(old.fieldsV1, changed), allowed)),
    }))
    .filter(({ fields }) => fields.length > 0)
    .sort((a, b) => (a.manager < b.manager ? -1 : 1))
  const causes = conflicts.flatMap(({ manager, fields }) =>
    fields.map((field) => ({ reason: 'FieldManagerConflict', message: `conflict with ${manager}`, field })),
  )
  if (causes.length === 0) return
  const what =
    causes.length === 1
      ? `1 conflict: ${causes[0]?.message}: ${causes[0]?.field}`
      : `${causes.length} conflicts: ${conflicts
          .map(({ manager, fields }) => `conflicts with ${manager}:\n- ${fields.join('\n- ')}`)
          .join('\n')}`
  throw new Refusal(409, 'Conflict', `Apply failed with ${what}`, { causes })
}

function managerText(old: ManagedEntry): string {
  const using = old.operation === 'Update' ? ` using ${old.apiVersion}` : ''
  const subresource = old.subresource === undefined ? '' : ` with subresource "${old.subresource}"`
  return `${JSON.stringify(old.manager)}${subresource}${using}`
}
