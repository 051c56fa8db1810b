import { apiVersionOf, isRecord, type KubeObject } from '../kube/resources.ts'
import type { Clock } from '../runtime/clock.ts'
import { formatTime } from '../runtime/time-format.ts'
import { equalJson } from './decode.ts'
import type { Draft, Kind, Schema, Subresource } from './kind.ts'
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
  readonly subresource?: NonNullable<Subresource>
}

export type ManagedFields = readonly ManagedEntry[]

/** The entries of an object. */
export function entriesOf(object: KubeObject): ManagedFields {
  return (object.metadata?.managedFields ?? []) as ManagedFields
}

/**
 * The part of an object that a write can own: without its identity, the fields that only the server sets, and those of
 * another subresource.
 */
export function ownable(object: KubeObject, subresource: Subresource, hasStatus: boolean): Draft {
  const { kind: _kind, apiVersion: _apiVersion, metadata, status, ...rest } = object as Draft
  const { labels, annotations, finalizers, ownerReferences, generateName } = metadata ?? {}
  const meta = { labels, annotations, finalizers, ownerReferences, generateName }
  const own = subresource === 'status' ? { status } : hasStatus ? rest : { ...rest, status }
  return Object.values(meta).some((value) => value !== undefined) ? { ...own, metadata: meta } : own
}

/** The fields that the creator of an object owns: all that it, or a default, set. */
export function ownedOnCreate(kind: Kind, draft: Draft, manager: Manager, clock: Clock): ManagedFields {
  const fields = fieldsOf(ownable(draft, undefined, kind.hasStatus), kind.schema)
  return Object.keys(fields).length === 0 ? [] : [entry(kind, manager, undefined, fields, clock)]
}

/**
 * The owners after an update: the writer owns the changed fields, and removed fields have no owner. `owners` are those
 * before it.
 */
export function ownedOnUpdate(
  kind: Kind,
  live: StoredObject,
  next: Draft,
  { manager, subresource, clock, owners }: Update,
): ManagedFields {
  const before = ownable(live, subresource, kind.hasStatus)
  const after = ownable(next, subresource, kind.hasStatus)
  const changed = changedFields(before, after, kind.schema)
  const removed = changedFields(after, before, kind.schema)
  const gone = removed === undefined ? undefined : without(removed, changed)
  const touched = changed === undefined ? gone : gone === undefined ? changed : union(changed, gone)
  if (touched === undefined) return owners
  const entries: ManagedEntry[] = []
  let mine = changed
  for (const old of owners) {
    if (isBy(old, kind, manager, subresource)) {
      const retained = without(old.fieldsV1, gone)
      mine = retained === undefined ? mine : mine === undefined ? retained : union(retained, mine)
      continue
    }
    const fieldsV1 = without(old.fieldsV1, touched)
    if (fieldsV1 !== undefined) entries.push(equalJson(fieldsV1, old.fieldsV1) ? old : { ...old, fieldsV1 })
  }
  // Of an object in which nothing is left there is nothing to own.
  if (mine === undefined || Object.keys(mine).length === 0) return entries
  return [...entries, entry(kind, manager, subresource, mine, clock)]
}

interface Update {
  readonly manager: Manager
  readonly subresource: Subresource
  readonly clock: Clock
  readonly owners: ManagedFields
}

/**
 * The owners before an update: those that the update itself gives, as `kubectl apply --server-side` does to take over
 * what `kubectl apply` owned, else those of the live object. `[{}]` stands for none.
 */
export function ownersBefore(draft: Draft, live: StoredObject): ManagedFields {
  const given = draft.metadata?.managedFields ?? []
  // Sent back as it was read, as most updates are.
  if (given === live.metadata.managedFields) return entriesOf(live)
  if (given.length === 1 && isRecord(given[0]) && Object.keys(given[0]).length === 0) return []
  return given.length > 0 && given.every(isEntry) ? given : entriesOf(live)
}

