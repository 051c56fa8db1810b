import { isRecord } from '../kube/resources.ts'
import { setMember } from '../protobuf/go-json.ts'
import { equalJson } from '../runtime/equal-json.ts'
import { type FieldSet, isEmpty, isMember, nodeOf, noFields, pathStep } from './field-set.ts'
import type { Members } from './kind.ts'
import { fieldOf, type Schema } from './schema.ts'

type ListSchema = Schema & { type: 'list' }

/**
 * All fields of an applied value (structured-merge-diff's `ToFieldSet`): scalars, values that are owned as a whole,
 * items of lists and maps, and empty maps. A list or map with items is a field only if it is itself an item.
 */
export function fieldsOf(value: unknown, schema: Schema | undefined): FieldSet {
  const fields: Record<string, FieldSet> = {}
  for (const [step, part] of partsOf(value, schema)?.steps ?? []) {
    const below = partsOf(part.value, part.schema)
    const isField = below === undefined || part.isItem || (below.steps.size === 0 && isRecord(part.value))
    const node = nodeOf(isField, below === undefined ? noFields : fieldsOf(part.value, part.schema))
    if (node !== undefined) fields[step] = node
  }
  return fields
}

export interface Comparison {
  readonly added: FieldSet
  readonly modified: FieldSet
  readonly removed: FieldSet
}

const kindsOfChange = ['added', 'modified', 'removed'] as const

/**
 * Down to this depth, parts are first compared as a whole, which is fast if they are equal. To do this at every depth
 * would take too long for a large, deeply nested value.
 */
const DEPTH_OF_WHOLES = 16

/** The fields in which `after` differs from `before` (structured-merge-diff's `Compare`). */
export function compare(before: unknown, after: unknown, schema: Schema | undefined, depth = 1): Comparison {
  if (depth === 1 && equalJson(before, after)) return { added: noFields, modified: noFields, removed: noFields }
  const old = partsOf(before, schema)?.steps ?? none
  const next = partsOf(after, schema)?.steps ?? none
  const changes: Record<keyof Comparison, Record<string, FieldSet>> = { added: {}, modified: {}, removed: {} }
  for (const step of new Set([...old.keys(), ...next.keys()])) {
    const nodes = changesAt(old.get(step), next.get(step), depth)
    for (const change of kindsOfChange) {
      const node = nodes[change]
      if (node !== undefined) changes[change][step] = node
    }
  }
  return changes
}

/** The nodes of one path in the three sets of a comparison. At least one of `before` and `after` is defined. */
function changesAt(before: Part | undefined, after: Part | undefined, depth: number): Partial<Comparison> {
  const { schema, isItem } = (after ?? before) as Part
  const isSame = (): boolean => before !== undefined && after !== undefined && equalJson(before.value, after.value)
  if ((depth <= DEPTH_OF_WHOLES || before?.value === after?.value) && isSame()) return {}
  const [old, next] = [containerAt(before, after), containerAt(after, before)]
  if (depth > DEPTH_OF_WHOLES && !(old?.steps.size && next?.steps.size) && isSame()) return {}
  const whole = before === undefined ? 'added' : after === undefined ? 'removed' : 'modified'
  const isLeaf = (before !== undefined && old === undefined) || (after !== undefined && next === undefined)
  // In Go a struct is never absent.
  const isAlwaysThere = !isItem && (old ?? next)?.canBeAbsent === false
  if (!isAlwaysThere && !old?.steps.size && !next?.steps.size) return { [whole]: noFields }
  const below = compare(before?.value ?? emptyOf(after), after?.value ?? emptyOf(before), schema, depth + 1)
  const isChanged = (change: string): boolean => {
    return change === whole && (isLeaf || (!isAlwaysThere && whole !== 'modified'))
  }
  return Object.fromEntries(
    kindsOfChange.flatMap((change) => {
      const node = nodeOf(isChanged(change), below[change])
      return node === undefined ? [] : [[change, node]]
    }),
  )
}

/** What a part consists of. If the value of `other` is a list or an object, null in `part` counts as an empty one. */
function containerAt(part: Part | undefined, other: Part | undefined): Parts | undefined {
  return part === undefined ? undefined : partsOf(part.value ?? emptyOf(other), part.schema)
}

