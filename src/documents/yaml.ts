import {
  type Alias,
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  type ParsedNode,
  parseAllDocuments,
  visit,
  type YAMLError,
  type YAMLMap,
} from 'yaml'
import { getOrMake } from '../runtime/memo.ts'
import { withoutSecrets } from '../telemetry/secrets.ts'
import { InvalidInputError, type Mistake } from './validation.ts'

/** The longest file, in characters. Every real configuration is shorter. */
const MAX_LENGTH = 256 << 10
/** The most aliases in a file, and the most copies that they may expand to. Many aliases are slow to resolve. */
const MAX_ALIASES = 20
/** How many bad lines are reported. More mean that a file is not YAML, and each may require a walk through the file. */
const MAX_BAD_LINES = 100

export interface YamlDocument {
  readonly file: string
  /** Plain data, by YAML 1.2's core schema: `yes` is text, `0o17` a number. */
  readonly value: unknown
  /**
   * Mistakes for repeated keys. `value` has the last value of each such key. A caller that refuses the document reports
   * these mistakes too.
   */
  readonly mistakes: readonly Mistake[]
  /**
   * The position of the value at `path`, or of its key: `FILE:LINE:COLUMN`, counted from 1. If there is no such value,
   * the position of its nearest parent. A value within an alias has its position in the node with the anchor.
   */
  positionOf(path: readonly (string | number)[], of?: 'key' | 'value'): string
}

/**
 * Reads one YAML document. `file` is only for messages. Duplicate keys alone do not throw: they are the `mistakes` of
 * the result. An error about the syntax lists the duplicate keys too. `maxLength` is in characters.
 * @throws InvalidInputError for an empty or too long text; for mistakes in the syntax, for keys that are lists,
 *   mappings or aliases, and for a second document, with the line and column of each; or else for too many aliases or
 *   copies, and for aliases that have no anchor or whose value contains the alias
 */
export function parseYaml(text: string, file: string, maxLength = MAX_LENGTH): YamlDocument {
  if (text.length > maxLength)
    throw new InvalidInputError([{ where: file, message: `is larger than ${maxLength / 1024} KiB` }])
  const lines = new LineCounter()
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `${file}:${line}:${col}`
  }
  const refuseAny = (mistakes: readonly Mistake[]): void => {
    if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  }
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
  const [document, second] = 'empty' in documents ? [] : documents
  if (document === undefined) throw new InvalidInputError([{ where: at(0), message: 'is empty' }])
  const errors = syntaxMistakes(text, document, (offset) => lines.linePos(offset).line)
  // Broken text can parse to odd keys, which are not mistakes of their own.
  const syntax = errors.length > 0 ? errors : keysWithoutName(document.contents)
  const mistakes = [...syntax, ...duplicateKeys(document.contents).map((offset) => duplicateKeyAt(text, offset))]
    .sort((a, b) => a.offset - b.offset)
    .map(({ offset, message }) => ({ where: at(offset), message }))
  if (second !== undefined) {
    mistakes.push({ where: at(second.range[0]), message: 'a second document begins here; only one is allowed' })
  }
  if (second !== undefined || syntax.length > 0) refuseAny(mistakes)
  const aliases = aliasesOf(document)
  const placeOf = ({ range }: Alias): string => at(range?.[0] ?? 0)
  const [first, ...others] = [...aliases.keys()]
  const more = others[MAX_ALIASES - 1]
  if (more !== undefined) {
    const message = `more than ${MAX_ALIASES} aliases in one file; write the values out instead of *${more.source}`
    refuseAny([{ where: placeOf(more), message }])
  }
  refuseAny(
    [...aliases].flatMap(([alias, target]) => {
      const where = placeOf(alias)
      if (target === undefined) {
        const advice = 'put a value that begins with * in quotation marks'
        return [{ where, message: `the alias *${alias.source} has no anchor; ${advice}` }]
      }
      return isWithin(alias, target)
        ? [{ where, message: `the alias *${alias.source} refers to a value that contains it` }]
        : []
    }),
  )
  try {
    return { file, value: document.toJS({ maxAliasCount: MAX_ALIASES }), mistakes, positionOf }
  } catch (cause) {
    const where = first === undefined ? at(0) : placeOf(first)
    throw new InvalidInputError([{ where, message: `aliases expand to more than ${MAX_ALIASES} copies` }], { cause })
  }

  function positionOf(path: readonly (string | number)[], of: 'key' | 'value' = 'value'): string {
    let node: Node | null | undefined = document?.contents
    let offset = node?.range?.[0] ?? 0
    for (const [depth, step] of path.entries()) {
      if (isAlias(node)) node = aliases.get(node)
      const { key, value } = childOf(node, step)
      const wanted = of === 'key' && depth === path.length - 1 ? key : (value ?? key)
      if (wanted === undefined) break
      offset = wanted.range?.[0] ?? offset
      node = value
    }
    return at(offset)
  }
}

