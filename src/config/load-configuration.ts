import { readFile } from 'node:fs/promises'
import type { Rule } from '../documents/option.ts'
import { unreadableReason } from '../documents/unreadable.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { Configuration } from './configuration.ts'
import { type Flags, type Resolved, resolveConfiguration } from './resolve.ts'

/**
 * The configuration from flags and, where `--config` names one, a configuration file; the YAML parser is loaded only then.
 * Throws an {@link InvalidInputError} with every mistake, an unreadable file among them.
 */
export async function loadConfiguration(flags: Flags, rules?: readonly Rule<Configuration>[]): Promise<Resolved> {
  const file = flags.config
  if (file === undefined) return resolveConfiguration(flags, undefined, rules)
  const text = await readFile(file, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new InvalidInputError([{ where: '--config', message: `cannot read ${file}: ${unreadableReason(cause)}` }], {
      cause,
    })
  })
  const { parseYaml } = await import('../documents/yaml.ts')
  return resolveConfiguration(flags, parseYaml(text, file), rules)
}
