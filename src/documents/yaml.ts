import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type ParsedNode,
  parseAllDocuments,
  visit,
  type YAMLError,
} from 'yaml'
import { InvalidInputError, type Mistake } from './validation.ts'

/** Every real configuration is shorter; a longer file was given by mistake. */
const MAX_LENGTH = 1 << 20
/** Enough for any honest use of anchors, far from a "billion laughs". */
const MAX_ALIAS_COUNT = 100

/** A YAML document with the position of each of its values. */
export interface YamlDocument {
  readonly file: string
  /** Plain data, by YAML 1.2's core schema: `yes` is text, `0o17` a number. */
  readonly value: unknown
  /** Duplicate keys, of which the last counts. A caller that refuses the document reports them too. */
  readonly mistakes: readonly Mistake[]
  /**
   * `FILE:LINE:COLUMN`, from 1, of the value at `path`, or of its key; if there is no such value, of the nearest
   * parent. The position of a value from an alias is that of its anchor.
   */
  positionOf(path: readonly (string | number)[], of?: 'key' | 'value'): string
}

/**
 * Reads one YAML document. `file` is only for messages. Throws an {@link InvalidInputError} that lists every mistake
 * with its line and column: syntax, tabs, more than one document, aliases without an anchor or without end. Duplicate
 * keys are in its `mistakes`, or in the error if there are other mistakes.
 */
export function parseYaml(text: string, file: string): YamlDocument {
  if (text.length > MAX_LENGTH) throw new InvalidInputError([{ where: file, message: 'is larger than 1 MiB' }])
  const lines = new LineCounter()
  const at = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `${file}:${line}:${col}`
  }
  const refuseAny = (mistakes: readonly Mistake[]): void => {
    if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  }
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true })
  const [document, second] = 'empty' in documents ? [] : documents
  if (document === undefined) throw new InvalidInputError([{ where: at(0), message: 'is empty' }])
  const mistakes = syntaxMistakes(text, document, (offset) => lines.linePos(offset).line).map(
    ({ offset, message }) => ({
      where: at(offset),
      message,
    }),
  )
  if (second !== undefined) {
    mistakes.push({ where: at(second.range[0]), message: 'a second document begins here; only one is read' })
  }
  if (second !== undefined || !isReadable(document)) refuseAny(mistakes)
  const aliases = aliasesOf(document)
  refuseAny(
    aliases
      .filter((alias) => alias.target === undefined)
      .map(({ name, offset }) => ({
        where: at(offset),
        message: `the alias *${name} has no anchor; put a value that begins with * in quotation marks`,
      })),
  )
  try {
    return { file, value: document.toJS({ MAX_ALIAS_COUNT }), mistakes, positionOf }
  } catch (cause) {
    const where = at(aliases[0]?.offset ?? 0)
    throw new InvalidInputError([{ where, message: `aliases expand to more than ${MAX_ALIAS_COUNT} copies` }], {
      cause,
    })
  }

  function positionOf(path: readonly (string | number)[], of: 'key' | 'value' = 'value'): string {
    let node: Node | null | undefined = document?.contents
    let offset = node?.range?.[0] ?? 0
    for (const [depth, step] of path.entries()) {
      if (isAlias(node)) node = node.resolve(document as Document)
      const { key, value } = childOf(node, step)
      const wanted = of === 'key' && depth === path.length - 1 ? key : (value ?? key)
      if (wanted === undefined) break
      offset = wanted.range?.[0] ?? offset
      node = value
    }
    return at(offset)
  }
}

function childOf(
  node: Node | null | undefined,
  step: string | number,
): { readonly key?: Node | undefined; readonly value?: Node | undefined } {
  if (isSeq(node)) {
    const item = node.items[Number(step)]
    return { value: isNode(item) ? item : undefined }
  }
  if (!isMap(node)) return {}
  const pair = node.items.findLast(({ key }) => String(key) === String(step))
  return {
    key: isNode(pair?.key) ? pair.key : undefined,
    value: isNode(pair?.value) ? pair.value : undefined,
  }
}

function aliasesOf(
  document: Document.Parsed<ParsedNode>,
): readonly { readonly name: string; readonly offset: number; readonly target: Node | undefined }[] {
  const found: { name: string; offset: number; target: Node | undefined }[] = []
  visit(document, {
    Alias(_, alias) {
      found.push({ name: alias.source, offset: alias.range?.[0] ?? 0, target: alias.resolve(document) })
    },
  })
  return found
}

/** A mistake of syntax in plain words, and its offset in the text. */
export interface SyntaxMistake {
  readonly offset: number
  readonly message: string
}

/**
 * The syntax mistakes of a document, in the order of the text. Pure. One mistake can cause several errors of the
 * parser: the first mistake of each line is reported, and every duplicate key.
 */
export function syntaxMistakes(
  text: string,
  document: Pick<Document.Parsed, 'errors' | 'warnings' | 'contents'>,
  lineAt: (offset: number) => number,
): readonly SyntaxMistake[] {
  const { contents } = document
  const found = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  const reported = new Set<number>()
  return found.flatMap((error) => {
    const [offset] = error.pos
    if (error.code === 'DUPLICATE_KEY') return [{ offset, message: `${keyAt(text, offset)} is given twice` }]
    const line = lineAt(offset)
    if (reported.has(line)) return []
    reported.add(line)
    const isMultiline = found.some(({ code, pos }) => code === 'MULTILINE_IMPLICIT_KEY' && pos[0] === offset)
    return [inPlainWords({ error, text, contents, isMultiline })]
  })
}

