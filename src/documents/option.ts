import * as z from 'zod/mini'
import { messageOf } from '../runtime/errors.ts'

/** The value of an option before it is parsed: from a flag's text, or from YAML. */
export type OptionInput = string | number | boolean | readonly string[]

/**
 * One setting, declared once, in the folder of the part that it configures. The flag (`--secure-port`), the YAML key
 * (`securePort`), the help, the reference page and the JSON Schema all follow from the declaration and its key in the
 * group.
 */
export interface Option {
  /** Takes an {@link OptionInput}, and returns the parsed value or its faults. */
  readonly schema: z.ZodMiniType
  /** Stands for the value in the help: `PORT`. Left out for a switch. */
  readonly metavar?: string
  /** The value if the flag is given without a value. Left out: the flag needs a value. */
  readonly bare?: string
  /** One line, lower case, no full stop. */
  readonly description: string
  /** The default as a user would write it. Left out: the value is undefined if none is given. */
  readonly default?: OptionInput
  /** A default that depends on which other options are given. If `value` returns undefined, `default` applies. */
  readonly conditionalDefault?: {
    /** For people: `192.0.2.1 with --embedded`. */
    readonly description: string
    value(given: (key: string) => boolean): OptionInput | undefined
  }
  /** What applies if there is no value and no default, for people: `the kubeconfig's server`. */
  readonly unset?: string
  /** Keys of alternatives: if this option is given as a flag, their values in the configuration file are ignored. */
  readonly replaces?: readonly string[]
}

/** The options of one part, under the heading that the help and the reference page give them. */
export interface OptionGroup {
  readonly title: string
  readonly options: Readonly<Record<string, Option>>
}

type ValueOf<O extends Option> = O extends { readonly default: unknown }
  ? z.output<O['schema']>
  : z.output<O['schema']> | undefined

/** The parsed values of a group, by key. */
export type ValuesOf<Group extends OptionGroup> = {
  readonly [Key in keyof Group['options']]: ValueOf<Group['options'][Key]>
}

/** A condition between options. The schemas check each option alone. */
export interface Rule<Values> {
  /** The option that the error names if the rule is breached. */
  readonly on: keyof Values & string
  /** The options that the rule reads beside `on`. If one of them or `on` is malformed, the rule is not checked. */
  readonly needs?: readonly (keyof Values & string)[]
  /** The fault, as the rest of a line that begins with the option's name; undefined if there is none. */
  breach(values: Values): string | undefined
}

/** A rule: `on` requires `other`. */
export function requires<Values>(on: keyof Values & string, other: keyof Values & string): Rule<Values> {
  const breach = (values: Values): string | undefined =>
    values[on] !== undefined && values[other] === undefined ? `needs --${flagOf(other)}` : undefined
  return { on, needs: [other], breach }
}

/** The flag of a key: `service-cluster-ip-range` for `serviceClusterIpRange`. */
export function flagOf(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

/** The default as the help and the reference page show it; undefined for an option that simply stays off or unset. */
export function defaultTextOf(option: Option): string | undefined {
  const { default: value, conditionalDefault, unset } = option
  if (conditionalDefault !== undefined) return conditionalDefault.description
  if (value === undefined) return unset
  if (value === false) return undefined
  return typeof value === 'object' ? value.join() : String(value)
}

type InputKind = 'text' | 'integer' | 'boolean' | 'list'

/**
 * The form of input that a schema takes; for a pipe, that of its first schema. Throws for a type that no option may
 * have.
 */
export function inputKindOf(schema: z.core.$ZodType): InputKind {
  const { def } = (schema as z.core.$ZodTypes)._zod
  switch (def.type) {
    case 'pipe':
      return inputKindOf(def.in)
    case 'string':
    case 'enum':
      return 'text'
    case 'number':
      return 'integer'
    case 'boolean':
      return 'boolean'
    case 'array':
      return 'list'
    default:
      throw new TypeError(`an option cannot be of type ${def.type}`)
  }
}

/** The words that an enum, or each item in a list of an enum, may be; undefined for any other schema. */
export function choicesOf(schema: z.core.$ZodType): readonly string[] | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod
  if (def.type === 'array') return choicesOf(def.element)
  return def.type === 'enum' ? Object.values(def.entries).map(String) : undefined
}

/**
 * A flag's text in the form that the schema takes. Text without such a form is returned unchanged, and the schema
 * refuses it.
 */
export function inputOfFlag(schema: z.core.$ZodType, text: string): OptionInput {
  switch (inputKindOf(schema)) {
    case 'text':
      return text
    case 'integer':
      return /^-?\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text
    case 'boolean':
      return text === 'true' ? true : text === 'false' ? false : text
    case 'list':
      return splitList(text)
  }
}

/**
 * Comma-separated text as a list; an empty text is the empty list. Nothing is trimmed: the parser of an item refuses
 * spaces.
 */
export function splitList(text: string): readonly string[] {
  return text === '' ? [] : text.split(',')
}

/**
 * A schema for values in text form. `parse` throws an Error with one clear line; `format` is its inverse. `expectation`
 * returns the beginning of the message for an input that is no text: `must be …`. @default must be text
 */
export function parsedText<Value>(
  parse: (text: string) => Value,
  format: (value: Value) => string,
  expectation: (input: unknown) => string | undefined = () => undefined,
): z.ZodMiniCodec<z.ZodMiniString, z.ZodMiniCustom<Value, Value>> {
  return z.codec(z.string({ error: ({ input }) => expectation(input) }), z.custom<Value>(), {
    decode(text, context) {
      try {
        return parse(text)
      } catch (error) {
        context.issues.push({ code: 'custom', message: messageOf(error), input: text })
        return z.NEVER
      }
    },
    encode: format,
  })
}

/** The name of a file. The schema does not read the file. */
export const fileName = z.string().check(z.minLength(1, 'needs the name of a file'))

/** A whole number in [`min`, `max`]. */
export function wholeNumber(min: number, max: number): z.ZodMiniType<number, number> {
  const error = `must be a whole number from ${min} to ${max}`
  // The abort prevents a second, equal message if a number is neither whole nor in the range.
  return z.int({ error, abort: true }).check(z.gte(min, { error }), z.lte(max, { error }))
}
