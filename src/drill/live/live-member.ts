import { join } from 'node:path'
import { DrilledMember } from '../member.ts'
import type { ChildOptions, ProcessLife, Watchdog } from './child.ts'
import type { Cluster, LiveOptions } from './cluster.ts'
import type { EtcdProxyTarget } from './etcd-proxies.ts'

/** The part of a member's state that follows from the present life of its process. */
export abstract class LiveMember<Life extends ProcessLife> extends DrilledMember {
  protected abstract readonly life: Life | undefined
  /** Every address that leads clients to the member. */
  abstract readonly addresses: readonly string[]

  get address(): string {
    return this.addresses[0] ?? ''
  }

  get running(): boolean {
    return this.life?.running === true
  }

  get stopping(): boolean {
    return this.life?.stopping === true
  }

  get ended(): boolean {
    return this.life?.child.ended !== false
  }

  get frozen(): boolean {
    return this.life?.frozen === true && !this.ended
  }

  get hasBeenReady(): boolean | undefined {
    return this.life?.wasReady
  }

  get failure(): unknown {
    return this.life?.child.failure
  }
}

export interface LiveSurroundings {
  readonly cluster: Cluster
  readonly options: LiveOptions
  /** Empty if the drill does not use etcd. */
  readonly etcdProxyTargets: readonly EtcdProxyTarget[]
  readonly serviceClusterIpRange: string
  /** A private directory, which is removed at the end. */
  readonly directory: string
  readonly watchdog: Watchdog
}

/** The ending of the name of each file with the output of a process, in the private directory of a drill. */
export const LOG_ENDING = '.log'

/** Each life of a member's process has its own file for its output. */
export function childOptions({ directory, watchdog }: LiveSurroundings, name: string, life: number): ChildOptions {
  return { watchdog, output: join(directory, `${name}-${life}${LOG_ENDING}`) }
}

/**
 * The flags for etcd except `--etcd-servers`. `run` and kube-apiserver have the same flags. The files of certificates
 * are left out if no path uses TLS, because with these files kube-apiserver would speak TLS to a Unix socket.
 */
export function etcdFlags({ options, etcdProxyTargets }: LiveSurroundings): readonly string[] {
  const { etcdPrefix, etcdFiles } = options
  const hasTls = etcdProxyTargets.some(({ tlsHost }) => tlsHost !== undefined)
  return [
    `--etcd-prefix=${etcdPrefix}`,
    ...Object.entries(hasTls ? etcdFiles : {}).flatMap(([name, file]) =>
      file === undefined ? [] : [`--etcd-${name}=${file}`],
    ),
  ]
}