/** The most documents in a text. Parsing a document takes time that grows with its place in the text. */
const MOST_DOCUMENTS = 1_000

/**
 * The values of all YAML documents in a text, without the empty ones. `maxLength` is that of the text, in characters.
 * @throws InvalidInputError for a text that is too long or has too many documents, and for the first document that
 *   {@link parseYaml} refuses or that has duplicate keys
 */
export function parseYamlDocuments(text: string, file: string, maxLength: number): readonly unknown[] {
  if (text.length > maxLength) {
    throw new InvalidInputError([{ where: file, message: `is larger than ${maxLength / 1024} KiB` }])
  }
  const parts = text.split(/^---(?=\s|$)/m)
  if (parts.length > MOST_DOCUMENTS) {
    throw new InvalidInputError([{ where: file, message: `has more than ${MOST_DOCUMENTS} documents` }])
  }
  let line = 0
  return parts.flatMap((part) => {
    // The line breaks in front make positions count from the start of the file.
    const padded = '\n'.repeat(line) + part
    line += part.split('\n').length - 1
    // Skips a document of blank lines and comments.
    if (!/^[^\S\n]*[^\s#]/m.test(part)) return []
    const { value, mistakes } = parseYaml(padded, file, 2 * maxLength)
    if (mistakes.length > 0) throw new InvalidInputError(mistakes)
    return [value]
  })
}

/** The pairs of each mapping by key: the last pair, if several have the same key. */
const pairsByKey = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>()

function childOf(
  node: Node | null | undefined,
  step: string | number,
): { readonly key?: Node | undefined; readonly value?: Node | undefined } {
  if (isSeq(node)) {
    const item = node.items[Number(step)]
    return { value: isNode(item) ? item : undefined }
  }
  if (!isMap(node)) return {}
  const pairs = getOrMake(pairsByKey, node, () => new Map(node.items.map((pair) => [String(pair.key), pair])))
  const pair = pairs.get(String(step))
  return {
    key: isNode(pair?.key) ? pair.key : undefined,
    value: isNode(pair?.value) ? pair.value : undefined,
  }
}

/** Maps each alias, in the order of the text, to the node that it repeats; to undefined if its anchor is missing. */
function aliasesOf(document: Document.Parsed<ParsedNode>): ReadonlyMap<Alias, Node | undefined> {
  const found = new Map<Alias, Node | undefined>()
  const anchors = new Map<string, Node>()
  visit(document, {
    Alias(_, alias) {
      found.set(alias, anchors.get(alias.source))
    },
    Value(_, node) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node)
    },
  })
  return found
}

function isWithin({ range: inner }: Alias, { range: outer }: Node): boolean {
  return inner != null && outer != null && outer[0] <= inner[0] && inner[1] <= outer[1]
}

interface SyntaxMistake {
  readonly offset: number
  readonly message: string
}

