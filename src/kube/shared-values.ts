type Texts = Readonly<Record<string, string>>

/** The longest key that is stored, in characters. Few objects have the same long labels. */
const LONGEST_KEY = 1024

/**
 * Stores one instance of equal values, so that thousands of objects can share it. The store has a bounded size: it
 * forgets all values at the limit, and stores no value with a long key.
 */
export class SharedValues<Value> {
  readonly #limit: number
  readonly #values = new Map<string, Value>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * The stored value of a key. If there is none, makes one, and stores it unless the key is too long. Different values
   * must have different keys.
   */
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

/** A copy of the object with only these properties, if they are set. */
export function picked<T extends object, Key extends keyof T>(object: T, keys: readonly Key[]): Pick<T, Key> {
  const retained: Partial<Pick<T, Key>> = {}
  for (const key of keys) {
    const value = object[key]
    if (value !== undefined && value !== null) retained[key] = value
  }
  return retained as Pick<T, Key>
}

/** Many objects have equal labels and strings, and each object arrives with its own copies. */
const strings = new SharedValues<string>(4096)
const labelSets = new SharedValues<Texts>(1024)

export function sharedString<Text extends string | undefined>(text: Text): Text {
  if (text === undefined || text === null) return text
  return strings.get(text, () => text) as Text
}

/** The shared instance of these labels in this order. Go programs always write them in the same order. */
export function sharedLabels(labels: Texts | undefined): Texts | undefined {
  if (labels === undefined || labels === null) return undefined
  let key = ''
  // The lengths make the key unambiguous, even if a server does not validate labels.
  for (const [name, value] of Object.entries(labels)) key += `${name.length} ${value.length} ${name}${value}`
  return labelSets.get(key, () => labels)
}
