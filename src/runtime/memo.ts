/**
 * Caches up to `limit` results of a pure function of few recurring texts. Results are shared: no caller may change
 * them.
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
