import assert from 'node:assert/strict'

/**
 * Asserts that `actual` equals `expected` as upstream's tables compare: an empty list or string equals an absent one,
 * and all times are equal.
 *
 * @param defaults - `refuse`: only the fields that a server sets in metadata may be there in addition. `allow`: fields
 *   that `expected` does not have may be there too, because the server sets them; lists must still have the same
 *   length.
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

/** The value without empty fields and without fields that a server sets, and with all times equal. */
function semantic(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(semantic)
  if (!isRecord(value)) return value
  const nonEmpty = Object.entries(value).filter(([key, inner]) => !isEmpty(inner) && !SERVER_FIELDS.has(key))
  return Object.fromEntries(nonEmpty.map(([key, inner]) => [key, TIME_FIELDS.has(key) ? 'some time' : semantic(inner)]))
}

/** Whether it is the zero value of a list or a string in Go, which is written or left out depending on the type. */
function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)
}

const SERVER_FIELDS = new Set(['uid', 'resourceVersion', 'generation', 'creationTimestamp', 'managedFields'])
const TIME_FIELDS = new Set(['deletionTimestamp', 'lastTransitionTime'])

/** `value` without the fields that `named` does not have. */
function onlyNamed(value: unknown, named: unknown): unknown {
  if (Array.isArray(value) && Array.isArray(named)) return value.map((item, index) => onlyNamed(item, named[index]))
  if (!isRecord(value) || !isRecord(named)) return value
  const common = Object.keys(value).filter((key) => Object.hasOwn(named, key))
  return Object.fromEntries(common.map((key) => [key, onlyNamed(value[key], named[key])]))
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
