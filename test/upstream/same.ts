import assert from 'node:assert/strict'

/**
 * Asserts that `actual` says what `expected` says, as upstream's tables compare: an empty list or text equals an absent one,
 * and one time equals another.
 *
 * @param defaults - `refuse`: nothing but what a server puts into metadata may be there in addition. `allow`: fields that
 * `expected` does not name may be there too, because the server fills them in; lists must still have the same length.
 */
export function assertSame(
  actual: unknown,
  expected: unknown,
  what: string,
  defaults: 'refuse' | 'allow' = 'refuse',
): void {
  const wanted = semantic(expected)
  const found = semantic(actual)
  assert.deepEqual(defaults === 'allow' ? onlyNamed(found, wanted) : found, wanted, what)
}

/** The value without empty fields and without those that a server fills in, with every time made equal. */
function semantic(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(semantic)
  if (!isRecord(value)) return value
  const kept = Object.entries(value).filter(([key, inner]) => !isEmpty(inner) && !SERVER_FIELDS.has(key))
  return Object.fromEntries(kept.map(([key, inner]) => [key, TIME_FIELDS.has(key) ? 'some time' : semantic(inner)]))
}

/** What in Go is the zero value of a list or a string: written or left out as the type says, and the same. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)
}

const SERVER_FIELDS = new Set(['uid', 'resourceVersion', 'generation', 'creationTimestamp', 'managedFields'])
const TIME_FIELDS = new Set(['deletionTimestamp', 'lastTransitionTime'])

/** `value` without the fields that `named` does not have. */
function onlyNamed(value: unknown, named: unknown): unknown {
  if (Array.isArray(value) && Array.isArray(named)) return value.map((item, index) => onlyNamed(item, named[index]))
  if (!isRecord(value) || !isRecord(named)) return value
  const kept = Object.keys(value).filter((key) => Object.hasOwn(named, key))
  return Object.fromEntries(kept.map((key) => [key, onlyNamed(value[key], named[key])]))
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
