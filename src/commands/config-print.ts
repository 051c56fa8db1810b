import { printOptions } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import { printJson, printYaml } from '../config/print.ts'
import { type Flags, takeOwnOptions } from '../config/resolve.ts'

/**
 * Prints every effective value and its source, and resolves with 0. Throws an InvalidInputError with the mistakes.
 * Contacts no server.
 */
export async function execute(flags: Flags): Promise<number> {
  const { own, rest } = takeOwnOptions(printOptions, flags)
  const { settings } = await loadConfiguration(rest)
  process.stdout.write(own.output === 'yaml' ? printYaml(settings) : printJson(settings))
  return 0
}
