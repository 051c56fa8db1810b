import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags } from '../config/resolve.ts'
import { isGated, openApiServer, openSurroundings } from './api-server.ts'
import { checkCertificates, etcdFiles, healthFiles } from './etcd-store.ts'

/**
 * Prints OK if `run` would start; otherwise throws the mistakes for which it would refuse. Unlike `run`, which waits
 * for them, it also throws for missing credential files. Opening the API server checks the kubeconfig and contacts
 * nothing.
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
