import { isRecord } from '../kube/resources.ts'
import { DEEPEST_NESTING } from '../kube/transport.ts'

/** Go's unicode.IsPrint. The only space that it accepts is U+0020. */
export function isPrintable(character: string): boolean {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character)
}

/** Go's strconv.Quote, which `%q` prints. */
export function goQuoted(text: string): string {
  return `"${[...text].map(quotedCharacter).join('')}"`
}

const escapes: ReadonlyMap<string, string> = new Map([
  ['"', '\\"'],
  ['\\', '\\\\'],
  ['\x07', '\\a'],
  ['\b', '\\b'],
  ['\f', '\\f'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
  ['\v', '\\v'],
])

function quotedCharacter(character: string): string {
  const escaped = escapes.get(character)
  if (escaped !== undefined || isPrintable(character)) return escaped ?? character
  const code = character.codePointAt(0) ?? 0
  const hex = code.toString(16)
  if (code < 0x80) return `\\x${hex.padStart(2, '0')}`
  return code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`
}

/** The Go type to which a JSON value decodes, as `%s` prints it. */
export function goTypeOf(value: unknown): string {
  if (value === null || value === undefined) return '%!s(<nil>)'
  if (Array.isArray(value)) return '[]interface {}'
  if (typeof value === 'object') return 'map[string]interface {}'
  if (typeof value === 'number') return Number.isInteger(value) ? 'int64' : 'float64'
  return typeof value === 'boolean' ? 'bool' : typeof value
}

/**
 * A value as Go's `%v` prints it. Values that are nested more than {@link DEEPEST_NESTING} levels deep become `...`.
 */
export function goText(value: unknown, depth = 1): string {
  if (depth > DEEPEST_NESTING) return '...'
  if (Array.isArray(value)) return `[${value.map((item) => goText(item, depth + 1)).join(' ')}]`
  if (!isRecord(value)) return value === null ? '<nil>' : String(value)
  const members = Object.keys(value).sort()
  return `map[${members.map((key) => `${key}:${goText(value[key], depth + 1)}`).join(' ')}]`
}