function emptyOf(part: Part | undefined): unknown {
  if (Array.isArray(part?.value)) return []
  return isRecord(part?.value) ? {} : undefined
}

/** The set, plus each declared field below which the set has members (`EnsureNamedFieldsAreMembers`). */
export function withDeclared(fields: FieldSet, schema: Schema | undefined): FieldSet {
  if (isEmpty(fields)) return noFields
  const all: Record<string, FieldSet> = {}
  for (const [step, node] of Object.entries(fields)) {
    if (step === '.') continue
    const { declared, below } = schemaAt(step, schema)
    const named = withDeclared(node, below)
    const isNamed = isMember(node) || (declared && !isEmpty(named))
    all[step] = nodeOf(isNamed, named) ?? noFields
  }
  return all
}

function schemaAt(step: string, schema: Schema | undefined): Omit<MemberSchema, 'isItem'> {
  if (step.startsWith('f:')) return memberSchema(schema, step.slice(2))
  return { declared: false, below: schema?.type === 'list' ? schema.items : undefined }
}

/** The value without the fields of a set. A list or object in which nothing is left becomes null. */
export function removeFields(value: unknown, fields: FieldSet, schema: Schema | undefined): unknown {
  const parts = partsOf(value, schema)
  if (parts === undefined) return typeof value === 'object' ? null : value
  const retained: [string, unknown][] = []
  for (const [step, part] of parts.steps) {
    const node = Object.hasOwn(fields, step) ? fields[step] : undefined
    if (isMember(node)) continue
    retained.push([step, node === undefined ? part.value : removeFields(part.value, node, part.schema)])
  }
  if (retained.length === 0) return null
  return Array.isArray(value) ? retained.map(([, left]) => left) : membersOf(retained)
}

/** The value with the fields of `over` merged into it; other fields stay. */
export function mergeFields(value: unknown, over: unknown, schema: Schema | undefined): unknown {
  const base = partsOf(value, schema)?.steps
  const top = partsOf(over, schema)?.steps
  // A null that is merged into a container with items counts as an empty container, which changes nothing.
  if (over === null && base !== undefined && base.size > 0) return value
  if (base === undefined || top === undefined) return over
  const merge = (step: string): unknown => {
    const [below, part] = [base.get(step), top.get(step)]
    if (below === undefined || part === undefined) return (below ?? part)?.value
    return mergeFields(below.value, part.value, part.schema)
  }
  if (Array.isArray(over)) return mergedOrder([...base.keys()], [...top.keys()]).map(merge)
  return membersOf([...new Set([...base.keys(), ...top.keys()])].map((step) => [step, merge(step)]))
}

/**
 * The order of the items of two merged lists (structured-merge-diff's `visitListItems`). The items of `top` retain
 * their order. Each other item of `base` comes before the items that it preceded in `base`.
 */
function mergedOrder(base: readonly string[], top: readonly string[]): readonly string[] {
  const [inBase, inTop] = [new Set(base), new Set(top)]
  // An iterator, because removing the first item of a long list would move all others.
  const shared = top.filter((step) => inBase.has(step)).values()
  const order = new Set<string>()
  let next = shared.next().value
  for (let left = 0, right = 0; left < base.length || right < top.length; ) {
    const [old, wanted] = [base[left], top[right]]
    if (old !== undefined && old === wanted) {
      order.add(old)
      left++
      right++
      next = shared.next().value
    } else if (old !== undefined && wanted !== undefined && inTop.has(old) && next !== undefined && next !== old) {
      left++
    } else if (old !== undefined && !inTop.has(old)) {
      order.add(old)
      left++
    } else {
      if (old !== undefined && order.has(old)) left++
      if (wanted === undefined) continue
      order.add(wanted)
      right++
      if (next === wanted) next = shared.next().value
    }
  }
  return [...order]
}

function membersOf(parts: readonly (readonly [string, unknown])[]): Members {
  const members: Record<string, unknown> = {}
  for (const [step, value] of parts) setMember(members, step.slice(2), value)
  return members
}

interface Part {
  readonly value: unknown
  readonly schema: Schema | undefined
  /** Whether the part is an item of a list or map, instead of a field that a schema declares. */
  readonly isItem: boolean
}

