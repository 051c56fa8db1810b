import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isSeq,
  LineCounter,
  type Node,
  type ParsedNode,
  parseAllDocuments,
  visit,
} from 'yaml'
import { InvalidInputError, type Mistake } from './validation.ts'
import { isReadable, syntaxMistakes } from './yaml-mistakes.ts'

/** No configuration is larger; what is, was given by mistake. */
const maxLength = 1 << 20
/** Enough for any honest use of anchors, far from a "billion laughs". */
const maxAliasCount = 100

/** A YAML document that knows where each of its values stands. */
export interface YamlDocument {
  readonly file: string
  /** Plain data, by YAML 1.2's core schema: `yes` is text, `0o17` a number. */
  readonly value: unknown
  /** Keys that are given twice, of which the last counts: whoever refuses the document for what it says tells of them too. */
  readonly mistakes: readonly Mistake[]
  /**
   * `FILE:LINE:COLUMN`, from 1, of the value at `path`, or of its key; where there is no such value, of the nearest parent.
   * A value that comes from an alias stands where its anchor does.
   */
  positionOf(path: readonly (string | number)[], of?: 'key' | 'value'): string
}

/**
 * Reads one YAML document. `file` is only for messages.
 * Throws an {@link InvalidInputError} that lists every mistake with its line and column: syntax, tabs, more than one document, aliases without
 * an anchor or without end. Keys that are given twice are in its `mistakes`, or in the error where there are others.
 */
export function parseYaml(text: string, file: string): YamlDocument {
  if (text.length > maxLength) throw new InvalidInputError([{ where: file, message: 'is larger than 1 MiB' }])
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
    return { file, value: document.toJS({ maxAliasCount }), mistakes, positionOf }
  } catch (cause) {
    const where = at(aliases[0]?.offset ?? 0)
    throw new InvalidInputError([{ where, message: `aliases expand to more than ${maxAliasCount} copies` }], { cause })
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
