import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags } from '../config/resolve.ts'
import { isGated, openApiServer, openSurroundings } from './api-server.ts'
import { checkCertificates, etcdFiles, healthFiles } from './etcd-store.ts'

/**
 * Prints OK and resolves with 0 if `run` would accept this configuration. Otherwise throws an InvalidInputError with
 * the mistakes. A missing credential file is a mistake here, although `run` waits for the file. Contacts no server.
 */
export async function execute(flags: Flags): Promise<number> {
  const resolved = await loadConfiguration(flags)
  await checkCertificates(resolved, etcdFiles, healthFiles)
  const { configuration } = resolved
  const server = await openApiServer(resolved, await openSurroundings(configuration), { gated: isGated(configuration) })
  await server.close()
  process.stdout.write('OK\n')
  return 0
}
