import * as z from 'zod/mini'
import {
  flagOf,
  inputKindOf,
  inputOfFlag,
  type Option,
  type OptionGroup,
  type OptionInput,
  type Rule,
  splitList,
  type ValuesOf,
} from '../documents/option.ts'
import { describeIssue, didYouMean, InvalidInputError, type Mistake, parseInput } from '../documents/validation.ts'
import type { YamlDocument } from '../documents/yaml.ts'
import { isRecord } from '../kube/resources.ts'
import { allOptions, apiVersion, type Configuration, kind, rules as rulesOfRun } from './configuration.ts'

/** The texts of the given flags, by key. */
export type Flags = Readonly<Record<string, string | undefined>>

export type Source =
  | { readonly type: 'flag' }
  | { readonly type: 'file'; readonly position: string }
  | { readonly type: 'default' }
  /** No value was given, and there is no default. */
  | { readonly type: 'unset' }

/** One option with its effective value, as a configuration file would contain it. */
export interface Setting {
  readonly key: string
  readonly option: Option
  readonly source: Source
  readonly value: OptionInput | undefined
}

export interface Resolved {
  readonly configuration: Configuration
  readonly settings: readonly Setting[]
  /** Where a mistake in a setting is: in its flag, or at its position in the file. */
  placeOf(key: keyof Configuration): string
}

/**
 * Composes flags, a configuration file and the defaults, in this order of precedence, and checks every value and rule.
 * `rules` are by default those of `run`. A rule about a malformed value is skipped. Pure. Throws an
 * {@link InvalidInputError} with every mistake, each with its flag or its position in the file.
 */
export function resolveConfiguration(
  flags: Flags,
  document?: YamlDocument,
  rules: readonly Rule<Configuration>[] = rulesOfRun,
): Resolved {
  const file =
    document === undefined ? { values: {}, mistakes: [] } : readDocument(document, { apiVersion, kind }, allOptions)
  const mistakes: Mistake[] = [...file.mistakes]
  const fileValues = withoutReplaced(file.values, flags)
  const values: Record<string, unknown> = {}
  const settings: Setting[] = []
  const malformed = new Set<string>()

  for (const [key, option] of allOptions) {
    const { input, source } = inputOf(key, option, flags, fileValues, document)
    if (input === undefined) {
      settings.push({ key, option, source, value: undefined })
      continue
    }
    const value = parsed(option.schema, input, mistakes, (path) => placeOf(key, source, document, path))
    if (value === undefined) {
      malformed.add(key)
      continue
    }
    values[key] = value
    settings.push({ key, option, source, value: z.encode(option.schema, value) as OptionInput })
  }

  const placeOfKey = (key: string): string =>
    placeOf(key, settings.find((setting) => setting.key === key)?.source ?? { type: 'unset' }, document)
  const configuration = values as unknown as Configuration
  for (const rule of rules) {
    if ([rule.on, ...(rule.needs ?? [])].some((key) => malformed.has(key))) continue
    const message = rule.breach(configuration)
    if (message !== undefined) mistakes.push({ where: placeOfKey(rule.on), message })
  }
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return { configuration, settings, placeOf: placeOfKey }
}

/** The parsed value of an option; undefined if the input is malformed. The mistakes are then added to `mistakes`. */
function parsed(
  schema: Option['schema'],
  input: unknown,
  mistakes: Mistake[],
  placeOf: (pathOfItem: readonly number[]) => string,
): unknown {
  const result = parseInput(schema, input)
  if (result.success) return result.data
  for (const issue of result.error.issues) {
    const path = issue.path.filter((step) => typeof step === 'number')
    mistakes.push({ where: placeOf(path), message: describeIssue(issue, input) })
  }
  return undefined
}

type FileValues = Readonly<Record<string, unknown>>

/** The values in the file, without those that a given flag replaces (`Option.replaces`). */
function withoutReplaced(values: FileValues, flags: Flags): FileValues {
  const file = { ...values }
  for (const [key, option] of allOptions) {
    if (flags[key] === undefined || flags[key] === 'false') continue
    for (const replaced of option.replaces ?? []) delete file[replaced]
  }
  return file
}

