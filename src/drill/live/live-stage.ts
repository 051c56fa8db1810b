import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEndpoint } from '../../etcd/endpoint.ts'
import { isKubeError } from '../../kube/errors.ts'
import { serviceCidrs } from '../../kube/resources.ts'
import { messageOf } from '../../runtime/message-of.ts'
import { systemClock } from '../../runtime/system-clock.ts'
import { DrillError } from '../drill-error.ts'
import type { FleetPlan } from '../scenario.ts'
import { type Cluster, openCluster } from './cluster.ts'
import { etcdWays } from './etcd-ways.ts'
import { FoundState } from './found-state.ts'
import type { LiveSurroundings } from './live-member.ts'
import type { LiveOptions } from './live-options.ts'
import type { LiveStage } from './live-target.ts'
import { whenUnoccupied } from './occupation.ts'
import { patiently } from './patience.ts'
import { writeRecoveryFile } from './recovery-file.ts'
import { socketFault } from './store-ways.ts'
import { Watchdog } from './watchdog.ts'

/** How long putting back is tried, and how long one try may take, in milliseconds: API servers that just died come back by then. */
const PUT_BACK_MS = 60_000
const TRY_MS = 15_000

/** The cluster that a drill takes place in: looked at before, and put back after it. */
export class ClusterStage implements LiveStage {
  readonly #options: LiveOptions
  readonly #cluster: Cluster
  readonly #needsEtcd: boolean
  #watchdog: Watchdog | undefined
  #directory: string | undefined
  #found: FoundState | undefined
  #hadRange = true

  private constructor(options: LiveOptions, cluster: Cluster, needsEtcd: boolean) {
    this.#options = options
    this.#cluster = cluster
    this.#needsEtcd = needsEtcd
  }

  /** Contacts nobody yet. Rejects, in one line, for what cannot be connected to at all. */
  static async prepare(options: LiveOptions, fleet: FleetPlan): Promise<ClusterStage> {
    const needsEtcd = fleet.leaseStore !== 'kubernetes' || fleet.masters.some(({ kind }) => kind === 'kube-apiserver')
    return new ClusterStage(options, await openCluster(options, needsEtcd ? 'etcd' : 'kubernetes'), needsEtcd)
  }

  async open(signal: AbortSignal): Promise<LiveSurroundings> {
    const { log, etcdServers = [], ...files } = this.#options
    await whenUnoccupied(this.#cluster, { clock: systemClock, log, signal })
    const ways = this.#needsEtcd ? await etcdWays(etcdServers.map(parseEndpoint), namesOf(files)) : []
    const range = await this.#serviceRange(signal)
    const serviceClusterIpRange = this.#options.serviceClusterIpRange ?? range
    if (serviceClusterIpRange === undefined) {
      throw new DrillError(
        'the cluster has no ServiceCIDR kubernetes that would say where its Services are: give --service-cluster-ip-range, as its API servers have it',
      )
    }
    this.#hadRange = range !== undefined
    this.#directory = await mkdtemp(join(tmpdir(), 'apiserver-bootstrap-drill-'))
    this.#watchdog = new Watchdog(this.#directory)
    const fault = ways.some(({ tlsHost }) => tlsHost === undefined) ? socketFault(this.#directory) : undefined
    if (fault !== undefined)
      throw new DrillError(`no socket can be in ${this.#directory}, which ${fault}: give another TMPDIR`)
    this.#found = await FoundState.read(this.#cluster.api, signal)
    return {
      cluster: this.#cluster,
      options: this.#options,
      etcdWays: ways,
      serviceClusterIpRange,
      directory: this.#directory,
      watchdog: this.#watchdog,
    }
  }

  async close(addresses: readonly string[]): Promise<void> {
    try {
      await this.#putBack(addresses)
    } finally {
      await this.#cluster.close()
      if (this.#directory !== undefined) await rm(this.#directory, { recursive: true, force: true })
      this.#watchdog?.close()
    }
  }

  async #putBack(addresses: readonly string[]): Promise<void> {
    if (this.#found === undefined) return
    const found = this.#found
    const say = (failure: unknown): void =>
      this.#options.log(`default/kubernetes cannot be put back yet, trying on: ${messageOf(failure)}`)
    try {
      await patiently(() => this.#tryToPutBack(found, addresses), { clock: systemClock, limitMs: PUT_BACK_MS, say })
    } catch (error) {
      const file = await writeRecoveryFile(found.list)
      throw new DrillError(
        `default/kubernetes could not be put back as it was: ${messageOf(error)}; what was found is in ${file}, for kubectl replace --force -f; Services, Endpoints and EndpointSlices of kubernetes that are not in it are the drill's, for kubectl delete`,
      )
    }
  }

  async #tryToPutBack(found: FoundState, addresses: readonly string[]): Promise<void> {
    const signal = AbortSignal.timeout(TRY_MS)
    for (const lease of await this.#cluster.leases.inspect(signal)) {
      if (lease.address !== undefined && addresses.includes(lease.address))
        await this.#cluster.leases.evict(lease, signal)
    }
    await found.putBack(this.#cluster.api, signal)
    // The sidecars make what a bare cluster lacks. Namespaces stay: no API server lets these go.
    if (!this.#hadRange) await this.#removeRange(signal)
  }

  async #removeRange(signal: AbortSignal): Promise<void> {
    await this.#cluster.api.delete(serviceCidrs, { name: 'kubernetes' }, { signal }).catch((error: unknown) => {
      if (!isKubeError(error, 'NotFound')) throw error
    })
  }

  /** What the cluster itself says. */
  async #serviceRange(signal: AbortSignal): Promise<string | undefined> {
    try {
      const { spec } = await this.#cluster.api.get(serviceCidrs, { name: 'kubernetes' }, { signal })
      return spec?.cidrs?.join()
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return undefined
      throw error
    }
  }
}

function namesOf(options: Pick<LiveOptions, 'etcdCafile' | 'etcdCertfile' | 'etcdKeyfile'>): {
  readonly cafile: string | undefined
  readonly certfile: string | undefined
  readonly keyfile: string | undefined
} {
  return { cafile: options.etcdCafile, certfile: options.etcdCertfile, keyfile: options.etcdKeyfile }
}
