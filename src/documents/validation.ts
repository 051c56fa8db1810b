import * as z from 'zod/mini'
import { messageOf } from '../runtime/errors.ts'
import { withoutSecrets } from '../telemetry/secrets.ts'

/** One mistake, and its place: `--secure-port`, or `sidecar.yaml:7:13: securePort`. */
export interface Mistake {
  readonly where: string
  readonly message: string
}

/** The error for invalid input of a user. It contains every mistake. */
export class InvalidInputError extends Error {
  override readonly name = 'InvalidInputError'
  readonly code = 'InvalidInput'
  readonly mistakes: readonly Mistake[]

  constructor(mistakes: readonly Mistake[], options?: ErrorOptions) {
    super(mistakes.map(formatMistake).join('\n'), options)
    this.mistakes = mistakes
  }
}

export function formatMistake(mistake: Mistake): string {
  return `${mistake.where}: ${mistake.message}`.replace(/\s*[\r\n]+\s*/g, ' ')
}

const NO_MESSAGE = 'Invalid input'

/**
 * Parses `input`. Ignores messages that a host program has configured for all schemas: {@link describeIssue} has its
 * own.
 */
export function parseInput<Schema extends z.core.$ZodType>(
  schema: Schema,
  input: unknown,
): z.core.util.SafeParseResult<z.output<Schema>> {
  return z.safeParse(schema, input, { error: () => NO_MESSAGE })
}

/** An issue as the rest of a sentence: `must be at least 2, not 1`. `input` is what {@link parseInput} has parsed. */
export function describeIssue(issue: z.core.$ZodIssue, input: unknown): string {
  if (issue.code === 'custom') return issue.message
  const value = issue.path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], input)
  const expectation = issue.message === NO_MESSAGE ? expectationOf(issue) : issue.message
  if (Array.isArray(value)) return expectation
  // The expectation of an enum lists the words, unless the schema has a message of its own.
  const isUnlisted = issue.code === 'invalid_value' && issue.message !== NO_MESSAGE && typeof value === 'string'
  const meant = isUnlisted ? didYouMean(value, issue.values.map(String)) : undefined
  return `${expectation}, not ${show(value)}${meant === undefined ? '' : `; did you mean ${meant}?`}`
}

function expectationOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(String).join(', ')}`
    case 'invalid_type':
      return `must be ${nounOf(issue.expected)}`
    case 'too_small':
      return issue.origin === 'array' ? `needs at least ${issue.minimum}` : `must be at least ${issue.minimum}`
    case 'too_big':
      return issue.origin === 'array' ? `takes at most ${issue.maximum}` : `must be at most ${issue.maximum}`
    default:
      return 'is not valid'
  }
}

function nounOf(expected: string): string {
  switch (expected) {
    case 'string':
      return 'text'
    case 'number':
    case 'int':
      return 'a whole number'
    case 'boolean':
      return 'true or false'
    case 'array':
      return 'a list'
    default:
      return `a ${expected}`
  }
}

/** A value for a message, as a person wrote it: at most 80 characters, without secrets. */
export function show(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (typeof value === 'object') return 'a mapping'
  if (typeof value === 'function') return 'a function'
  const text = withoutSecrets(typeof value === 'string' ? JSON.stringify(value) : String(value))
  return text.length > 80 ? `${text.slice(0, 77)}…` : text
}

/**
 * The candidate that `word` probably means, or undefined. Case, dashes and underscores are ignored; beyond that at most
 * a third of the letters may differ. The first of equally similar candidates wins.
 */
export function didYouMean<Candidate extends string>(
  word: string,
  candidates: readonly Candidate[],
): Candidate | undefined {
  const plain = flatten(word)
  let best: Candidate | undefined
  let bestDistance = Math.floor(plain.length / 3) + 1
  for (const candidate of candidates) {
    const distance = editDistance(plain, flatten(candidate))
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

function flatten(word: string): string {
  return word.replace(/[-_]/g, '').toLowerCase()
}

/** The Levenshtein distance: how many insertions, deletions and replacements turn one word into the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}

const fileFaults: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  ENOTDIR: 'no such file',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a directory',
}

/** Why a file could not be used, in a few words for people. */
export function unreadableReason(error: unknown): string {
  return fileFaults[(error as NodeJS.ErrnoException).code ?? ''] ?? messageOf(error)
}