function inputOf(
  key: string,
  option: Option,
  flags: Flags,
  file: FileValues,
  document: YamlDocument | undefined,
): { readonly input: unknown; readonly source: Source } {
  const text = flags[key]
  if (text !== undefined) return { input: inputOfFlag(option.schema, text), source: { type: 'flag' } }
  if (Object.hasOwn(file, key)) {
    const input = inputOfDocument(option.schema, file[key])
    return { input, source: { type: 'file', position: document?.positionOf([key]) ?? '' } }
  }
  const isGiven = (other: string): boolean =>
    (flags[other] !== undefined && flags[other] !== 'false') || (file[other] !== undefined && file[other] !== false)
  const input = option.conditionalDefault?.value(isGiven) ?? option.default
  return { input, source: { type: input === undefined ? 'unset' : 'default' } }
}

function placeOf(
  key: string,
  source: Source,
  document: YamlDocument | undefined,
  path: readonly (string | number)[] = [],
): string {
  if (source.type !== 'file' || document === undefined) return `--${flagOf(key)}`
  return `${document.positionOf([key, ...path])}: ${key}`
}

interface DocumentHead {
  readonly apiVersion: string
  readonly kind: string
}

/** The parsed values of a document with these options, by key. Throws an {@link InvalidInputError}. */
export function readOptions<Options extends OptionGroup['options']>(
  document: YamlDocument,
  head: DocumentHead,
  options: Options,
): Partial<ValuesOf<{ readonly title: ''; readonly options: Options }>> {
  const { values: inputs, mistakes } = readDocument(document, head, Object.entries(options))
  const values: Record<string, unknown> = {}
  for (const [key, given] of Object.entries(inputs)) {
    const { schema } = options[key] as Option
    const placeOf = (path: readonly number[]): string => `${document.positionOf([key, ...path])}: ${key}`
    values[key] = parsed(schema, inputOfDocument(schema, given), mistakes, placeOf)
  }
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return values as ReturnType<typeof readOptions<Options>>
}

function inputOfDocument(schema: z.core.$ZodType, value: unknown): unknown {
  return typeof value === 'string' && inputKindOf(schema) === 'list' ? splitList(value) : value
}

/** Checks the head of the document and the names of its keys. Returns the values unparsed. */
function readDocument(
  document: YamlDocument,
  head: DocumentHead,
  options: readonly (readonly [key: string, option: Option])[],
): { values: Record<string, unknown>; mistakes: Mistake[] } {
  const { value } = document
  const mistakes: Mistake[] = [...document.mistakes]
  const values: Record<string, unknown> = {}
  if (!isRecord(value)) {
    mistakes.push({ where: document.positionOf([]), message: 'must be a mapping of settings' })
    return { values, mistakes }
  }
  for (const [name, expected] of Object.entries(head)) {
    const actual = value[name]
    if (actual === expected) continue
    const message = actual === undefined ? `is missing; it must be ${expected}` : `must be ${expected}`
    mistakes.push({ where: `${document.positionOf([name])}: ${name}`, message })
  }
  const known = [...Object.keys(head), ...options.map(([key]) => key)]
  for (const [key, input] of Object.entries(value)) {
    if (Object.hasOwn(head, key)) continue
    if (known.includes(key)) {
      values[key] = input
      continue
    }
    const meant = didYouMean(key, known)
    const message = `unknown setting ${JSON.stringify(key)}${meant === undefined ? '' : `; did you mean ${meant}?`}`
    mistakes.push({ where: document.positionOf([key], 'key'), message })
  }
  return { values, mistakes }
}

/** The values of a command's own options, and the remaining flags. Throws an {@link InvalidInputError}. */
export function takeOwnOptions<Group extends OptionGroup>(
  group: Group,
  flags: Flags,
): { readonly own: ValuesOf<Group>; readonly rest: Flags } {
  const mistakes: Mistake[] = []
  const own: Record<string, unknown> = {}
  const rest: Record<string, string | undefined> = { ...flags }
  for (const [key, option] of Object.entries(group.options)) {
    const text = flags[key]
    delete rest[key]
    const input = text === undefined ? option.default : inputOfFlag(option.schema, text)
    if (input === undefined) continue
    own[key] = parsed(option.schema, input, mistakes, () => `--${flagOf(key)}`)
  }
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return { own: own as ValuesOf<Group>, rest }
}