function isEntry(value: unknown): value is ManagedEntry {
  if (!isRecord(value)) return false
  const { manager, operation, fieldsType, fieldsV1 } = value
  const isWritten = operation === 'Apply' || operation === 'Update'
  return typeof manager === 'string' && isWritten && fieldsType === 'FieldsV1' && isFieldSet(fieldsV1)
}

/** Any nesting of objects: decoding has bounded its depth. */
function isFieldSet(value: unknown): boolean {
  return isRecord(value) && Object.values(value).every(isFieldSet)
}

/** Whether an entry is that of a manager that writes such a kind: one entry for each version of it. */
export function isBy(old: ManagedEntry, { resource }: Kind, manager: Manager, subresource: Subresource): boolean {
  const isSame = old.manager === manager.name && old.operation === manager.operation
  return isSame && old.subresource === subresource && old.apiVersion === apiVersionOf(resource)
}

export function entry(
  kind: Kind,
  manager: Manager,
  subresource: Subresource,
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

/**
 * A set of fields of an object in the form of metav1.FieldsV1: `f:` a field, `k:` an item of a list by its keys, `v:`
 * an item by its value, `.` the container itself. An empty set under a name covers everything below it.
 */
export interface FieldSet {
  readonly [step: string]: FieldSet
}

type Members = Readonly<Record<string, unknown>>

const whole: FieldSet = Object.freeze({})

/** All fields of a value. */
export function fieldsOf(value: unknown, schema: Schema | undefined): FieldSet {
  return fieldsBelow(value, schema, true)
}

/** The fields of an applied value: whoever applies a map or list does not own it as a whole. */
export function appliedFields(value: unknown, schema: Schema | undefined): FieldSet {
  return fieldsBelow(value, schema, false)
}

function fieldsBelow(value: unknown, schema: Schema | undefined, withContainers: boolean): FieldSet {
  const parts = partsOf(value, schema)
  if (parts === undefined) return whole
  const fields: Record<string, FieldSet> = withContainers && parts.ownsContainer ? { '.': whole } : {}
  for (const [step, part] of parts.steps) {
    const below = fieldsBelow(part.value, part.schema, withContainers)
    fields[step] = stepFields(step, below)
  }
  return fields
}

/** An item of a list is owned beside its fields, unless it is owned as a whole. */
function stepFields(step: string, below: FieldSet): FieldSet {
  return step.startsWith('k:') && below !== whole ? { '.': whole, ...below } : below
}

/** The fields that differ in `next` from `live`, or exist only in `next`. Undefined: none. */
export function changedFields(live: unknown, next: unknown, schema: Schema | undefined): FieldSet | undefined {
  if (equalJson(live, next)) return undefined
  const after = partsOf(next, schema)
  const before = partsOf(live, schema)
  if (after === undefined) return whole
  if (before === undefined || after.steps.size === 0) return fieldsOf(next, schema)
  const fields: Record<string, FieldSet> = {}
  for (const [step, part] of after.steps) {
    const old = before.steps.get(step)
    const below =
      old === undefined
        ? stepFields(step, fieldsOf(part.value, part.schema))
        : changedFields(old.value, part.value, part.schema)
    if (below !== undefined) fields[step] = below
  }
  return Object.keys(fields).length === 0 ? undefined : fields
}

/** The fields of `a`, of `b`, or of both. */
export function union(a: FieldSet, b: FieldSet): FieldSet {
  const fields: Record<string, FieldSet> = { ...a }
  for (const step of Object.keys(b)) {
    const below = fields[step]
    fields[step] = below === undefined ? (b[step] as FieldSet) : union(below, b[step] as FieldSet)
  }
  return fields
}

/** The fields of `a` that are not in `b`. Undefined: none are left. */
export function without(a: FieldSet, b: FieldSet | undefined): FieldSet | undefined {
  if (b === undefined) return a
  const fields: Record<string, FieldSet> = {}
  for (const step of Object.keys(a)) {
    const mine = a[step] as FieldSet
    const theirs = b[step]
    const left =
      theirs === undefined ? mine : isWhole(theirs) ? undefined : isWhole(mine) ? mine : without(mine, theirs)
    if (left !== undefined) fields[step] = left
  }
  return Object.keys(fields).length === 0 ? undefined : fields
}

/** The fields in both. Undefined: none. */
export function intersection(a: FieldSet, b: FieldSet): FieldSet | undefined {
  const fields: Record<string, FieldSet> = {}
  for (const step of Object.keys(a)) {
    const theirs = b[step]
    if (theirs === undefined) continue
    const mine = a[step] as FieldSet
    const both = isWhole(mine) ? theirs : isWhole(theirs) ? mine : intersection(mine, theirs)
    if (both !== undefined) fields[step] = both
  }
  return Object.keys(fields).length === 0 ? undefined : fields
}

/** Paths of the fields in a set, as kube-apiserver writes them: `.spec.ports[port=80,protocol="TCP"].name`. */
export function pathsOf(fields: FieldSet, prefix = ''): readonly string[] {
  return Object.entries(fields).flatMap(([step, below]) => {
    if (step === '.') return prefix === '' ? [] : [prefix]
    const path = prefix + pathStep(step)
    return isWhole(below) ? [path] : pathsOf(below, path)
  })
}

/** The value without the fields of a set; undefined if nothing is left of it. */
export function removeFields(value: unknown, fields: FieldSet, schema: Schema | undefined): unknown {
  if (isWhole(fields)) return undefined
  const parts = partsOf(value, schema)
  if (parts === undefined) return '.' in fields ? undefined : value
  const retained = new Map<string, unknown>()
  for (const [step, part] of parts.steps) {
    const below = fields[step]
    // An item that nobody owns any more goes with its defaults, which nobody owned.
    if (step.startsWith('k:') && below !== undefined && '.' in below) continue
    const left = below === undefined ? part.value : removeFields(part.value, below, part.schema)
    if (left !== undefined) retained.set(step, left)
  }
  if (retained.size === 0 && '.' in fields) return undefined
  if (Array.isArray(value)) return [...retained.values()]
  return Object.fromEntries([...retained].map(([step, left]) => [step.slice(2), left]))
}

/** The value with the fields of `over` merged into it; other fields stay. */
export function mergeFields(value: unknown, over: unknown, schema: Schema | undefined): unknown {
  const base = partsOf(value, schema)
  const top = partsOf(over, schema)
  if (base === undefined || top === undefined) return over
  const merged = new Map<string, unknown>()
  for (const [step, part] of base.steps) merged.set(step, part.value)
  for (const [step, part] of top.steps) {
    merged.set(step, merged.has(step) ? mergeFields(merged.get(step), part.value, part.schema) : part.value)
  }
  if (Array.isArray(over)) return [...merged.values()]
  return Object.fromEntries([...merged].map(([step, part]) => [step.slice(2), part]))
}

/**
 * Why a value cannot be applied: items of a list that are the same, or that nothing identifies. In the words of
 * structured-merge-diff's `typed.ValidationErrors`, each with its path.
 */
export function applyFaults(value: unknown, schema: Schema | undefined, path = ''): readonly string[] {
  if (Array.isArray(value)) return schema?.type === 'list' ? itemFaults(value, schema, path) : []
  if (!isRecord(value) || schema?.type !== 'object') return []
  return Object.entries(value).flatMap(([name, member]) => {
    return Object.hasOwn(schema.fields, name) ? applyFaults(member, schema.fields[name], `${path}.${name}`) : []
  })
}

function itemFaults(items: readonly unknown[], schema: Schema & { type: 'list' }, path: string): readonly string[] {
  const { keys } = schema
  if (keys === undefined) return items.flatMap((item, index) => applyFaults(item, schema.items, `${path}[${index}]`))
  const faults: string[] = []
  const seen = new Set<string>()
  for (const [index, item] of items.entries()) {
    const fault = identityFault(item, schema)
    // Without an identity there is no path to what is below.
    if (fault !== undefined) return [...faults, `${path}: element ${index}: ${fault}`]
    const step = stepOf(item, schema)
    if (seen.has(step)) faults.push(`${path}: duplicate entries for key ${pathStep(step)}`)
    seen.add(step)
    faults.push(...applyFaults(item, schema.items, path + pathStep(step)))
  }
  return faults
}

function identityFault(item: unknown, schema: Schema & { type: 'list' }): string | undefined {
  const { keys = [] } = schema
  if (keys === 'value') {
    if (Array.isArray(item)) return 'not supported: associative list with lists as elements'
    if (item === null) return "associative list without keys has an element that's an explicit null"
    return typeof item === 'object' ? "associative list without keys has an element that's a map type" : undefined
  }
  if (item === null) return 'associative list with keys may not have a null element'
  if (!isRecord(item)) return 'associative list with keys may not have non-map elements'
  if (keysOf(item, schema) !== '{}') return undefined
  const names = keys.map((key) => JSON.stringify(key)).join(' ')
  return `associative list with keys has an element that omits all key fields [${names}] (and doesn't have default values for any key fields)`
}

function isWhole(fields: FieldSet): boolean {
  for (const _ in fields) return false
  return true
}

interface Parts {
  readonly steps: ReadonlyMap<string, { readonly value: unknown; readonly schema: Schema | undefined }>
  /** Whether the container is a field of its own, as maps, lists and pointers are and structs are not. */
  readonly ownsContainer: boolean
}

/** What a value consists of; undefined for one that is owned as a whole. */
function partsOf(value: unknown, schema: Schema | undefined): Parts | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value))
    return schema?.type === 'list' && schema.keys !== undefined ? itemsOf(value, schema) : undefined
  if ((schema?.type === 'object' || schema?.type === 'map') && schema.atomic === true) return undefined
  const members = value as Members
  const steps = new Map<string, { value: unknown; schema: Schema | undefined }>()
  for (const key of Object.keys(members)) {
    if (members[key] === undefined) continue
    const below = schema?.type === 'object' && Object.hasOwn(schema.fields, key) ? schema.fields[key] : undefined
    steps.set(`f:${key}`, { value: members[key], schema: below })
  }
  return { steps, ownsContainer: schema?.type === 'map' || (schema?.type === 'object' && schema.pointer === true) }
}