/** The offset of each repeated key of a mapping. Takes linear time, unlike the parser's own check. */
function duplicateKeys(contents: Node | null): readonly number[] {
  const found: number[] = []
  visit(contents, {
    Map(_, { items }) {
      const before = new Set<string>()
      for (const { key } of items) {
        // Only documents that allow merge keys have this symbol. As in the parser's check, such a key may be repeated.
        if (!isScalar(key) || typeof key.value === 'symbol') continue
        // Compared as text, because the document becomes an object, whose keys are text.
        const member = String(key.value)
        if (before.has(member)) found.push(key.range?.[0] ?? 0)
        before.add(member)
      }
    },
  })
  return found
}

function duplicateKeyAt(text: string, offset: number): SyntaxMistake {
  const name = shortened(/^[^:\n]*/.exec(text.slice(offset, offset + 200))?.[0])
  return { offset, message: `${name} is given twice` }
}

/** A mistake for each key that is a list, a mapping or an alias: no configuration and no Kubernetes object has one. */
function keysWithoutName(contents: Node | null): readonly SyntaxMistake[] {
  const found: SyntaxMistake[] = []
  visit(contents, {
    Map(_, { items }) {
      for (const { key } of items) {
        if (!isCollection(key) && !isAlias(key)) continue
        found.push({ offset: key.range?.[0] ?? 0, message: 'a key must be text, not a list, a mapping or an alias' })
      }
    },
  })
  return found
}

/**
 * The syntax mistakes of a document in plain words, in the order of the text. One mistake can cause several errors of
 * the parser, so only the first in each line is reported. Without `text` the messages quote nothing.
 */
function syntaxMistakes(
  text: string | undefined,
  { errors, warnings, contents }: Pick<Document.Parsed, 'errors' | 'warnings' | 'contents'>,
  lineAt: (offset: number) => number,
): readonly SyntaxMistake[] {
  const found = [...errors, ...warnings].sort((a, b) => a.pos[0] - b.pos[0])
  const reported = new Set<number>()
  return found.flatMap(({ code, message, pos: [offset] }) => {
    const rest = text?.slice(offset)
    const line = lineAt(offset)
    if (reported.has(line) || reported.size === MAX_BAD_LINES) return []
    reported.add(line)
    const isMultiline = found.some((other) => other.code === 'MULTILINE_IMPLICIT_KEY' && other.pos[0] === offset)
    const known = wordings.find(([ofCode, pattern]) => ofCode === code && pattern.test(message))
    if (known === undefined) {
      if (rest === undefined) return [{ offset, message: 'this is not valid YAML' }]
      return [{ offset, message: `is not valid YAML: ${message.slice(0, 1).toLowerCase()}${message.slice(1)}` }]
    }
    const [, , words, opensHere] = known
    return [
      {
        offset: opensHere === undefined ? offset : startOf(contents, offset, opensHere),
        message: typeof words === 'string' ? words : words({ message, rest, isMultiline }),
      },
    ]
  })
}

interface ParserError {
  readonly message: string
  /** The text from the error on; undefined if it must not be quoted. */
  readonly rest: string | undefined
  /** Whether the parser took several lines for one key. */
  readonly isMultiline: boolean
}

const isFlow = (node: unknown): boolean => isCollection(node) && node.flow === true
const isQuoted = (node: unknown): boolean => isScalar(node) && /^QUOTE/.test(node.type ?? '')
const isNoSetting = ({ rest }: ParserError): string =>
  `${rest === undefined ? 'this line' : shortened(rest.split('\n', 1)[0])} is not a setting: write NAME: VALUE, with a space after the colon`
const INDENTED = 'does not match the indentation of its siblings or parent'
const ANY = /(?:)/

/**
 * The parser's errors in plain words; the first match counts. With `opensHere` the mistake is reported at the start of
 * the innermost node around the error for which `opensHere` is true.
 */
