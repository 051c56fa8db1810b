import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ApiClient } from './api-client.ts'
import { binary } from './binaries.ts'
import { CertificateAuthority, serviceAccountKey } from './certificates.ts'
import type { Etcd } from './etcd.ts'
import { writeKubeconfig } from './kubeconfig.ts'
import { type Owner, temporaryDirectory } from './owner.ts'
import { freePort } from './ports.ts'
import { RunningProcess, startOnFreePorts } from './process.ts'

export interface ApiserverOptions {
  /**
   * `stock`: an unchanged kube-apiserver. `bare`: one that nobody bootstraps. `eager`: one whose own reconciler runs
   * every 200 ms. `bare-1.32`: a bare one of 1.32, which serves no IPAddresses. `generic`: upstream's sample of a
   * generic control plane, which serves no Services, Endpoints or Pods.
   */
  readonly kind: 'stock' | 'bare' | 'bare-1.32' | 'eager' | 'generic'
  /** An etcd or a kine. */
  readonly etcd: Pick<Etcd, 'url'>
  /** The prefix of its keys in etcd. With another prefix it is another cluster, which is empty. */
  readonly etcdPrefix?: string
  /** For the server's own reconciler, if that is on. */
  readonly advertiseAddress?: string
  readonly authorization?: 'AlwaysAllow' | 'RBAC'
  readonly flags?: readonly string[]
  /** Its environment besides PATH. */
  readonly env?: Readonly<Record<string, string>>
  /** @default 120,000 */
  readonly readyWithinMs?: number
}

/** A running kube-apiserver on loopback. */
export interface Apiserver {
  readonly url: string
  readonly port: number
  /** A kubeconfig file with the authority and the administrator's token. */
  readonly kubeconfig: string
  readonly authority: CertificateAuthority
  /** The administrator's. */
  readonly token: string
  /** A token of the user `nobody`, who is in no group: for `RBAC`. */
  readonly unprivilegedToken: string
  readonly api: ApiClient
  readonly process: RunningProcess
  /** SIGKILL. */
  kill(): Promise<void>
  /**
   * Starts it again on the same port and store. `flags` and `kind`, if given, apply from then on. Resolves when its
   * /readyz is 200, or at once if `wait` is false.
   */
  start(options?: {
    readonly wait?: boolean
    readonly flags?: readonly string[]
    readonly kind?: ApiserverOptions['kind']
  }): Promise<void>
  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void
  resume(): void
}

/** The range that every test server has; its first address is 10.96.0.1. */
export const serviceRange = '10.96.0.0/12'

const binaries = {
  stock: 'kube-apiserver',
  bare: 'bare-apiserver',
  'bare-1.32': 'bare-apiserver-1.32',
  eager: 'eager-apiserver',
  generic: 'generic-apiserver',
} as const

/**
 * Most servers live for seconds, and their start costs most. With less garbage collection it takes a quarter less
 * processor time. Benchmarks, which belong to no tier, measure an unchanged server.
 */
const ownEnvironment: Readonly<Record<string, string>> = process.env.TEST_TIER === undefined ? {} : { GOGC: '400' }

const token = 'administrator-token'
const unprivilegedToken = 'nobody-token'

export function startApiserver(owner: Owner, options: ApiserverOptions): Promise<Apiserver> {
  const directory = temporaryDirectory(owner, options.kind)
  const authority = new CertificateAuthority()
  writeCredentials(directory, authority)
  return startOnFreePorts(async () => {
    const port = await freePort()
    const url = `https://127.0.0.1:${port}`
    const api = new ApiClient({ url, ca: authority.certificate, token })
    owner.after(() => api.close())
    const kubeconfig = writeKubeconfig(join(directory, 'kubeconfig'), { server: url, ca: authority.certificate, token })

    let { flags, kind } = options
    const { readyWithinMs = 120_000 } = options
    const launch = async (): Promise<RunningProcess> =>
      RunningProcess.start(owner, {
        name: kind,
        command: binary(binaries[kind]),
        args: flagsOf(directory, port, { ...options, kind, flags: flags ?? [] }),
        env: options.env ?? ownEnvironment,
      })
    const whenReady = (): Promise<void> =>
      running.whenReady(async () => (await api.send('GET', '/readyz')).status === 200, readyWithinMs)

    let running = await launch()
    try {
      await whenReady()
    } catch (error) {
      await running.kill()
      throw error
    }
    return {
      url,
      port,
      kubeconfig,
      authority,
      token,
      unprivilegedToken,
      api,
      get process() {
        return running
      },
      kill: () => running.kill(),
      async start({ wait = true, flags: changed = flags, kind: other = kind } = {}) {
        flags = changed
        kind = other
        running = await launch()
        if (wait) await whenReady()
      },
      pause: () => running.signal('SIGSTOP'),
      resume: () => running.signal('SIGCONT'),
    }
  })
}

function writeCredentials(directory: string, authority: CertificateAuthority): void {
  const dnsNames = ['localhost', 'kubernetes.default.svc']
  const server = authority.issue({ commonName: 'kube-apiserver', ips: ['127.0.0.1'], dnsNames })
  const serviceAccount = serviceAccountKey()
  const files = {
    'ca.crt': authority.certificate,
    'server.crt': server.certificate,
    'server.key': server.key,
    'sa.pub': serviceAccount.publicKey,
    'sa.key': serviceAccount.privateKey,
    'tokens.csv': `${token},admin,admin,"system:masters"\n${unprivilegedToken},nobody,nobody\n`,
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content, { mode: 0o600 })
}

function flagsOf(directory: string, port: number, options: ApiserverOptions): readonly string[] {
  const file = (name: string): string => join(directory, name)
  return [
    `--etcd-servers=${options.etcd.url}`,
    `--etcd-prefix=${options.etcdPrefix ?? '/registry'}`,
    '--bind-address=127.0.0.1',
    `--secure-port=${port}`,
    `--advertise-address=${options.advertiseAddress ?? '192.0.2.250'}`,
    `--tls-cert-file=${file('server.crt')}`,
    `--tls-private-key-file=${file('server.key')}`,
    `--client-ca-file=${file('ca.crt')}`,
    `--token-auth-file=${file('tokens.csv')}`,
    `--authorization-mode=${options.authorization ?? 'AlwaysAllow'}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${file('sa.pub')}`,
    `--service-account-signing-key-file=${file('sa.key')}`,
    ...(options.kind === 'generic' ? [] : [`--service-cluster-ip-range=${serviceRange}`]),
    '--disable-admission-plugins=ServiceAccount',
    '--profiling=false',
    ...(options.flags ?? []),
  ]
}
