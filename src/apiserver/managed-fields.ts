import { apiVersionOf, isRecord, type KubeObject } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { equalJson } from '../runtime/equal-json.ts'
import { formatTime } from '../runtime/time-format.ts'
import { type FieldSet, isEmpty, isStep, union, without } from './field-set.ts'
import type { Draft, Kind, Subresource } from './kind.ts'
import type { StoredObject } from './store.ts'
import { compare } from './typed-fields.ts'

/** The client that writes, and how it writes. */
export interface Manager {
  readonly name: string
  readonly operation: 'Update' | 'Apply'
}

/** Who writes, to which part of the object, and when. */
export interface Write {
  readonly manager: Manager
  readonly subresource: Subresource
  readonly clock: Clock
}

export interface ManagedEntry {
  readonly manager: string
  readonly operation: 'Update' | 'Apply'
  readonly apiVersion: string
  /** Missing in an entry of applies that have changed nothing so far, and perhaps in an entry that a client sent. */
  readonly time?: string | undefined
  readonly fieldsType: 'FieldsV1'
  readonly fieldsV1: FieldSet
  readonly subresource?: NonNullable<Subresource>
}

export type ManagedFields = readonly ManagedEntry[]

export function entriesOf(object: KubeObject): ManagedFields {
  return (object.metadata?.managedFields ?? []) as ManagedFields
}

/**
 * The part of an object that a write to `subresource` can own. Left out are the identity of the object, the fields that
 * only the server sets, and the fields of other subresources.
 */
export function ownable(object: KubeObject, subresource: Subresource, kind: Kind): Draft {
  const { kind: _kind, apiVersion: _apiVersion, metadata, status, ...rest } = object as Draft
  if (writesStatusAlone(kind, subresource)) return { status }
  const { labels, annotations, finalizers, ownerReferences, generateName } = metadata ?? {}
  const meta = { labels, annotations, finalizers, ownerReferences, generateName }
  const own = subresource === 'status' ? { status } : kind.hasStatus ? rest : { ...rest, status }
  return Object.values(meta).some((value) => value !== undefined) ? { ...own, metadata: meta } : own
}

/**
 * Whether a write changes only the status. A write to the status of a built-in kind can change labels and annotations
 * too.
 */
export function writesStatusAlone(kind: Kind, subresource: Subresource): boolean {
  return subresource === 'status' && kind.isCustom === true
}

/** The owners of a new object: its creator owns all fields that the creator or a default has set. */
export function ownedOnCreate(kind: Kind, draft: Draft, manager: Manager, clock: Clock): ManagedFields {
  const { added } = compare({}, ownable(draft, undefined, kind), kind.schema)
  return isEmpty(added) ? [] : [entry(kind, { manager, subresource: undefined, clock }, added)]
}

/**
 * The owners after an update: the writer owns the changed fields, and removed fields have no owner. `owners` are the
 * owners before the update (structured-merge-diff's `merge.Updater.Update`).
 */
export function ownedOnUpdate(
  kind: Kind,
  live: StoredObject,
  next: Draft,
  write: Write & { readonly owners: ManagedFields },
): ManagedFields {
  const { owners, subresource } = write
  // An object without owners gets none until somebody applies it (upstream's skipNonAppliedManager).
  if (owners.length === 0) return []
  const before = ownable(live, subresource, kind)
  const after = ownable(next, subresource, kind)
  const { added, modified, removed } = compare(before, after, kind.schema)
  const changed = union(added, modified)
  const lost = union(changed, removed)
  const entries = owners.flatMap((old) => entryWithout(old, lost))
  if (isEmpty(changed)) return entries
  const own = entries.find((old) => isBy(old, kind, write))
  const mine = own === undefined ? changed : union(own.fieldsV1, changed)
  return capped([...entries.filter((old) => old !== own), entry(kind, write, mine)])
}

/** Upstream's DefaultMaxUpdateManagers. */
const MOST_UPDATERS = 10
const OLD_UPDATES = 'ancient-changes'

/**
 * Limits the entries of updates to {@link MOST_UPDATERS} by merging the oldest ones (apimachinery's capmanagers.go).
 * Only entries of the same version are merged, so more may remain. A version gets only one merged entry: if it already
 * has one that is not its oldest entry, the oldest stays, and the next ones are merged. If that one is itself the next,
 * upstream loses its fields; here it keeps them. Without the limit, each new manager would make the object longer, and
 * each write slower.
 */
