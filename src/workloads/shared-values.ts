import type { Labels } from './selector-index.ts'

/**
 * Keeps one of each of many equal values, so that thousands of objects can share it. It forgets all when it holds too many, and what is shared
 * then stays shared; so it never grows beyond that.
 */
export class SharedValues<Value> {
  readonly #limit: number
  readonly #values = new Map<string, Value>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** The value that is kept under a key; made when there is none. Two equal values must have one key, and no others. */
  get(key: string, make: () => Value): Value {
    const known = this.#values.get(key)
    if (known !== undefined) return known
    if (this.#values.size >= this.#limit) this.#values.clear()
    const value = make()
    this.#values.set(key, value)
    return value
  }
}

/** Many objects have the same labels, strings and conditions, and each has come with its own. */
const strings = new SharedValues<string>(4096)
const labelSets = new SharedValues<Labels>(1024)

/** The one string that equals this one. */
export function sharedString<Text extends string | undefined>(text: Text): Text {
  if (text === undefined || text === null) return text
  return strings.get(text, () => text) as Text
}

/** The one set of labels that equals this one in the order of its keys, which is the same wherever a Go program has written them. */
export function sharedLabels(labels: Labels | undefined): Labels | undefined {
  if (labels === undefined || labels === null) return undefined
  let key = ''
  // Neither may be in a label.
  for (const name in labels) key += `${name}=${labels[name]},`
  return labelSets.get(key, () => labels)
}
