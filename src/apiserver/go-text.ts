/** Go's unicode.IsPrint: of the spaces only the one of ASCII. */
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
