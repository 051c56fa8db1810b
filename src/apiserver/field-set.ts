import { isRecord } from '../kube/resources.ts'
import { getOrMake } from '../runtime/memo.ts'

/**
 * A set of paths in an object, in the form of metav1.FieldsV1. A path has steps: `f:` is a field, `k:` an item of a
 * list by its keys, `v:` an item by its value, `i:` an item by its index. Each step leads to a node, which is a
 * FieldSet too. A path is in the set if its last node is `{}` or has `.`. Whether a path below it is in the set depends
 * on the node of that path.
 */
export interface FieldSet {
  readonly [step: string]: FieldSet
}

/** The empty set. As a node, it stands for a path that is in the set, with no other paths below it. */
export const noFields: FieldSet = Object.freeze({})

export function isEmpty(fields: FieldSet): boolean {
  for (const _ in fields) return false
  return true
}

/** Whether the path to a node is itself in the set. */
export function isMember(node: FieldSet | undefined): boolean {
  return node !== undefined && (isEmpty(node) || Object.hasOwn(node, '.'))
}

/**
 * Makes the node of a path. `member`: whether the path itself is in the set. `below`: the paths below it that are in
 * the set. Undefined if neither the path nor a path below it is in the set.
 */
export function nodeOf(member: boolean, below: FieldSet): FieldSet | undefined {
  if (isEmpty(below)) return member ? noFields : undefined
  return member ? { '.': noFields, ...below } : below
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  return combined(a, b, (inA, inB) => inA || inB)
}

/** The union of many sets, in time that grows with their total size. */
export function unionOf(sets: readonly FieldSet[]): FieldSet {
  const nodes = new Map<string, FieldSet[]>()
  for (const fields of sets) {
    for (const [step, node] of Object.entries(fields)) getOrMake(nodes, step, (): FieldSet[] => []).push(node)
  }
  nodes.delete('.')
  const steps = [...nodes].map(([step, same]) => [step, nodeOf(same.some(isMember), unionOf(same))] as const)
  return Object.fromEntries(steps.filter((entry): entry is [string, FieldSet] => entry[1] !== undefined))
}

export function without(a: FieldSet, b: FieldSet): FieldSet {
  return combined(a, b, (inA, inB) => inA && !inB)
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  return combined(a, b, (inA, inB) => inA && inB)
}

function combined(a: FieldSet, b: FieldSet, holds: (inA: boolean, inB: boolean) => boolean): FieldSet {
  const countsB = holds(false, true)
  // A shortcut, because most nodes are leaves.
  if (isEmpty(a) && (!countsB || isEmpty(b))) return noFields
  const fields: Record<string, FieldSet> = {}
  // `b` may be much larger than each of the many sets from which its paths are taken away.
  const steps = new Set(countsB ? [...Object.keys(a), ...Object.keys(b)] : Object.keys(a))
  steps.delete('.')
  for (const step of steps) {
    const mine = ownNode(a, step)
    const theirs = ownNode(b, step)
    const below = combined(mine ?? noFields, theirs ?? noFields, holds)
    const node = nodeOf(holds(isMember(mine), isMember(theirs)), below)
    if (node !== undefined) fields[step] = node
  }
  return fields
}

function ownNode(fields: FieldSet, step: string): FieldSet | undefined {
  return Object.hasOwn(fields, step) ? fields[step] : undefined
}

/**
 * The paths of a set, each after `prefix`, in kube-apiserver's notation and order:
 * `.spec.ports[port=80,protocol="TCP"].name`.
 */
export function pathsOf(fields: FieldSet, prefix = ''): readonly string[] {
  const steps = Object.keys(fields)
    .filter((step) => step !== '.')
    .sort()
  return [
    ...steps.filter((step) => isMember(fields[step])).map((step) => prefix + pathStep(step)),
    ...steps.flatMap((step) => pathsOf(fields[step] as FieldSet, prefix + pathStep(step))),
  ]
}

/** Whether a key in a set that a client sent is a valid step, or `.`. */
export function isStep(step: string): boolean {
  if (step === '.' || step.startsWith('f:') || /^i:\d+$/.test(step)) return true
  if (!step.startsWith('k:') && !step.startsWith('v:')) return false
  try {
    const value: unknown = JSON.parse(step.slice(2))
    return step.startsWith('v:') || isRecord(value)
  } catch {
    return false
  }
}

export function pathStep(step: string): string {
  if (step.startsWith('i:')) return `[${step.slice(2)}]`
  if (step.startsWith('f:')) return `.${step.slice(2)}`
  if (step.startsWith('v:')) return `[=${step.slice(2)}]`
  const keys = Object.entries(JSON.parse(step.slice(2)) as Readonly<Record<string, unknown>>)
  return `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(',')}]`
}
