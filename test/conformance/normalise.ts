/** Members whose values always differ between two servers. */
const ownValues: ReadonlySet<string> = new Set([
  'uid',
  'resourceVersion',
  'creationTimestamp',
  'deletionTimestamp',
  'lastTransitionTime',
  'time',
  'continue',
])

/** Descriptions are documentation, which the embedded server does not have. */
const omitted: ReadonlySet<string> = new Set(['description', 'storageVersionHash'])

const replacements: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'UID'],
  [/\b10\.(?:9[6-9]|10\d|11[01])\.\d+\.\d+\b(?!\/)/g, 'CLUSTER-IP'],
  [/^\d+[smh]\d*[smh]?$/, 'AGE'],
  [/namespaces \\?"conformance-\d+\\?"/g, 'namespaces "NS"'],
  [/conformance-\d+/g, 'NS'],
  [/in record \(\d+\)/g, 'in record (VERSION)'],
  // The diff of two Go structs, which follows the list of what an update of a Pod may change.
  [/(?<=if it was previously negative\)\n?)\n@@[\s\S]*$/, ''],
]

/** An answer without what differs between any two servers. */
export function normalised(value: unknown): unknown {
  if (typeof value === 'string') return replacements.reduce((text, [from, to]) => text.replace(from, to), value)
  if (Array.isArray(value)) return value.map(normalised)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !omitted.has(key))
      .map(([key, member]) => [key, ownValues.has(key) ? 'OWN' : sortedManagers(key, normalised(member))]),
  )
}

/** Sorted, because the order of managedFields depends on times of whole seconds. */
function sortedManagers(key: string, value: unknown): unknown {
  if (key !== 'managedFields' || !Array.isArray(value)) return value
  return value
    .map((entry) => JSON.stringify(sortedMembers(entry)))
    .sort()
    .map((text) => JSON.parse(text))
}

/** Servers write a field without owned fields below it as `{}` or as `{".":{}}`. */
function sortedMembers(value: unknown): unknown {
  if (!isRecord(value)) return value
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  if (members.length === 1 && members[0]?.[0] === '.') return {}
  return Object.fromEntries(members.map(([key, member]) => [key, sortedMembers(member)]))
}

/** Where two JSON values differ: the path, and both values as JSON, shortened. */
export function differences(a: unknown, b: unknown, path = ''): readonly string[] {
  if (Array.isArray(a) && Array.isArray(b) && a.length === b.length) {
    return a.flatMap((item, index) => differences(item, b[index], `${path}[${index}]`))
  }
  if (isRecord(a) && isRecord(b)) {
    const keys = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort()
    return keys.flatMap((key) => differences(a[key], b[key], `${path}.${key}`))
  }
  const [left, right] = [JSON.stringify(a) ?? 'nothing', JSON.stringify(b) ?? 'nothing']
  return left === right ? [] : [`${path}: real ${left.slice(0, 300)}, embedded ${right.slice(0, 300)}`]
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
