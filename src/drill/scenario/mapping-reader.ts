import type * as z from 'zod/mini'
import { describeIssue, didYouMean, type Mistake, parseInput } from '../../documents/validation.ts'
import type { YamlDocument } from '../../documents/yaml.ts'
import { isRecord } from '../../kube/resources.ts'
import { type FieldsOf, fieldOf, type Key, type Keys } from './schema.ts'

export type Path = readonly (string | number)[]

/** Reads the mappings of a document, and collects every mistake with file, line and column. */
export class MappingReader {
  readonly #document: YamlDocument
  readonly #mistakes: Mistake[] = []

  constructor(document: YamlDocument) {
    this.#document = document
  }

  /** All mistakes, in the order of the file. */
  get mistakes(): readonly Mistake[] {
    const { file, mistakes } = this.#document
    const placeOf = ({ where }: Mistake): readonly number[] =>
      where
        .slice(file.length + 1)
        .split(':')
        .map(Number)
    return [...mistakes, ...this.#mistakes].sort((a, b) => {
      const [lineA = 0, columnA = 0] = placeOf(a)
      const [lineB = 0, columnB = 0] = placeOf(b)
      return lineA - lineB || columnA - columnB
    })
  }

  /**
   * Reads a mapping and its inner mappings into fields. A key without a value counts as missing. After a mistake the
   * result is incomplete.
   * @param what - the name of the mapping in messages, such as `fleet` or `the action kill`.
   */
  read<Of extends Keys>(value: unknown, path: Path, keys: Of, what: string): FieldsOf<Of> {
    const fields: Record<string, unknown> = {}
    if (!isRecord(value)) {
      this.#note(path, `${what} must be a mapping of keys to values`)
      return fields as FieldsOf<Of>
    }
    const names = Object.keys(keys)
    for (const name of Object.keys(value).filter((name) => !names.includes(name))) {
      const meant = didYouMean(name, names)
      const rest = meant === undefined ? `; it takes ${names.join(', ')}` : `; did you mean ${meant}?`
      const where = this.#document.positionOf([...path, name], 'key')
      this.#mistakes.push({ where, message: `${what} has no ${JSON.stringify(name)}${rest}` })
    }
    for (const [name, key] of Object.entries(keys) as [string, Key][]) {
      const at = [...path, name]
      const given = Object.hasOwn(value, name) ? (value[name] ?? undefined) : undefined
      if (given === undefined && key.required) {
        this.#note(at, `${what} needs ${JSON.stringify(name)}: ${key.description}`)
        continue
      }
      const read = key.keys ? this.read(given ?? {}, at, key.keys, name) : this.#parse(key, given ?? key.default, at)
      if (read !== undefined) fields[fieldOf(name, key)] = read
    }
    return fields as FieldsOf<Of>
  }

  /** Notes a mistake in the value at `path`. The noted message begins with the last key in `path`. */
  wrong(path: Path, message: string): void {
    const key = path.findLast((step) => typeof step === 'string')
    this.#note(path, key === undefined ? message : `${key}: ${message}`)
  }

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

  #parse(key: Key, input: unknown, path: Path): unknown {
    if (input === undefined) return undefined
    const { success, data, error } = parseInput(key.schema, input)
    if (success) return data
    // Reports only the wrong type: if a text is given instead of a list, zod also reports the length of the text.
    const ofType = error.issues.find(({ code }) => code === 'invalid_type')
    for (const issue of ofType === undefined ? error.issues : [ofType]) {
      const within = issue.path.filter((step) => typeof step !== 'symbol')
      this.wrong([...path, ...within], describe(issue, input))
    }
    return undefined
  }
}

function describe(issue: z.core.$ZodIssue, input: unknown): string {
  if (issue.code === 'invalid_value' && issue.values.length > 1 && typeof input === 'string') {
    const meant = didYouMean(input, issue.values.map(String))
    if (meant !== undefined) return `there is no ${JSON.stringify(input)}; did you mean ${meant}?`
  }
  return describeIssue(issue, input)
}
