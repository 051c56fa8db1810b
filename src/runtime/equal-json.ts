type Members = Readonly<Record<string, unknown>>

/** Whether two JSON values are equal; fast if they share parts. Members that are undefined count as absent. */
export function equalJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => equalJson(item, b[index]))
  }
  if (Array.isArray(b)) return false
  return sameMembers(a as Members, b as Members)
}

function sameMembers(a: Members, b: Members): boolean {
  let count = 0
  for (const key of Object.keys(a)) {
    if (a[key] === undefined) continue
    count++
    if (!Object.hasOwn(b, key) || !equalJson(a[key], b[key])) return false
  }
  for (const key of Object.keys(b)) if (b[key] !== undefined) count--
  return count === 0
}
