import { loadConfiguration } from '../config/load-configuration.ts'
import type { Flags } from '../config/resolve.ts'
import { openApiServer, openSurroundings } from './api-server.ts'
import { checkCertificates, etcdFiles, healthFiles } from './etcd-store.ts'

/**
 * Prints OK if `run` would start; otherwise throws the mistakes for which it would refuse. Opening the API server
 * checks the kubeconfig and contacts nothing.
 */
export async function execute(flags: Flags): Promise<number> {
  const resolved = await loadConfiguration(flags)
  await checkCertificates(resolved, etcdFiles, healthFiles)
  const server = await openApiServer(resolved, await openSurroundings(resolved.configuration), { gated: true })
  await server.close()
  process.stdout.write('OK\n')
  return 0
}
