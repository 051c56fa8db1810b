import type { ApiserverOptions } from './apiserver.ts'
import { type Cluster, startCluster } from './cluster.ts'
import type { Etcd } from './etcd.ts'
import { type Owner, openOwner } from './owner.ts'
import { removeValues, storedValues, storeValue } from './stored-values.ts'

/** Values of etcd by their keys. */
type Contents = ReadonlyMap<string, Buffer>

interface Started {
  readonly cluster: Cluster
  readonly contents: Contents
}

/** A kube-apiserver renews this Lease, by which others know that it exists. The masters' Leases have longer names. */
const ownLease = /^\/registry\/leases\/kube-system\/apiserver-[a-z0-9]+$/

/**
 * Clusters for the tests of one file. A test reuses the cluster of an earlier test, because a kube-apiserver takes
 * longer to start than many tests take to run. Before that, the contents of etcd are restored to those after the start.
 */
export class ReusedClusters {
  readonly #options: Omit<ApiserverOptions, 'etcd'>
  readonly #owner = openOwner()
  readonly #idle: Started[] = []

  constructor(options: Omit<ApiserverOptions, 'etcd'>) {
    this.#options = options
  }

  /**
   * Returns a cluster that nobody else uses until `owner` is done. A cluster whose processes got a signal meanwhile is
   * not used again.
   */
  async take(owner: Owner): Promise<Cluster> {
    const taken = this.#idle.pop() ?? (await this.#start())
    const { etcd, server } = taken.cluster
    const processes = [etcd.process, server.process]
    owner.after(async () => {
      if (processes.some(({ exit, wasSignalled }) => exit !== undefined || wasSignalled)) return
      await restore(etcd, taken.contents)
      this.#idle.push(taken)
    })
    return taken.cluster
  }

  /**
   * Ends all clusters. Call it after the last test of a suite: a file without a suite has no hook that is early enough.
   */
  close(): Promise<void> {
    return this.#owner.close()
  }

  async #start(): Promise<Started> {
    const cluster = await startCluster(this.#owner, this.#options)
    return { cluster, contents: await storedValues(cluster.etcd, '/') }
  }
}

async function restore(etcd: Etcd, contents: Contents): Promise<void> {
  const now = await storedValues(etcd, '/')
  await removeValues(
    etcd,
    [...now.keys()].filter((key) => !contents.has(key) && !ownLease.test(key)),
  )
  for (const [key, value] of contents) {
    if (!ownLease.test(key) && now.get(key)?.equals(value) !== true) await storeValue(etcd, key, value)
  }
}
