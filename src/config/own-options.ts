import * as z from 'zod/mini'
import { flagOf, inputOfFlag, type OptionGroup, type ValuesOf } from '../documents/option.ts'
import { describeIssue, InvalidInputError, type Mistake } from '../documents/validation.ts'
import type { Flags } from './resolve.ts'

/**
 * The values of the options that a command has for itself, which no configuration file may hold, and the flags that are left.
 * Throws an {@link InvalidInputError} with every mistake.
 */
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
    const result = z.safeParse(option.schema, input)
    if (result.success) own[key] = result.data
    else {
      const where = `--${flagOf(key)}`
      mistakes.push(...result.error.issues.map((issue) => ({ where, message: describeIssue(issue, input) })))
    }
  }
  if (mistakes.length > 0) throw new InvalidInputError(mistakes)
  return { own: own as ValuesOf<Group>, rest }
}
