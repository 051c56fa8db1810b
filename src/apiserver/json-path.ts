/** One step of a path: the name of a member, the index of an item, every item, or the items with this member. */
type Step = string | number | '*' | { readonly path: readonly Step[]; readonly value: string }

/** Reads what a path of a CustomResourceDefinition names in an object; undefined where there is nothing. */
export type JsonPath = (object: unknown) => unknown

/**
 * Reads a JSONPath as CustomResourceDefinitions have them for printer columns, selectable fields and subresources:
 * `.spec.replicas`, `.items[0]`, `.a\.b`, `['a.b']`, `.conditions[?(@.type=="Ready")].status`. Of several values the
 * first counts. Undefined for other paths.
 */
export function parseJsonPath(text: string): JsonPath | undefined {
  const steps = stepsOf(text)
  return steps === undefined ? undefined : (object) => firstAt(object, steps)
}

const stepPattern =
  /\.((?:\\.|[^.[\]\\])+)|\[(\d+)\]|\[(\*)\]|\['([^']*)'\]|\["([^"]*)"\]|\[\?\(@((?:\.[^.=\s]+)+)\s*==\s*["']([^"']*)["']\)\]/y

function stepsOf(text: string): readonly Step[] | undefined {
  const path = text.replace(/^\$?(?=[.[])/, '')
  const steps: Step[] = []
  // One of its own: the path in a filter is read in between.
  const pattern = new RegExp(stepPattern)
  while (pattern.lastIndex < path.length) {
    const match = pattern.exec(path)
    if (match === null) return undefined
    const [, name, index, all, single, double, filter, value = ''] = match
    const quoted = single ?? double
    if (name !== undefined) steps.push(name.replaceAll(/\\(.)/g, '$1'))
    else if (index !== undefined) steps.push(Number(index))
    else if (all !== undefined) steps.push('*')
    else if (quoted !== undefined) steps.push(quoted)
    else steps.push({ path: stepsOf(filter ?? '') ?? [], value })
  }
  return steps.length === 0 ? undefined : steps
}

/** The first value that all steps lead to. The others are not made: a definition may have thousands of paths. */
function firstAt(value: unknown, steps: readonly Step[], index = 0): unknown {
  const step = steps[index]
  if (step === undefined) return value
  for (const next of taken(value, step)) {
    const found = firstAt(next, steps, index + 1)
    if (found !== undefined) return found
  }
  return undefined
}

function* taken(value: unknown, step: Step): Generator<unknown, void, undefined> {
  if (typeof value !== 'object' || value === null) return
  const items: readonly unknown[] = Array.isArray(value) ? value : []
  if (step === '*') yield* items
  else if (typeof step === 'object') {
    for (const item of items) if (String(firstAt(item, step.path)) === step.value) yield item
  } else if (Object.hasOwn(value, step)) yield (value as Readonly<Record<string, unknown>>)[step]
}
