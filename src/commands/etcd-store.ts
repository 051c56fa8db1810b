import type { Resolved } from '../config/resolve.ts'
import type { EtcdKv } from '../etcd/kv.ts'
import type { Surroundings } from './api-server.ts'

/** Opens the etcd that the configuration names, if any; contacts nobody yet. Nothing of it is loaded without need. */
export async function openEtcd({ configuration }: Resolved, surroundings: Surroundings): Promise<EtcdKv | undefined> {
  const { etcdServers: endpoints, etcdCafile: cafile, etcdCertfile: certfile, etcdKeyfile: keyfile } = configuration
  if (endpoints === undefined) return undefined
  const { connectEtcd } = await import('../etcd/connect-etcd.ts')
  return connectEtcd({ endpoints, cafile, certfile, keyfile, ...surroundings })
}
