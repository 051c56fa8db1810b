import type { EtcdStore } from '../bootstrap/master-options.ts'
import { connectEtcdStore } from '../config/load-etcd-store.ts'
import type { Resolved } from '../config/resolve.ts'
import type { EtcdEndpoint } from '../etcd/endpoint.ts'
import { isLoopbackName } from '../net/address.ts'
import type { Surroundings } from './api-server.ts'
import { checkCertificates, etcdFiles } from './certificate-files.ts'

/**
 * Opens the etcd that the configuration names, if any; contacts nobody yet. Nothing of it is loaded without need.
 * Throws an InvalidInputError for certificates that cannot be read or used. What becomes of them later is etcd/'s business.
 */
export async function openEtcd(resolved: Resolved, surroundings: Surroundings): Promise<EtcdStore | undefined> {
  const { etcdServers, etcdCafile: cafile, etcdCertfile: certfile, etcdKeyfile: keyfile } = resolved.configuration
  if (etcdServers === undefined) return undefined
  const [certificate] = await checkCertificates(resolved, etcdFiles)
  const endpoints = etcdServers.map(({ text }) => text)
  const plain = plainEndpoints(etcdServers)
  if (plain.length > 0) {
    surroundings.logger.warn(
      { endpoints: plain },
      'etcd is asked without TLS over the network: whoever is between can read and change the whole cluster; use https:// and certificates',
    )
  }
  const store = await connectEtcdStore({ endpoints, cafile, certfile, keyfile, ...surroundings })
  return { ...store, user: [certificate?.toLegacyObject().subject.CN].flat()[0] }
}

/** Those that are neither on this machine nor asked with TLS. */
export function plainEndpoints(endpoints: readonly EtcdEndpoint[]): readonly string[] {
  return endpoints
    .filter(({ tls, socketPath, host }) => !tls && socketPath === undefined && !isLoopbackName(host))
    .map(({ text }) => text)
}
