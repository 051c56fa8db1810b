import { loadConfiguration } from '../config/load-configuration.ts'
import { printJson, printYaml } from '../config/print.ts'
import type { Flags } from '../config/resolve.ts'
import { InvalidInputError } from '../documents/validation.ts'

/** Prints every effective value and where it comes from, or throws the mistakes. Contacts nothing. */
export async function execute({ output = 'yaml', ...flags }: Flags): Promise<number> {
  if (output !== 'yaml' && output !== 'json') {
    throw new InvalidInputError([
      { where: '--output', message: `must be one of yaml, json, not ${JSON.stringify(output)}` },
    ])
  }
  const { settings } = await loadConfiguration(flags)
  process.stdout.write(output === 'yaml' ? printYaml(settings) : printJson(settings))
  return 0
}
