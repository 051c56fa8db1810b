import { type Apiserver, type ApiserverOptions, startApiserver } from './apiserver.ts'
import { type Etcd, startEtcd } from './etcd.ts'
import type { Owner } from './owner.ts'

/** An etcd and the API server on it. */
export interface Cluster {
  readonly etcd: Etcd
  readonly server: Apiserver
}

export async function startCluster(owner: Owner, options: Omit<ApiserverOptions, 'etcd'>): Promise<Cluster> {
  const etcd = await startEtcd(owner)
  return { etcd, server: await startApiserver(owner, { ...options, etcd }) }
}
