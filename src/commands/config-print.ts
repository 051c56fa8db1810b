import { printOptions } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import { takeOwnOptions } from '../config/own-options.ts'
import { printJson, printYaml } from '../config/print.ts'
import type { Flags } from '../config/resolve.ts'

/** Prints every effective value and where it comes from, or throws the mistakes. Contacts nothing. */
export async function execute(flags: Flags): Promise<number> {
  const { own, rest } = takeOwnOptions(printOptions, flags)
  const { settings } = await loadConfiguration(rest)
  process.stdout.write(own.output === 'yaml' ? printYaml(settings) : printJson(settings))
  return 0
}