/** Whether the document is readable despite these mistakes: then the mistakes in its contents can be reported too. */
export function isReadable({ errors, warnings }: Pick<Document.Parsed, 'errors' | 'warnings'>): boolean {
  return [...errors, ...warnings].every(({ code }) => code === 'DUPLICATE_KEY')
}

interface Stumble {
  readonly error: YAMLError
  readonly text: string
  readonly contents: Node | null
  /** The parser took several lines for one key. */
  readonly isMultiline: boolean
}

function inPlainWords(stumble: Stumble): SyntaxMistake {
  const { error, text, contents, isMultiline } = stumble
  const [offset] = error.pos
  const { code, message } = error
  const at = (words: string, where = offset): SyntaxMistake => ({ offset: where, message: words })
  const character = text.slice(offset, offset + 1)
  switch (code) {
    case 'TAB_AS_INDENT':
      return at('a tab indents this line; YAML takes blanks only')
    case 'BAD_INDENT': {
      if (!/^Flow/.test(message)) return at('this line is indented neither as its neighbours nor as what contains them')
      const start = startOf(contents, offset, (node) => isCollection(node) && node.flow === true)
      const closing = message.slice(-1)
      return at(`the ${closing === ']' ? '[' : '{'} here is not closed with ${closing}`, start)
    }
    case 'BLOCK_AS_IMPLICIT_KEY':
      if (/sequence/.test(message))
        return at('this list item is indented neither as its neighbours nor as what contains them')
      return at(
        isMultiline
          ? 'the next line is indented as if it belonged to this value; begin it in the column of its neighbours'
          : 'a second ": " in one line; put the value in quotation marks, or on lines of its own',
      )
    case 'BLOCK_IN_FLOW':
      return at('a comma is missing: between [ and ], { and } all that is listed has commas between')
    case 'MULTILINE_IMPLICIT_KEY':
      return at(noSetting(text, offset))
    case 'MISSING_CHAR':
      return missing(stumble, at)
    case 'BAD_SCALAR_START':
      return at(`a value that begins with ${character} must be in quotation marks`)
    case 'BAD_ALIAS':
      return at(`a value that begins or ends like an alias or anchor (* and &) must be in quotation marks`)
    case 'BAD_DQ_ESCAPE':
      return at(
        `${message.split(' ').at(-1)} means nothing between " and "; write \\\\ for a backslash, or use ' and '`,
      )
    case 'TAG_RESOLVE_FAILED':
      return at('a value that begins with ! must be in quotation marks; tags are not taken')
    case 'UNEXPECTED_TOKEN':
      return unexpected(stumble, at)
    default:
      return at(`is no YAML: ${lowerFirst(message)}`)
  }
}

type At = (words: string, where?: number) => SyntaxMistake

function missing({ error: { message, pos }, text, contents }: Stumble, at: At): SyntaxMistake {
  const [offset] = pos
  if (/closing ["']quote/.test(message)) {
    const start = startOf(contents, offset, (node) => isScalar(node) && /^QUOTE/.test(node.type ?? ''))
    return at('the quotation mark that begins here is not closed', start)
  }
  if (/followed by map values/.test(message)) {
    return at(noSetting(text, offset))
  }
  if (/^Comments/.test(message)) return at('a blank is missing before #')
  if (/^Missing ,/.test(message)) return at('a comma is missing between two items')
  return at(`is no YAML: ${lowerFirst(message)}`)
}

function unexpected({ error: { message, pos }, text }: Stumble, at: At): SyntaxMistake {
  const [offset] = pos
  if (/node end$/.test(message)) return at('nothing may follow the value on this line but a comment')
  if (/same line with key$/.test(message)) return at('a list begins on a line of its own, below its key')
  if (/^Unexpected (,|empty item) in/.test(message)) return at('a comma too many, or an item is missing')
  if (/flow-(seq|map)-end/.test(message)) return at(`${text.slice(offset, offset + 1)} closes nothing`)
  if (/^(Not a YAML token|Block scalar header)/.test(message)) return at('nothing may follow | or > on its line')
  return at(`is no YAML: ${lowerFirst(message)}`)
}

/** The start of the last of these nodes that extends to `offset`; `offset` where there is none. */
function startOf(contents: Node | null, offset: number, isMeant: (node: unknown) => boolean): number {
  let start = offset
  visit(contents, (_, node) => {
    const range = (node as Partial<Node>).range
    if (isMeant(node) && range && range[0] <= offset && range[2] >= offset) start = range[0]
  })
  return start
}

function noSetting(text: string, offset: number): string {
  const line = text.slice(offset).split('\n', 1)[0] ?? ''
  return `${JSON.stringify(line.trim().slice(0, 80))} is no setting: write NAME: VALUE, with a blank behind the colon`
}

function keyAt(text: string, offset: number): string {
  return JSON.stringify(/^[^:\n]*/.exec(text.slice(offset))?.[0].trim().slice(0, 80))
}

function lowerFirst(text: string): string {
  return text.slice(0, 1).toLowerCase() + text.slice(1)
}
