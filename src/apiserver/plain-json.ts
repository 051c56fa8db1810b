/** Whether two JSON values are the same; quick where they share parts. Members that are undefined count as absent. */
export function equalJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => equalJson(item, b[index]))
  }
  if (Array.isArray(b)) return false
  return sameMembers(a as Members, b as Members)
}

type Members = Readonly<Record<string, unknown>>

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

/** Freezes a JSON value through and through; parts that are frozen already are taken to be so all the way down. */
export function deepFrozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const key of Object.keys(value)) deepFrozen((value as Members)[key])
  }
  return value
}
