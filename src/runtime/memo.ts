/**
 * A pure function that remembers its last results, at most `limit` of them: for what is read again and again from the same few texts.
 * What it returns is shared, and must not be changed by anybody.
 */
export function remembering<T>(read: (text: string) => T, limit: number): (text: string) => T {
  const known = new Map<string, T>()
  return (text) => {
    const before = known.get(text)
    if (before !== undefined) return before
    const result = read(text)
    if (known.size >= limit) known.delete(known.keys().next().value as string)
    known.set(text, result)
    return result
  }
}