interface Parts {
  readonly steps: ReadonlyMap<string, Part>
  /** Whether the value can be absent: maps, lists and pointers can, Go's structs cannot. */
  readonly canBeAbsent: boolean
}

const none: ReadonlyMap<string, Part> = new Map()

/** What a value consists of; undefined for a scalar, null, or a value that is owned as a whole. */
function partsOf(value: unknown, schema: Schema | undefined): Parts | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value))
    return schema?.type === 'list' && schema.keys !== undefined ? itemsOf(value, schema) : undefined
  if ((schema?.type === 'object' || schema?.type === 'map') && schema.atomic === true) return undefined
  const members = value as Members
  const steps = new Map<string, Part>()
  for (const key of Object.keys(members)) {
    if (members[key] === undefined) continue
    const { below, isItem } = memberSchema(schema, key)
    steps.set(`f:${key}`, { value: members[key], schema: below, isItem })
  }
  return { steps, canBeAbsent: canBeAbsent(schema) }
}

function canBeAbsent(schema: Schema | undefined): boolean {
  if (schema?.type === 'object') return schema.pointer === true
  return schema?.type === 'map' || (schema?.type === 'any' && schema.granular === true)
}

interface MemberSchema {
  readonly below: Schema | undefined
  readonly declared: boolean
  readonly isItem: boolean
}

/**
 * What an object's schema states about a member. Fields that our schema leaves out are not items: upstream's schema
 * declares them.
 */
function memberSchema(schema: Schema | undefined, name: string): MemberSchema {
  if (schema?.type === 'object' && Object.hasOwn(schema.fields, name)) {
    return { below: schema.fields[name], declared: true, isItem: false }
  }
  const below =
    schema?.type === 'object' ? schema.others : schema?.type === 'any' && schema.granular ? schema : undefined
  return { below, declared: false, isItem: below !== undefined || schema?.type === 'map' }
}

function itemsOf(items: readonly unknown[], schema: ListSchema): Parts {
  const steps = new Map<string, Part>()
  for (const item of items) {
    steps.set(stepOf(item, schema), { value: item, schema: schema.items, isItem: true })
  }
  return { steps, canBeAbsent: true }
}

function stepOf(item: unknown, schema: ListSchema): string {
  return schema.keys === 'value' ? `v:${JSON.stringify(item)}` : `k:${keysOf((item ?? {}) as Members, schema)}`
}

function keysOf(item: Members, { keys = [], items }: ListSchema): string {
  const values = [...(keys as readonly string[])]
    .sort()
    .map((key) => [key, item[key] ?? defaultIn(items, key)] as const)
  return JSON.stringify(Object.fromEntries(values.filter(([, value]) => value !== undefined)))
}

function defaultIn(schema: Schema, field: string): unknown {
  const member = fieldOf(schema, field)
  return member?.type === 'string' || member?.type === 'any' ? member.default : undefined
}

/**
 * Why a value cannot be applied: a list has two items with the same identity, or an item without an identity. Each
 * fault has its path, in the words of structured-merge-diff's `typed.ValidationErrors`.
 */
export function applyFaults(value: unknown, schema: Schema | undefined, path = ''): readonly string[] {
  if (Array.isArray(value)) return schema?.type === 'list' ? itemFaults(value, schema, path) : []
  if (!isRecord(value) || schema?.type !== 'object') return []
  return Object.entries(value).flatMap(([name, member]) =>
    applyFaults(member, fieldOf(schema, name), `${path}.${name}`),
  )
}

function itemFaults(items: readonly unknown[], schema: ListSchema, path: string): readonly string[] {
  const { keys } = schema
  if (keys === undefined) return items.flatMap((item, index) => applyFaults(item, schema.items, `${path}[${index}]`))
  const faults: string[] = []
  const seen = new Set<string>()
  for (const [index, item] of items.entries()) {
    const fault = identityFault(item, schema)
    // An item without an identity has no path, so its members cannot be checked.
    if (fault !== undefined) return [...faults, `${path}: element ${index}: ${fault}`]
    const step = stepOf(item, schema)
    if (seen.has(step)) faults.push(`${path}: duplicate entries for key ${pathStep(step)}`)
    seen.add(step)
    faults.push(...applyFaults(item, schema.items, path + pathStep(step)))
  }
  return faults
}

function identityFault(item: unknown, schema: ListSchema): string | undefined {
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
