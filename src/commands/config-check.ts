import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags } from '../config/resolve.ts'
import { isGated, openApiServer, openSurroundings } from './api-server.ts'
import { checkCertificates, etcdFiles, healthFiles } from './etcd-store.ts'

/**
 * Prints OK if `run` would start with this configuration. Otherwise throws an InvalidInputError with the mistakes. A
 * missing credential file is a mistake here, although `run` waits for it. Contacts nothing.
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
