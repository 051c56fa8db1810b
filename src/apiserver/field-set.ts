import { equalJson } from './plain-json.ts'
import type { Schema } from './schema.ts'

/**
 * Which fields of an object are meant, as metav1.FieldsV1 writes it: `f:` a field, `k:` an item of a list by its keys, `v:` an item by
 * its value, `.` the container itself. An empty set under a name means all of what is there.
 */
export interface FieldSet {
  readonly [step: string]: FieldSet
}

type Members = Readonly<Record<string, unknown>>

const whole: FieldSet = Object.freeze({})

/** All fields of a value. */
export function fieldsOf(value: unknown, schema: Schema | undefined): FieldSet {
  const parts = partsOf(value, schema)
  if (parts === undefined) return whole
  const fields: Record<string, FieldSet> = parts.ownsContainer ? { '.': whole } : {}
  for (const [step, part] of parts.steps) {
    const below = fieldsOf(part.value, part.schema)
    fields[step] = step.startsWith('k:') ? { '.': whole, ...below } : below
  }
  return fields
}

/** The fields that `next` has with another value than `live`, or that only `next` has. Undefined: none. */
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
        ? step.startsWith('k:')
          ? { '.': whole, ...fieldsOf(part.value, part.schema) }
          : fieldsOf(part.value, part.schema)
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
  const kept = new Map<string, unknown>()
  for (const [step, part] of parts.steps) {
    const below = fields[step]
    const left = below === undefined ? part.value : removeFields(part.value, below, part.schema)
    if (left !== undefined) kept.set(step, left)
  }
  if (kept.size === 0 && '.' in fields) return undefined
  if (Array.isArray(value)) return [...kept.values()]
  return Object.fromEntries([...kept].map(([step, left]) => [step.slice(2), left]))
}

/** The value with the fields of `over` laid over it; what `over` does not have stays. */
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

function isWhole(fields: FieldSet): boolean {
  for (const _ in fields) return false
  return true
}

interface Parts {
  readonly steps: ReadonlyMap<string, { readonly value: unknown; readonly schema: Schema | undefined }>
  /** Whether the container is a field of its own, as maps and lists are and structs are not. */
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
  return { steps, ownsContainer: schema?.type === 'map' }
}

function itemsOf(items: readonly unknown[], schema: Schema & { type: 'list' }): Parts {
  const steps = new Map<string, { value: unknown; schema: Schema | undefined }>()
  for (const item of items) {
    const step =
      schema.keys === 'value' ? `v:${JSON.stringify(item)}` : `k:${keysOf(item as Members, schema.keys ?? [])}`
    steps.set(step, { value: item, schema: schema.items })
  }
  return { steps, ownsContainer: true }
}

function keysOf(item: Members, keys: readonly string[]): string {
  const present = keys.filter((key) => item[key] !== undefined)
  return JSON.stringify(Object.fromEntries(present.map((key) => [key, item[key]])))
}

function pathStep(step: string): string {
  if (step.startsWith('f:')) return `.${step.slice(2)}`
  if (step.startsWith('v:')) return `[=${step.slice(2)}]`
  const keys = Object.entries(JSON.parse(step.slice(2)) as Members)
  return `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(',')}]`
}
