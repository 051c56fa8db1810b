/**
 * Caches the `limit` results of a pure function that were computed last, except undefined. No caller may change a
 * shared result.
 */
export function memoize<T>(read: (text: string) => T, limit: number): (text: string) => T {
  const known = new Map<string, T>()
  return (text) => {
    const before = known.get(text)
    if (before !== undefined) return before
    const result = read(text)
    putLast(known, text, result, limit)
    return result
  }
}

/** Returns the value of `key`. If there is none, first sets the value that `make` returns. */
export function getOrMake<Key, Value>(
  entries: { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown },
  key: Key,
  make: () => Value,
): Value {
  const known = entries.get(key)
  if (known !== undefined) return known
  const value = make()
  entries.set(key, value)
  return value
}

/** Puts an entry last. If there are then more than `limit`, removes the first one. */
export function putLast<Key, Value>(entries: Map<Key, Value>, key: Key, value: Value, limit: number): void {
  entries.delete(key)
  entries.set(key, value)
  if (entries.size > limit) entries.delete(entries.keys().next().value as Key)
}
