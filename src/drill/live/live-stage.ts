import { constants, existsSync } from 'node:fs'
import { copyFile, lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { parseEndpoint } from '../../etcd/options.ts'
import { ifFound } from '../../kube/errors.ts'
import { serviceCidrs } from '../../kube/resources.ts'
import { messageOf } from '../../runtime/errors.ts'
import { systemClock } from '../../runtime/system-clock.ts'
import { makeTemporaryDirectory, replaceFile } from '../../runtime/system-file.ts'
import { DrillError } from '../target.ts'
import { patiently, Watchdog } from './child.ts'
import { type Cluster, isDocumentation, type LiveOptions } from './cluster.ts'
import { etcdProxyTargets, socketFault } from './etcd-proxies.ts'
import { FoundState, whenUnoccupied, writeRecoveryFile } from './found-state.ts'
import { type LiveSurroundings, LOG_ENDING } from './live-member.ts'

/**
 * The kube-apiserver that `npm run peers` has built in the git clone of this program; undefined if there is none.
 * `program`: as in {@link LiveOptions}.
 */
export function builtKubeApiserver(program: readonly string[]): string | undefined {
  const file = join(dirname(program.at(-1) ?? ''), '..', 'test', 'peers', 'bin', 'kube-apiserver')
  return existsSync(file) ? file : undefined
}

/**
 * How long the restoration is retried, in milliseconds. An API server that is restarted normally answers again within
 * this time.
 */
const RESTORE_MS = 60_000
/** How long one attempt to restore the objects may take, in milliseconds. */
const TRY_MS = 15_000

const defaultServiceCidr = { name: 'kubernetes' }

/** The cluster of a live drill. `open` reads its objects before the drill, and `close` restores them. */
export class ClusterStage {
  readonly #options: LiveOptions
  readonly #cluster: Cluster
  #watchdog: Watchdog | undefined
  #directory: string | undefined
  #found: FoundState | undefined
  #hadRange = true

  constructor(options: LiveOptions, cluster: Cluster) {
    this.#options = options
    this.#cluster = cluster
  }

  /**
   * Checks that no other program manages `default/kubernetes`, reads its objects, and creates the private directory of
   * the drill. Rejects with a {@link DrillError} if the cluster cannot be drilled. Writes nothing to the cluster.
   */
  async open(signal: AbortSignal): Promise<LiveSurroundings> {
    const { log, etcdServers = [], etcdFiles } = this.#options
    await whenUnoccupied(this.#cluster, { clock: systemClock, log, signal })
    const needsEtcd = this.#cluster.leaseStore === 'etcd'
    const paths = needsEtcd ? await etcdProxyTargets(etcdServers.map(parseEndpoint), etcdFiles) : []
    const found = await ifFound(this.#cluster.api.get(serviceCidrs, defaultServiceCidr, { signal }))
    const range = found?.spec?.cidrs?.join()
    const serviceClusterIpRange = this.#options.serviceClusterIpRange ?? range
    if (serviceClusterIpRange === undefined) {
      throw new DrillError(
        'the cluster has no ServiceCIDR kubernetes with the range of its Services: set --service-cluster-ip-range to the value of its API servers',
      )
    }
    this.#hadRange = range !== undefined
    this.#directory = await makeTemporaryDirectory('apiserver-bootstrap-drill-')
    this.#watchdog = new Watchdog(this.#directory)
    const fault = paths.some(({ tlsHost }) => tlsHost === undefined) ? socketFault(this.#directory) : undefined
    if (fault !== undefined)
      throw new DrillError(`no socket can be in ${this.#directory}, which ${fault}: give another TMPDIR`)
    this.#found = await FoundState.read(this.#cluster.api, signal)
    return {
      cluster: this.#cluster,
      options: this.#options,
      etcdProxyTargets: paths,
      serviceClusterIpRange,
      directory: this.#directory,
      watchdog: this.#watchdog,
    }
  }

  /**
   * Restores the cluster. All processes of the fleet must have ended. `addresses`: the latest addresses of all masters,
   * which may have left leases. If the objects cannot be restored, rejects with a {@link DrillError} that names a file
   * with the objects.
   */
  async close(addresses: readonly string[]): Promise<void> {
    try {
      await this.#restore(addresses)
    } finally {
      await this.#cluster.close()
      await this.#storeLogs()
      if (this.#directory !== undefined) await rm(this.#directory, { recursive: true, force: true })
      this.#watchdog?.close()
    }
  }

  /**
   * Copies the output of all processes to the directory of the logs. Replaces files of the same names, and follows no
   * link. A failure is logged, because the drill itself is over.
   */
  async #storeLogs(): Promise<void> {
    const { logs, log } = this.#options
    if (logs === undefined || this.#directory === undefined) return
    try {
      await mkdir(logs.directory, { recursive: true })
      if ((await lstat(logs.directory)).isSymbolicLink()) throw new Error(`${logs.directory} is a link`)
      for (const name of await readdir(this.#directory)) {
        if (!name.endsWith(LOG_ENDING)) continue
        const source = join(this.#directory, name)
        const file = join(logs.directory, `${logs.prefix}-${name}`)
        await replaceFile(file, (next) => copyFile(source, next, constants.COPYFILE_EXCL))
      }
    } catch (error) {
      log(`the logs of the processes cannot be written: ${messageOf(error)}`)
    }
  }

  async #restore(addresses: readonly string[]): Promise<void> {
    if (this.#found === undefined) return
    const found = this.#found
    const report = (failure: unknown): void =>
      this.#options.log(`default/kubernetes cannot be restored yet, retrying: ${messageOf(failure)}`)
    try {
      await patiently(() => this.#tryToRestore(found, addresses), { clock: systemClock, limitMs: RESTORE_MS, report })
    } catch (error) {
      const file = await writeRecoveryFile(found.list)
      throw new DrillError(
        `default/kubernetes could not be restored: ${messageOf(error)}; to restore the former objects, run kubectl replace --force -f ${file}, then delete each Service, Endpoints and EndpointSlice of default/kubernetes that is not in this file: the drill created it`,
      )
    }
  }

  async #tryToRestore(found: FoundState, addresses: readonly string[]): Promise<void> {
    const signal = AbortSignal.timeout(TRY_MS)
    for (const lease of await this.#cluster.leases.inspect(signal)) {
      // `addresses` lacks the addresses from before `roll-config`, but these are documentation addresses.
      const isDrilled =
        lease.address !== undefined && (isDocumentation(lease.address) || addresses.includes(lease.address))
      if (isDrilled) await this.#cluster.leases.evict(lease, signal)
    }
    await found.restore(this.#cluster.api, signal)
    // If the cluster had no ServiceCIDR, the sidecars have created it. System namespaces stay: most cannot be deleted.
    if (this.#hadRange) return
    await ifFound(this.#cluster.api.delete(serviceCidrs, defaultServiceCidr, { signal }))
  }
}
