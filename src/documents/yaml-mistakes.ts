import { type Document, isCollection, isScalar, type Node, visit, type YAMLError } from 'yaml'

/** A mistake of syntax in plain words, and the offset in the text at which it is to be looked for. */
export interface SyntaxMistake {
  readonly offset: number
  readonly message: string
}

/**
 * What is wrong with the syntax of a document, in the order of the text. Pure. One slip makes the parser stumble several times: of each line
 * the first mistake is told, and every key that is given twice.
 */
export function syntaxMistakes(
  text: string,
  document: Pick<Document.Parsed, 'errors' | 'warnings' | 'contents'>,
  lineAt: (offset: number) => number,
): readonly SyntaxMistake[] {
  const { contents } = document
  const found = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
  const told = new Set<number>()
  return found.flatMap((error) => {
    const [offset] = error.pos
    if (error.code === 'DUPLICATE_KEY') return [{ offset, message: `${keyAt(text, offset)} is given twice` }]
    const line = lineAt(offset)
    if (told.has(line)) return []
    told.add(line)
    const isMultiline = found.some(({ code, pos }) => code === 'MULTILINE_IMPLICIT_KEY' && pos[0] === offset)
    return [inPlainWords({ error, text, contents, isMultiline })]
  })
}

/** Whether these mistakes leave what the document says readable: then what is wrong with that can be told too. */
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
      return at(`what begins here with ${closing === ']' ? '[' : '{'} is not closed with ${closing}`, start)
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

/** Where the last of these nodes begins that reaches as far as `offset`; `offset` where there is none. */
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