function capped(entries: ManagedFields): ManagedFields {
  const updaters = inStoredOrder(entries.filter(({ operation }) => operation === 'Update'))
  const most = entries.length - updaters.length + MOST_UPDATERS
  const left = new Set(entries)
  const isMerged = ({ manager, subresource }: ManagedEntry) => manager === OLD_UPDATES && subresource === undefined
  const mergedOf = new Map(updaters.filter(isMerged).map((old) => [old.apiVersion, old]))
  const oldest = new Map<string, ManagedEntry>()
  for (const old of updaters) {
    if (left.size <= most) break
    const first = oldest.get(old.apiVersion)
    if (first === undefined) {
      oldest.set(old.apiVersion, old)
      continue
    }
    const before = mergedOf.get(old.apiVersion) ?? first
    const { subresource: _subresource, ...update } = old
    const merged = { ...update, manager: OLD_UPDATES, fieldsV1: union(before.fieldsV1, old.fieldsV1) }
    mergedOf.set(old.apiVersion, merged)
    left.delete(before)
    left.delete(old)
    left.add(merged)
  }
  return [...left]
}

/** The entry without these fields; no entry if no fields are left. */
export function entryWithout(old: ManagedEntry, fields: FieldSet): ManagedFields {
  const fieldsV1 = without(old.fieldsV1, fields)
  if (isEmpty(fieldsV1)) return []
  return [equalJson(fieldsV1, old.fieldsV1) ? old : { ...old, fieldsV1 }]
}

/**
 * The owners before an update: those that the update itself names, or else those of the live object. `kubectl apply
 * --server-side` names owners to take over the fields of `kubectl apply`. `[]` and `[{}]` mean no owners. Malformed
 * owners, and those in an update of a subresource, are ignored.
 */
export function ownersBefore(draft: Draft, live: StoredObject, subresource: Subresource): ManagedFields {
  const given = draft.metadata?.managedFields
  // Most updates name no owners, or send them back as they were read.
  if (subresource !== undefined || given === undefined || given === live.metadata.managedFields) return entriesOf(live)
  if (given.length === 1 && isRecord(given[0]) && Object.keys(given[0]).length === 0) return []
  return given.every(isEntry) ? given : entriesOf(live)
}

function isEntry(value: unknown): value is ManagedEntry {
  if (!isRecord(value)) return false
  const { manager, operation, fieldsType, fieldsV1 } = value
  const isOperation = operation === 'Apply' || operation === 'Update'
  return typeof manager === 'string' && isOperation && fieldsType === 'FieldsV1' && isFieldSet(fieldsV1)
}

/** Whether a value is a set of paths. Decoding has already limited its depth. */
function isFieldSet(value: unknown): boolean {
  return isRecord(value) && Object.entries(value).every(([step, below]) => isStep(step) && isFieldSet(below))
}

/**
 * The entries in the order in which upstream stores them: applies before updates, then by time, manager, version and
 * subresource.
 */
export function inStoredOrder(entries: ManagedFields): ManagedFields {
  if (entries.length < 2) return entries
  const keys = (old: ManagedEntry): readonly string[] => [
    old.operation,
    old.time ?? '',
    old.manager,
    old.apiVersion,
    old.subresource ?? '',
  ]
  return [...entries].sort((a, b) => {
    const [left, right] = [keys(a), keys(b)]
    const differs = left.findIndex((key, index) => key !== right[index])
    return differs < 0 ? 0 : (left[differs] as string) < (right[differs] as string) ? -1 : 1
  })
}

/**
 * Whether an entry belongs to this manager, for this kind and subresource. A manager has one entry of updates per
 * version of the kind, but only one of applies: otherwise the manager could not remove fields that it applied in
 * another version.
 */
export function isBy(old: ManagedEntry, { resource }: Kind, { manager, subresource }: Write): boolean {
  const isSame = old.manager === manager.name && old.operation === manager.operation && old.subresource === subresource
  return isSame && (manager.operation === 'Apply' || old.apiVersion === apiVersionOf(resource))
}

export function entry(kind: Kind, { manager, subresource, clock }: Write, fieldsV1: FieldSet): ManagedEntry {
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
