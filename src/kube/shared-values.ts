type Texts = Readonly<Record<string, string>>

/** In characters. Few objects have the same long labels. */
const LONGEST_KEY = 1024

/**
 * Stores one of many equal values, so that thousands of objects can share it. When it holds too many it forgets all,
 * and shared values stay shared; a value with a long key is not stored. So its size is bounded, whatever the objects
 * are.
 */
export class SharedValues<Value> {
  readonly #limit: number
  readonly #values = new Map<string, Value>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /** The stored value of a key; created when there is none. Two equal values must have one key, and no others. */
  get(key: string, make: () => Value): Value {
    if (key.length > LONGEST_KEY) return make()
    const known = this.#values.get(key)
    if (known !== undefined) return known
    if (this.#values.size >= this.#limit) this.#values.clear()
    const value = make()
    this.#values.set(key, value)
    return value
  }
}

/** These properties, of those that there are. */
export function picked<T extends object, Key extends keyof T>(object: T, keys: readonly Key[]): Pick<T, Key> {
  const retained: Partial<Pick<T, Key>> = {}
  for (const key of keys) {
    const value = object[key]
    if (value !== undefined && value !== null) retained[key] = value
  }
  return retained as Pick<T, Key>
}

/** Many objects have equal labels, strings and conditions, and each arrives with its own. */
const strings = new SharedValues<string>(4096)
const labelSets = new SharedValues<Texts>(1024)

/** The one string that equals this one. */
export function sharedString<Text extends string | undefined>(text: Text): Text {
  if (text === undefined || text === null) return text
  return strings.get(text, () => text) as Text
}

/** The one set of labels with these labels in this order, which is the same wherever a Go program has written them. */
export function sharedLabels(labels: Texts | undefined): Texts | undefined {
  if (labels === undefined || labels === null) return undefined
  let key = ''
  // With lengths it says the same of no other labels, also where a server checks none.
  for (const [name, value] of Object.entries(labels)) key += `${name.length} ${value.length} ${name}${value}`
  return labelSets.get(key, () => labels)
}
