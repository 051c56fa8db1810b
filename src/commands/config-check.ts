import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags } from '../config/resolve.ts'

/** Prints OK, or throws the mistakes. Contacts nothing. */
export async function execute(flags: Flags): Promise<number> {
  await loadConfiguration(flags)
  process.stdout.write('OK\n')
  return 0
}
