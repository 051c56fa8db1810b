import type { MemberState } from '../../verify/member-state.ts'
import type { StoreState } from '../datastore.ts'
import type { RequestRule } from '../request-faults.ts'
import type { MasterSettings } from '../scenario/scenario.ts'
import type { Watchdog } from './child.ts'
import type { Cluster, LiveOptions } from './cluster.ts'
import type { EtcdPath } from './store-paths.ts'

/** What is done to processes by signals. */
export type Deed = 'start' | 'kill' | 'terminate' | 'freeze' | 'thaw'

/** The connections of a master that can be cut. */
export type LiveWay = 'api' | 'store' | 'server-store' | 'clients'

/** One member of a fleet of real processes, and the actions on it. */
export interface LiveMember extends MemberState {
  /** Every address that leads clients to it. */
  readonly addresses: readonly string[]
  /** The port of its clients on 127.0.0.1. */
  readonly clientPort: number
  readonly clientTls: boolean
  /** The address of its sidecar's metrics, once it is known. */
  readonly metrics: { readonly host: string; readonly port: number; readonly life: number } | undefined
  act(part: 'sidecar' | 'server', deed: Deed): Promise<void>
  /** SIGTERM for the previous life. */
  terminateEarlier(): void
  cut(way: LiveWay): void
  heal(way: LiveWay): void
  slow(way: 'api' | 'store', byMs: number): void
  /** From now on the requests of its sidecar to its own API server have this fault, and no other. */
  apply(rule: RequestRule): void
  lift(rule: RequestRule): Promise<void>
  /** The state of the etcd member beside it. */
  setOwnEtcd(state: StoreState): void
  /** Whether the sidecar's endpoint of the etcd refuses connections. */
  setStoreAway(away: boolean): Promise<void>
  resetConnections(): void
  answerReadyz(answer: 'ready' | 'unready' | 'hangs' | 'etcd-fails'): void
  configure(settings: MasterSettings): void
  /** Ends every process and proxy. */
  close(): Promise<void>
}

/** The environment in which members are started. */
export interface LiveSurroundings {
  readonly cluster: Cluster
  readonly options: LiveOptions
  /** Empty without etcd. */
  readonly etcdPaths: readonly EtcdPath[]
  readonly serviceClusterIpRange: string
  /** A private directory, which is removed at the end. */
  readonly directory: string
  readonly watchdog: Watchdog
}

/**
 * The etcd's flags beside its servers, as `run` and kube-apiserver name them. With certificates kube-apiserver would
 * speak TLS to a socket.
 */
export function etcdFlags({ options, etcdPaths }: LiveSurroundings): readonly string[] {
  const { etcdPrefix, etcdCafile, etcdCertfile, etcdKeyfile } = options
  const hasTls = etcdPaths.some(({ tlsHost }) => tlsHost !== undefined)
  const files = hasTls ? { 'etcd-cafile': etcdCafile, 'etcd-certfile': etcdCertfile, 'etcd-keyfile': etcdKeyfile } : {}
  return [
    `--etcd-prefix=${etcdPrefix}`,
    ...Object.entries(files).flatMap(([flag, file]) => (file === undefined ? [] : [`--${flag}=${file}`])),
  ]
}
