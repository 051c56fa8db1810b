import type { MasterOptions } from '../bootstrap/master-options.ts'
import type { Configuration } from './configuration.ts'
import { masterOptionsOf } from './master-options.ts'
import { resolveConfiguration } from './resolve.ts'

/** Settings by their names in a configuration file, as texts, as flags would have them. */
export type MasterSettings = { readonly [Key in keyof Configuration]?: string } & {
  /** Required: the address at which clients reach this master's API server. */
  readonly advertiseAddress: string
}

/**
 * The options of a master from settings as one would write them: `defineMaster({ advertiseAddress: '192.0.2.1', leaseTtl: '6s',
 * reconcileInterval: '4s' }, 'host-1')`. What is left out has its default.
 *
 * Settings of the program around a master (connection, logging, health server) have no effect here.
 *
 * @param host - names the machine in the holder record: the same for each life of the same master.
 * @throws InvalidInputError with every mistake, one line each.
 */
export function defineMaster(settings: MasterSettings, host: string): MasterOptions {
  // The connection is the embedding program's; any will do for the rules between settings.
  const { configuration } = resolveConfiguration({ ...settings, embedded: 'true' })
  return masterOptionsOf(configuration, host)
}
