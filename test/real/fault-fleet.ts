import { setTimeout as sleep } from 'node:timers/promises'
import { connect, connectEtcdStore, createMaster, defineMaster } from '../../src/index.ts'
import { membershipTimings } from '../../src/kubernetes-service/membership/timings.ts'
import type { Logger } from '../../src/telemetry/logger.ts'
import { type Apiserver, serviceRange, startApiserver } from '../peers/apiserver.ts'
import type { Etcd } from '../peers/etcd.ts'
import { EtcdFaultProxy } from '../peers/etcd-fault-proxy.ts'
import { FaultProxy } from '../peers/fault-proxy.ts'
import type { FaultRule, PlacedFault } from '../peers/fault-rules.ts'
import { paths, problemsOf, readState } from '../peers/kubernetes-service.ts'
import { listKeys } from '../peers/listing-judge.ts'
import type { Owner } from '../peers/owner.ts'
import { storedValues } from '../peers/stored-values.ts'
import { type FollowedKeys, followKeys } from '../peers/stored-versions.ts'
import { untilPasses } from '../peers/until.ts'

export type LeaseStore = 'etcd' | 'kubernetes'

export const addresses = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const
export const ttlMs = 3_000
const intervalMs = 1_000
const port = 6443
export const timings = membershipTimings({
  leaseTtlMs: ttlMs,
  reconcileIntervalMs: intervalMs,
  readinessProbePeriodMs: 1_000,
})

/** A kube-apiserver and its etcd. Each of three masters reaches them through proxies of its own. */
export interface FaultSite {
  readonly etcd: Etcd
  readonly etcdPrefix: string
  readonly server: Apiserver
  readonly proxies: readonly { readonly proxy: FaultProxy; readonly etcdProxy: EtcdFaultProxy }[]
  readonly followed: FollowedKeys
}

/** Three masters in this process. */
export interface FaultFleet {
  readonly site: FaultSite
  readonly masters: readonly ProxiedMaster[]
  /** Waits until Service, Endpoints, slices and leases are right for these masters. */
  whenRight(listed: readonly string[], withinMs: number): Promise<void>
}

export async function startFaultSite(owner: Owner, etcd: Etcd, etcdPrefix: string): Promise<FaultSite> {
  const server = await startApiserver(owner, { kind: 'bare', etcd, etcdPrefix })
  const proxies: FaultSite['proxies'][number][] = []
  while (proxies.length < addresses.length)
    proxies.push({ proxy: await FaultProxy.start(owner, server), etcdProxy: await EtcdFaultProxy.start(owner, etcd) })
  return {
    etcd,
    etcdPrefix,
    server,
    proxies,
    followed: await followKeys(owner, [etcd], Object.values(listKeys(etcdPrefix))),
  }
}

export async function startFaultFleet(owner: Owner, site: FaultSite, store: LeaseStore): Promise<FaultFleet> {
  const { etcd, etcdPrefix, server } = site
  const masters = addresses.map((address, index) => {
    const { proxy, etcdProxy } = site.proxies[index] as FaultSite['proxies'][number]
    return new ProxiedMaster(owner, { address, etcdPrefix, proxy, etcdProxy: store === 'etcd' ? etcdProxy : undefined })
  })
  const problems = async (listed: readonly string[]): Promise<readonly string[]> => {
    const [state, leases] = await Promise.all([
      readState(server.api),
      store === 'etcd' ? etcdLeaseProblems(etcd, etcdPrefix, listed) : leaseProblems(server, listed),
    ])
    return [...problemsOf(state, { addresses: listed, port }), ...leases]
  }
  const whenRight = (listed: readonly string[], withinMs: number): Promise<void> =>
    untilPasses(
      'all to be right',
      async () => {
        const found = await problems(listed)
        if (found.length > 0) throw new Error(found.join('; '))
      },
      { withinMs },
    )
  await Promise.all(masters.map((master) => master.start()))
  await whenRight(addresses, 120_000)
  // Fleets that start together delay each other. For this long, masters whose first renewals failed do not judge other
  // masters.
  await sleep(timings.recoveryMs)
  return { site, masters, whenRight }
}

interface Settings {
  readonly address: string
  readonly etcdPrefix: string
  readonly proxy: FaultProxy
  readonly etcdProxy: EtcdFaultProxy | undefined
}

/** How a life of a master differs from the usual one. */
export interface LifeOptions {
  readonly repairStartupTimeout?: string
}