const wordings: readonly (readonly [
  code: YAMLError['code'],
  message: RegExp,
  words: string | ((error: ParserError) => string),
  opensHere?: (node: unknown) => boolean,
])[] = [
  ['TAB_AS_INDENT', ANY, 'this line is indented with a tab; YAML allows only spaces'],
  ['BAD_INDENT', /^Flow.*\]$/, 'the [ here is not closed with ]', isFlow],
  ['BAD_INDENT', /^Flow/, 'the { here is not closed with }', isFlow],
  ['MISSING_CHAR', /must end with a \]$/, 'the [ here is not closed with ]', isFlow],
  ['MISSING_CHAR', /must end with a \}$/, 'the { here is not closed with }', isFlow],
  ['BAD_INDENT', ANY, `this line ${INDENTED}`],
  ['BLOCK_AS_IMPLICIT_KEY', /sequence/, `this list item ${INDENTED}`],
  [
    'BLOCK_AS_IMPLICIT_KEY',
    ANY,
    ({ isMultiline }) =>
      isMultiline
        ? 'the next line is indented as if it belonged to this value; align it with its siblings'
        : 'a second ": " in one line; put the value in quotation marks, or on lines of its own',
  ],
  ['BLOCK_IN_FLOW', ANY, 'a comma is missing: items between [ and ] or { and } are separated by commas'],
  ['MULTILINE_IMPLICIT_KEY', ANY, isNoSetting],
  ['MISSING_CHAR', /closing ["']quote/, 'the quotation mark that begins here is not closed', isQuoted],
  ['MISSING_CHAR', /followed by map values/, isNoSetting],
  ['MISSING_CHAR', /^Comments/, 'a space is missing before #'],
  ['MISSING_CHAR', /^Missing ,/, 'a comma is missing between two items'],
  [
    'BAD_SCALAR_START',
    ANY,
    ({ rest }) => `a value that begins with ${rest?.slice(0, 1) ?? 'such a sign'} must be in quotation marks`,
  ],
  ['BAD_ALIAS', ANY, 'a value that begins or ends like an alias or anchor (* and &) must be in quotation marks'],
  [
    'BAD_DQ_ESCAPE',
    ANY,
    ({ message, rest }) =>
      `${rest === undefined ? 'a backslash' : message.split(' ').at(-1)} is not a valid escape between " and "; write \\\\ for a backslash, or use ' and '`,
  ],
  ['TAG_RESOLVE_FAILED', ANY, 'a value that begins with ! must be in quotation marks; tags are not supported'],
  ['UNEXPECTED_TOKEN', /node end$/, 'nothing may follow the value on this line but a comment'],
  ['UNEXPECTED_TOKEN', /same line with key$/, 'a list begins on a line of its own, below its key'],
  ['UNEXPECTED_TOKEN', /^Unexpected (,|empty item) in/, 'an extra comma, or a missing item'],
  [
    'UNEXPECTED_TOKEN',
    /flow-(seq|map)-end/,
    ({ rest }) => `${rest?.slice(0, 1) ?? 'a bracket'} has no opening bracket`,
  ],
  ['UNEXPECTED_TOKEN', /^(Not a YAML token|Block scalar header)/, 'nothing may follow | or > on its line'],
]

/**
 * The first syntax mistake or repeated key, and its offset; undefined without one. The document must be parsed with
 * `uniqueKeys: false`. The message quotes nothing of the text, because the text may contain credentials.
 */
export function firstSyntaxMistake(document: Pick<Document.Parsed, 'errors' | 'contents'>): SyntaxMistake | undefined {
  const [syntax] = syntaxMistakes(undefined, { ...document, warnings: [] }, (offset) => offset)
  const [repeated] = duplicateKeys(document.contents).toSorted((a, b) => a - b)
  if (repeated === undefined || (syntax !== undefined && syntax.offset <= repeated)) return syntax
  return { offset: repeated, message: 'this key is given twice' }
}

/** The start of the innermost node around `offset` that `accepts` accepts; `offset` if there is none. */
function startOf(contents: Node | null, offset: number, accepts: (node: unknown) => boolean): number {
  let start = offset
  visit(contents, (_, node) => {
    // Pairs have no range. A missing value is null.
    const range = isNode(node) ? node.range : undefined
    if (accepts(node) && range && range[0] <= offset && range[2] >= offset) start = range[0]
  })
  return start
}

function shortened(text: string | undefined): string {
  return JSON.stringify(withoutSecrets(text?.trim() ?? '').slice(0, 80))
}
