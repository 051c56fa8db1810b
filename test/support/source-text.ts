/** Words after which a slash begins a regular expression, not a division. */
const beforeExpression =
  /(?:^|[^\w$.])(?:return|typeof|case|in|of|do|else|void|delete|throw|await|yield|instanceof|new)$/

/**
 * A module's text with the contents of its comments, strings, regular expressions and templates (except the code in
 * their `${}`) replaced by spaces. The code stays at its place.
 */
export function codeOf(text: string): string {
  const code: string[] = []
  let at = 0

  const keep = (length = 1): void => {
    code.push(text.slice(at, at + length))
    at += length
  }
  const blankUntil = (end = text.length): void => {
    code.push(text.slice(at, end).replaceAll(/[^\n]/g, ' '))
    at = end
  }
  /** The end of what begins here, by a sticky pattern. */
  const closing = (pattern: RegExp): number | undefined => {
    pattern.lastIndex = at
    const match = pattern.exec(text)
    return match === null ? undefined : match.index + match[0].length
  }
  const quoted = (pattern: RegExp): void => {
    const end = closing(pattern)
    keep()
    if (end === undefined) return
    blankUntil(end - 1)
    keep()
  }
  const template = (): void => {
    keep()
    while (at < text.length) {
      blankUntil(closing(/(?:\\[\s\S]|[^\\`$]|\$(?!\{))*/y))
      if (text[at] === '`') break
      keep(2)
      untilBrace()
      keep()
    }
    keep()
  }
  /** Reads code up to the `}` that closes what was opened before it. */
  const untilBrace = (): void => {
    let depth = 0
    while (at < text.length) {
      const char = text[at]
      if (char === '}' && depth-- === 0) return
      if (char === '{') depth++
      step()
    }
  }
  const slashIsDivision = (): boolean => {
    const before = code.slice(-80).join('').trimEnd()
    return /[\w$)\]}]$/.test(before) && !beforeExpression.test(before)
  }
  const step = (): void => {
    const pair = text.slice(at, at + 2)
    if (pair === '//') blankUntil(closing(/[^\n]*/y))
    else if (pair === '/*') blankUntil(closing(/[\s\S]*?\*\//y))
    else if (pair[0] === "'") quoted(/'(?:\\[\s\S]|[^\\'\n])*'/y)
    else if (pair[0] === '"') quoted(/"(?:\\[\s\S]|[^\\"\n])*"/y)
    else if (pair[0] === '`') template()
    else if (pair[0] === '/' && !slashIsDivision()) quoted(/\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\//y)
    else keep()
  }
  while (at < text.length) step()
  return code.join('')
}

/** One module specifier in a source file. */
export interface Import {
  readonly specifier: string
  readonly kind: 'static' | 'type' | 'dynamic'
}

/** What a module imports or re-exports. The specifier of a dynamic import that is not a literal is empty. */
export function importsOf(text: string): readonly Import[] {
  const code = codeOf(text)
  const literalAt = (quote: number): string => text.slice(quote + 1, code.indexOf(code[quote] ?? '', quote + 1))
  const imports: Import[] = []
  for (const match of code.matchAll(
    /(?<![\w$.])(import|export)(\s+type)?(?:(?=\s*['"])|[\s{*][^'"`;=()]*?\bfrom(?=\s*['"]))\s*/g,
  )) {
    imports.push({
      specifier: literalAt(match.index + match[0].length),
      kind: match[2] === undefined ? 'static' : 'type',
    })
  }
  for (const match of code.matchAll(/(?<![\w$.])import\s*\(\s*/g)) {
    const argument = match.index + match[0].length
    const literal = /^(['"]) *\1\s*[,)]/.test(code.slice(argument))
    imports.push({ specifier: literal ? literalAt(argument) : '', kind: 'dynamic' })
  }
  return imports
}