interface Life {
  readonly stop: AbortController
  readonly end: Promise<void>
  hangUp(): Promise<void>
}

/** One master in this process, which can be killed and started again. */
export class ProxiedMaster {
  readonly address: string
  /** Why the current life has ended, if not by `kill`. */
  failure: string | undefined
  readonly #settings: Settings
  readonly #lines: string[] = []
  #life: Life | undefined

  constructor(owner: Owner, settings: Settings) {
    this.address = settings.address
    this.#settings = settings
    owner.after(() => this.kill())
  }

  /** The end of its log. */
  get tail(): string {
    return this.#lines.slice(-15).join('\n')
  }

  /** Whether it was started and not killed since. */
  get isAlive(): boolean {
    return this.#life !== undefined
  }

  async start(options: LifeOptions = {}): Promise<void> {
    const { address, etcdPrefix, proxy, etcdProxy } = this.#settings
    const connection = await connect({ kubeconfig: proxy.kubeconfig, logger: this.#logger({}) })
    const etcd = etcdProxy && (await connectEtcdStore({ ...connection, endpoints: [etcdProxy.url] }))
    const settings = {
      advertiseAddress: address,
      securePort: String(port),
      serviceClusterIpRange: serviceRange,
      leaseTtl: `${ttlMs / 1_000}s`,
      reconcileInterval: `${intervalMs / 1_000}s`,
      onShutdown: 'keep',
      ...(etcdProxy === undefined ? {} : { etcdServers: etcdProxy.url, etcdPrefix }),
      ...options,
    }
    this.failure = undefined
    const stop = new AbortController()
    const end = createMaster(defineMaster(settings, `host of ${address}`), { ...connection, etcd })
      .run(stop.signal)
      .catch((error: unknown) => {
        if (!stop.signal.aborted) this.failure = error instanceof Error ? error.message : String(error)
      })
    const hangUp = async (): Promise<void> => {
      await Promise.all([connection.close(), etcd?.kv.close()])
    }
    this.#life = { stop, end, hangUp }
  }

  /** Like SIGKILL: the master sends nothing more to anybody, and its connections are closed. */
  async kill(): Promise<void> {
    const life = this.#life
    if (life === undefined) return
    this.#life = undefined
    await life.hangUp()
    life.stop.abort()
    await life.end
  }

  /** Places a fault between this master and its servers. Methods of etcd begin with a capital letter. */
  place(rule: FaultRule): PlacedFault {
    const { proxy, etcdProxy } = this.#settings
    const isEtcd = rule.resources?.some((resource) => /^[A-Z]/.test(resource)) ?? false
    return (isEtcd ? (etcdProxy as EtcdFaultProxy) : proxy).place(rule)
  }

  #logger(bound: object): Logger {
    const line = (fields: object, message: string): void => {
      this.#lines.push(JSON.stringify({ time: new Date().toISOString(), ...bound, ...fields, message }))
      if (this.#lines.length > 200) this.#lines.shift()
    }
    return { debug() {}, info: line, warn: line, error: line, child: (more) => this.#logger({ ...bound, ...more }) }
  }
}

async function etcdLeaseProblems(etcd: Etcd, prefix: string, listed: readonly string[]): Promise<readonly string[]> {
  const found = [...(await storedValues(etcd, `${prefix}/masterleases/`)).keys()].map((key) => key.split('/').at(-1))
  return differs(found, listed)
}

interface LeaseObject {
  readonly metadata: { readonly name: string }
  readonly spec: { readonly renewTime?: string }
}

async function leaseProblems(server: Apiserver, listed: readonly string[]): Promise<readonly string[]> {
  const { items } = await server.api.get<{ readonly items: readonly LeaseObject[] }>(paths.leases)
  const fresh = items.flatMap(({ metadata, spec }) => {
    const [, ip] = /^apiserver-bootstrap-(\d+-\d+-\d+-\d+)-/.exec(metadata.name) ?? []
    const ageMs = Date.now() - Date.parse(spec.renewTime ?? '')
    return ip !== undefined && ageMs < ttlMs ? [ip.replaceAll('-', '.')] : []
  })
  return differs(fresh, listed)
}

function differs(found: readonly (string | undefined)[], listed: readonly string[]): readonly string[] {
  const [seen, wanted] = [found.toSorted().join(' '), listed.toSorted().join(' ')]
  return seen === wanted ? [] : [`leases of ${seen || 'nobody'} instead of ${wanted}`]
}
