import type { MemberState } from '../../verify/member-state.ts'
import type { StoreState } from '../datastore.ts'
import type { RequestRule } from '../request-faults.ts'
import type { MasterSettings } from '../scenario.ts'
import type { Cluster } from './cluster.ts'
import type { EtcdWay } from './etcd-ways.ts'
import type { LiveOptions } from './live-options.ts'
import type { Watchdog } from './watchdog.ts'

/** What is done to processes by signals. */
export type Deed = 'start' | 'kill' | 'terminate' | 'freeze' | 'thaw'

/** The ways of a master that can be cut. */
export type LiveWay = 'api' | 'store' | 'server-store' | 'clients'

/** One member of a fleet of real processes, with what can be done to it. */
export interface LiveMember extends MemberState {
  /** Every address that leads clients to it. */
  readonly addresses: readonly string[]
  /** Where its clients really connect to, on 127.0.0.1. */
  readonly clientPort: number
  readonly clientTls: boolean
  /** Where its sidecar tells its metrics, once that is known. */
  readonly metrics: { readonly host: string; readonly port: number; readonly life: number } | undefined
  act(part: 'sidecar' | 'server', deed: Deed): Promise<void>
  /** SIGTERM for the life before the present one. */
  terminateEarlier(): void
  cut(way: LiveWay): void
  heal(way: LiveWay): void
  slow(way: 'api' | 'store', byMs: number): void
  /** From now on what its sidecar asks its own API server meets this, and no more. */
  apply(rule: RequestRule): void
  lift(rule: RequestRule): Promise<void>
  /** How the etcd member beside it fares. */
  setOwnEtcd(state: StoreState): void
  /** Nobody listens any more where its sidecar finds the etcd, or somebody does again. */
  setStoreAway(away: boolean): Promise<void>
  resetConnections(): void
  answerReadyz(answer: 'ready' | 'unready' | 'hangs' | 'etcd-fails'): void
  configure(settings: MasterSettings): void
  /** Ends every process and proxy. */
  close(): Promise<void>
}

/** What members are started in. */
export interface LiveSurroundings {
  readonly cluster: Cluster
  readonly options: LiveOptions
  /** Empty without etcd. */
  readonly etcdWays: readonly EtcdWay[]
  readonly serviceClusterIpRange: string
  /** Ours alone, and removed at the end. */
  readonly directory: string
  readonly watchdog: Watchdog
}

/** The etcd's flags beside its servers, as `run` and kube-apiserver name them. With certificates kube-apiserver would speak TLS to a socket. */
export function etcdFlags({ options, etcdWays }: LiveSurroundings): readonly string[] {
  const { etcdPrefix, etcdCafile, etcdCertfile, etcdKeyfile } = options
  const hasTls = etcdWays.some(({ tlsHost }) => tlsHost !== undefined)
  const files = hasTls ? { 'etcd-cafile': etcdCafile, 'etcd-certfile': etcdCertfile, 'etcd-keyfile': etcdKeyfile } : {}
  return [
    `--etcd-prefix=${etcdPrefix}`,
    ...Object.entries(files).flatMap(([flag, file]) => (file === undefined ? [] : [`--${flag}=${file}`])),
  ]
}