function itemsOf(items: readonly unknown[], schema: Schema & { type: 'list' }): Parts {
  const steps = new Map<string, { value: unknown; schema: Schema | undefined }>()
  for (const item of items) {
    steps.set(stepOf(item, schema), { value: item, schema: schema.items })
  }
  return { steps, ownsContainer: true }
}

function stepOf(item: unknown, schema: Schema & { type: 'list' }): string {
  return schema.keys === 'value' ? `v:${JSON.stringify(item)}` : `k:${keysOf(item as Members, schema)}`
}

function keysOf(item: Members, { keys = [], items }: Schema & { type: 'list' }): string {
  const values = [...(keys as readonly string[])]
    .sort()
    .map((key) => [key, item[key] ?? defaultIn(items, key)] as const)
  return JSON.stringify(Object.fromEntries(values.filter(([, value]) => value !== undefined)))
}

function defaultIn(schema: Schema, field: string): string | undefined {
  const member = schema.type === 'object' ? schema.fields[field] : undefined
  return member?.type === 'string' ? member.default : undefined
}

function pathStep(step: string): string {
  if (step.startsWith('f:')) return `.${step.slice(2)}`
  if (step.startsWith('v:')) return `[=${step.slice(2)}]`
  const keys = Object.entries(JSON.parse(step.slice(2)) as Members)
  return `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(',')}]`
}
