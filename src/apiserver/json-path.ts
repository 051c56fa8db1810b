const everyItem = Symbol('every item')

/** The name of a member, the index of an item, every item, or the items that have this value at a path. */
type Step = string | number | typeof everyItem | { readonly path: readonly Step[]; readonly value: string }

/** Called before a piece of work, with its steps. May throw, to end the work. */
export type Spend = (steps: number) => void

/** Reads the value at a path in an object; undefined if there is none. Each value on the way is one step. */
export type JsonPath = (object: unknown, spend?: Spend) => unknown

/**
 * Parses a JSONPath in the form that CustomResourceDefinitions use for printer columns, selectable fields and
 * subresources: `.spec.replicas`, `.items[0]`, `.a\.b`, `['a.b']`, `.conditions[?(@.type=="Ready")].status`. As in
 * client-go, `.*` and `['*']` mean `[*]`, and a backslash makes the next character literal, also in quotes. If a path
 * leads to several values, the first one counts. Returns undefined for a path of another form.
 */
export function parseJsonPath(text: string): JsonPath | undefined {
  const steps = stepsOf(text)
  return steps === undefined ? undefined : (object, spend) => firstAt(object, steps, spend)
}

const stepPattern =
  /\.((?:\\.|[^.[\]\\])+)|\[(\d+)\]|\[(\*)\]|\['([^']*)'\]|\["([^"]*)"\]|\[\?\(@((?:\.[^.=\s]+)+)\s*==\s*["']([^"']*)["']\)\]/y

function stepsOf(text: string): readonly Step[] | undefined {
  const path = text.replace(/^\$?(?=[.[])/, '')
  const steps: Step[] = []
  // A separate copy, because a recursive call for the path in a filter would change `lastIndex`.
  const pattern = new RegExp(stepPattern)
  while (pattern.lastIndex < path.length) {
    const match = pattern.exec(path)
    if (match === null) return undefined
    const [, name, index, all, single, double, filter, value = ''] = match
    const member = name ?? single ?? double ?? all
    if (member !== undefined) steps.push(member === '*' ? everyItem : member.replaceAll(/\\(.)/g, '$1'))
    else if (index !== undefined) steps.push(Number(index))
    else steps.push({ path: stepsOf(filter ?? '') ?? [], value })
  }
  return steps.length === 0 ? undefined : steps
}

/**
 * The first value to which all steps lead. Computes no other value, because a definition may have thousands of paths.
 */
function firstAt(value: unknown, steps: readonly Step[], spend: Spend | undefined, index = 0): unknown {
  spend?.(1)
  const step = steps[index]
  if (step === undefined) return value
  for (const next of taken(value, step, spend)) {
    const found = firstAt(next, steps, spend, index + 1)
    if (found !== undefined) return found
  }
  return undefined
}

/** A JSON value as text. `String` would throw for an object with a member `toString`. */
export function valueText(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function* taken(value: unknown, step: Step, spend: Spend | undefined): Generator<unknown, void, undefined> {
  if (typeof value !== 'object' || value === null) return
  const items: readonly unknown[] = Array.isArray(value) ? value : []
  if (step === everyItem) yield* items
  else if (typeof step === 'object') {
    for (const item of items) {
      const found = firstAt(item, step.path, spend)
      // No object equals a text.
      if ((typeof found !== 'object' || found === null) && valueText(found) === step.value) yield item
    }
  } else if (Object.hasOwn(value, step)) yield (value as Readonly<Record<string, unknown>>)[step]
}
