import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import {
  isAwaitExpression,
  isBinaryExpression,
  isBlock,
  isCallExpression,
  isConditionalExpression,
  isExpressionStatement,
  isIfStatement,
  isImportDeclaration,
  isNumericLiteral,
  isParenthesizedExpression,
  isPrefixUnaryExpression,
  isPropertyAccessExpression,
  isReturnStatement,
  isTemplateExpression,
  isThrowStatement,
  isTypeNode,
} from 'typescript/unstable/ast/is'

/** One mistake that somebody could make at one place of a source file. */
export interface Mistake {
  readonly kind: string
  /** What the program does wrong, in words. */
  readonly broken: string
  /** The place, and its replacement. */
  readonly start: number
  readonly end: number
  readonly instead: string
}

const K = SyntaxKind
/** Another operator that is as easy to type. */
const swapped: ReadonlyMap<SyntaxKind, string> = new Map([
  [K.LessThanToken, '<='],
  [K.LessThanEqualsToken, '<'],
  [K.GreaterThanToken, '>='],
  [K.GreaterThanEqualsToken, '>'],
  [K.EqualsEqualsEqualsToken, '!=='],
  [K.ExclamationEqualsEqualsToken, '==='],
  [K.AmpersandAmpersandToken, '||'],
  [K.BarBarToken, '&&'],
  [K.PlusToken, '-'],
  [K.MinusToken, '+'],
])
const ofTerms: ReadonlySet<SyntaxKind> = new Set([
  K.AmpersandAmpersandToken,
  K.BarBarToken,
  K.QuestionQuestionToken,
  K.PlusToken,
  K.MinusToken,
])
const methods: ReadonlyMap<string, string> = new Map(
  Object.entries({ max: 'min', min: 'max', some: 'every', every: 'some' }),
)

/** All known mistakes for a file, except in types, imports, messages and log lines. */
export function mistakesIn(file: SourceFile): readonly Mistake[] {
  const found: Mistake[] = []
  const text = (node: Node): string => file.text.slice(node.getStart(file), node.end)
  const short = (node: Node): string => {
    const line = text(node).replace(/\s+/g, ' ')
    return line.length > 60 ? `${line.slice(0, 59)}…` : line
  }
  let inside = 'module'

  const add = (kind: string, broken: string, node: Node, instead: string): void => {
    const start = node.getStart(file)
    found.push({ kind, broken: `${inside}: ${broken}.`, start, end: node.end, instead })
  }
  const remove = (kind: string, broken: string, node: Node): void => {
    const start = file.text.lastIndexOf('\n', node.getStart(file)) + 1
    if (file.text.slice(start, node.getStart(file)).trim() !== '' || file.text[node.end] !== '\n') return
    found.push({ kind, broken: `${inside}: ${broken}.`, start, end: node.end + 1, instead: '' })
  }

  const visit = (node: Node): void => {
    if (isTypeNode(node) || isImportDeclaration(node) || isThrowStatement(node) || isTemplateExpression(node)) return
    if (isExpressionStatement(node) && /\b(?:logger|metrics)\b.*\(/.test(text(node).split('\n', 1)[0] ?? '')) return
    const outside = inside
    inside = nameOf(node) ?? inside
    if (isBinaryExpression(node)) ofOperator(node)
    else if (isPropertyAccessExpression(node)) ofMethod(node)
    else if (isNumericLiteral(node)) {
      if (/^\d$/.test(node.text)) add('number', `has ${+node.text + 1} for ${node.text}`, node, `${+node.text + 1}`)
    } else if (node.kind === K.TrueKeyword) add('flag', 'says false for true', node, 'false')
    else if (node.kind === K.FalseKeyword) add('flag', 'says true for false', node, 'true')
    else if (isPrefixUnaryExpression(node) && node.operator === K.ExclamationToken) {
      add('negation', `drops the "not" of ${short(node)}`, node, text(node.operand))
    } else if (isConditionalExpression(node)) {
      add('branch', `always takes the first of ${short(node)}`, node, text(node.whenTrue))
      add('branch', `always takes the second of ${short(node)}`, node, text(node.whenFalse))
    } else if (isIfStatement(node) && node.elseStatement === undefined) {
      remove('guard', `drops: if (${short(node.expression)})`, node)
    } else if (isExpressionStatement(node)) ofStatement(node.expression, node)
    else if (isReturnStatement(node) && node.expression === undefined) remove('return', 'goes on past a return', node)
    node.forEachChild(visit)
    inside = outside
  }

  const ofOperator = (node: Node): void => {
    if (!isBinaryExpression(node)) return
    const { left, right, operatorToken } = node
    const other = swapped.get(operatorToken.kind)
    const isText = [left, right].some((side) => /^['"`]/.test(text(side)))
    if (isText && operatorToken.kind === K.PlusToken) return
    if (other !== undefined) {
      add('operator', `has ${other} for ${text(operatorToken)} after ${short(left)}`, operatorToken, other)
    }
    if (!ofTerms.has(operatorToken.kind)) return
    add('term', `drops ${text(operatorToken)} ${short(right)}`, node, text(left))
    if (operatorToken.kind !== K.MinusToken)
      add('term', `drops ${short(left)} ${text(operatorToken)}`, node, text(right))
  }

  const ofMethod = (node: Node): void => {
    if (!isPropertyAccessExpression(node) || !isCallExpression(node.parent)) return
    const other = methods.get(node.name.text)
    if (other === undefined || (other.startsWith('m') && text(node.expression) !== 'Math')) return
    add('method', `calls ${other} for ${text(node)}`, node.name, other)
  }

  const ofStatement = (expression: Node, statement: Node): void => {
    if (!isBlock(statement.parent)) return
    if (isAwaitExpression(expression)) {
      add(
        'await',
        `does not wait for ${short(expression.expression)}`,
        statement,
        `void ${text(expression.expression)}`,
      )
    }
    const inner = isParenthesizedExpression(expression) ? expression.expression : expression
    remove('statement', `does not do: ${short(inner)}`, statement)
  }

  file.forEachChild(visit)
  return found
}

/** The name by which a reader finds the place. */
function nameOf(node: Node): string | undefined {
  const isNamed = [K.FunctionDeclaration, K.MethodDeclaration, K.GetAccessor, K.VariableDeclaration].includes(node.kind)
  const name = isNamed ? (node as Node & { readonly name?: Node }).name : undefined
  return node.kind === K.Constructor ? 'constructor' : (name as { readonly text?: string } | undefined)?.text
}
