import * as z from 'zod/mini'
import type { ValuesOf } from '../../documents/option.ts'
import { describeIssue, didYouMean, type Mistake } from '../../documents/validation.ts'
import type { YamlDocument } from '../../documents/yaml.ts'
import type { Step } from './scenario.ts'
import type { Key, Keys } from './schema.ts'

export type Path = readonly (string | number)[]

/** Values by key; required ones are there, unless there is a mistake. */
export type Read<Of extends Keys> = {
  readonly [Name in keyof Of]: Of[Name] extends { readonly required: true }
    ? z.output<Of[Name]['schema']>
    : ValuesOf<{ readonly title: ''; readonly options: Of }>[Name]
}

/** Reads the mappings of a document, and collects every mistake with file, line and column. */
export class MappingReader {
  readonly #document: YamlDocument
  readonly #mistakes: Mistake[] = []

  constructor(document: YamlDocument) {
    this.#document = document
  }

  /** In the order in which they stand in the file. */
  get mistakes(): readonly Mistake[] {
    const placeOf = ({ where }: Mistake): readonly number[] =>
      where
        .slice(this.#document.file.length + 1)
        .split(':')
        .map(Number)
    return [...this.#document.mistakes, ...this.#mistakes].sort((a, b) => {
      const [lineA = 0, columnA = 0] = placeOf(a)
      const [lineB = 0, columnB = 0] = placeOf(b)
      return lineA - lineB || columnA - columnB
    })
  }

  /**
   * The values of a mapping, by its keys. A value that is wrong counts as left out, and so does one whose key is
   * misspelt. A key without a value is left out. A value that is no mapping has no further faults.
   * @param what - what the mapping is, for messages: `fleet`, `the action kill`.
   */
  read<Of extends Keys>(value: unknown, path: Path, keys: Of, what: string): Read<Of> {
    const given = this.#mappingAt(value, path, what)
    const names = Object.keys(keys)
    const misspelt = new Set<string>()
    for (const name of Object.keys(given)) {
      if (names.includes(name)) continue
      const meant = didYouMean(name, names)
      const rest = meant === undefined ? `; it takes ${names.join(', ') || 'nothing'}` : `; did you mean ${meant}?`
      const where = this.#document.positionOf([...path, name], 'key')
      this.#mistakes.push({ where, message: `${what} has no ${JSON.stringify(name)}${rest}` })
      if (meant !== undefined) misspelt.add(meant)
    }
    const values: Record<string, unknown> = {}
    for (const [name, key] of Object.entries(keys) as [string, Key][]) {
      const input = Object.hasOwn(given, name) ? (given[name] ?? undefined) : undefined
      const read = input === undefined ? undefined : this.#parse(key, input, [...path, name])
      const byDefault = key.default === undefined ? undefined : z.parse(key.schema, key.default)
      values[name] = read ?? byDefault
      const isMissing = key.required && input === undefined && isMapping(value) && !misspelt.has(name)
      if (isMissing) this.#note([...path, name], `${what} needs ${JSON.stringify(name)}: ${key.description}`)
    }
    return values as Read<Of>
  }

  /** Notes a mistake of a value; the name of its key stands before the message. */
  wrong(path: Path, message: string): void {
    const key = path.findLast((step) => typeof step === 'string')
    this.#note(path, key === undefined ? message : `${key}: ${message}`)
  }

  /** Whether the file has a value at this path. */
  has(path: Path): boolean {
    const value = path.reduce<unknown>(
      (at, step) => (at as Record<PropertyKey, unknown> | undefined)?.[step],
      this.#document.value,
    )
    return value !== undefined && value !== null
  }

  #note(path: Path, message: string): void {
    this.#mistakes.push({ where: this.#document.positionOf(path), message })
  }

  #mappingAt(value: unknown, path: Path, what: string): Readonly<Record<string, unknown>> {
    if (isMapping(value)) return value
    if (value !== undefined) this.#note(path, `${what} must be a mapping of keys to values`)
    return {}
  }

  #parse(key: Key, input: unknown, path: Path): unknown {
    const result = z.safeParse(key.schema, input)
    if (result.success) return result.data
    // Of a value of another type nothing else is worth saying.
    const { issues } = result.error
    const [ofType = issues] = issues.filter(({ code, path: at }) => code === 'invalid_type' && at.length === 0)
    for (const issue of [ofType].flat()) {
      const within = issue.path.filter((step) => typeof step !== 'symbol')
      this.wrong([...path, ...within], describe(key, issue, input))
    }
    return undefined
  }
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function describe(key: Key, issue: z.core.$ZodIssue, input: unknown): string {
  if (key.metavar === 'DURATION' && typeof input === 'number')
    return `must be a duration such as ${input}s, not ${input}`
  if (issue.code === 'invalid_value' && issue.values.length > 1 && typeof input === 'string') {
    const meant = didYouMean(input, issue.values.map(String))
    if (meant !== undefined) return `there is no ${JSON.stringify(input)}; did you mean ${meant}?`
  }
  return describeIssue(issue, input)
}

/** A step, and where in the file it stands. */
export interface PlacedStep {
  readonly step: Step
  readonly path: Path
}
