import type { EtcdStore } from '../bootstrap/master-options.ts'
import type { ConnectEtcdOptions } from '../etcd/connect-etcd.ts'
import { parseEndpoint } from '../etcd/endpoint.ts'

/**
 * What a master needs to keep its leases and ranges in an etcd or kine: for {@link MasterPorts.etcd}. Contacts nobody yet; `kv.close()` ends it.
 * All that speaks etcd and protobuf is loaded here and nowhere else, for those who use it.
 *
 * @param options - `endpoints` as texts: `https://host:2379`, `http://host:2379` or `unix:///path`.
 * @throws EtcdEndpointError for an endpoint that is none.
 */
export async function connectEtcdStore(
  options: Omit<ConnectEtcdOptions, 'endpoints'> & { readonly endpoints: readonly string[] },
): Promise<EtcdStore> {
  const endpoints = options.endpoints.map(parseEndpoint)
  const [{ connectEtcd }, { EtcdLeases }, { EtcdRangeRegistry }] = await Promise.all([
    import('../etcd/connect-etcd.ts'),
    import('../kubernetes-service/leases/etcd.ts'),
    import('../repair/registries/etcd.ts'),
  ])
  return { kv: connectEtcd({ ...options, endpoints }), Leases: EtcdLeases, Ranges: EtcdRangeRegistry }
}
