import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { stringify } from 'yaml'
import { type Apiserver, type ApiserverOptions, startApiserver } from './apiserver.ts'
import type { CertificateAuthority } from './certificates.ts'
import type { Etcd } from './etcd.ts'
import { argumentsOf, programOf, renderKit } from './kits.ts'
import { writeKubeconfig } from './kubeconfig.ts'
import { type Owner, temporaryDirectory } from './owner.ts'
import { Program } from './program.ts'

/** What differs from a kit in a test: every port is a different one, and one machine stands for all machines. */
export interface MachineOptions {
  /** The path below config/ of the program's Pod. */
  readonly kit: string
  readonly configuration: object
  readonly address: string
  readonly host: string
  readonly server: Omit<ApiserverOptions, 'etcd' | 'advertiseAddress' | 'authorization'>
  /** The port in the list; by default the server's own. */
  readonly securePort?: number
  readonly store: Pick<Etcd, 'url'>
  /** The authority of the store, if that has TLS. */
  readonly authority?: CertificateAuthority
  /** The user of the sidecar, and its groups. */
  readonly user: { readonly commonName: string; readonly organizations?: readonly string[] }
}

/** A master: its API server, and the program with the command, configuration and paths of a kit. */
export interface Machine {
  readonly address: string
  readonly server: Apiserver
  /** The flags with which a kube-apiserver or an observer reaches the store. */
  readonly store: readonly string[]
  start(): Promise<Program>
  /** Runs a command of the kit, such as that of a preStop hook. */
  run(args: readonly string[]): Promise<Program>
  /** Writes a kubeconfig for a user with a client certificate. */
  kubeconfig(user: MachineOptions['user']): string
}

/** A directory of the machine stands for /etc/kubernetes of the program's container. */
export async function startMachine(owner: Owner, options: MachineOptions): Promise<Machine> {
  const { address, authority, store } = options
  const root = temporaryDirectory(owner, 'machine')
  const file = (name: string, content: string): string => {
    const path = join(root, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content, { mode: 0o600 })
    return path
  }
  const credentials: string[] = []
  if (authority !== undefined) {
    const { certificate, key } = authority.issue({ commonName: 'kube-apiserver-etcd-client' })
    credentials.push(
      `--etcd-cafile=${file('pki/etcd/ca.crt', authority.certificate)}`,
      `--etcd-certfile=${file('pki/apiserver-etcd-client.crt', certificate)}`,
      `--etcd-keyfile=${file('pki/apiserver-etcd-client.key', key)}`,
    )
  }
  const { flags = [] } = options.server
  const server = await startApiserver(owner, {
    ...options.server,
    etcd: store,
    advertiseAddress: address,
    authorization: 'RBAC',
    flags: [...credentials, ...flags],
  })
  const kubeconfig = ({ commonName, organizations = [] }: MachineOptions['user']): string => {
    const { certificate, key } = server.authority.issue({ commonName, organizations })
    return writeKubeconfig(join(root, `${commonName}.conf`), {
      server: server.url,
      ca: server.authority.certificate,
      user: {
        'client-certificate-data': Buffer.from(certificate).toString('base64'),
        'client-key-data': Buffer.from(key).toString('base64'),
      },
    })
  }
  const configuration = {
    ...options.configuration,
    kubeconfig: kubeconfig(options.user),
    securePort: options.securePort ?? server.port,
    hostnameOverride: options.host,
    healthBindAddress: '127.0.0.1:0',
    ...('etcdServers' in options.configuration && { etcdServers: [store.url] }),
  }
  file('apiserver-bootstrap/sidecar.yaml', stringify(configuration).replaceAll('/etc/kubernetes', root))
  const places = {
    '/etc/kubernetes': root,
    '$(HOST_IP):6443': `127.0.0.1:${server.port}`,
    '127.0.0.1:6443': `127.0.0.1:${server.port}`,
    '$(HOST_IP)': address,
  }
  const run = (words: readonly string[]): Promise<Program> => Program.start(owner, argumentsOf(words, places))
  const { command } = programOf(await renderKit(options.kit))
  return {
    address,
    server,
    store: [`--etcd-servers=${store.url}`, ...credentials],
    start: () => run(command),
    run: (args) => run(['apiserver-bootstrap', ...args]),
    kubeconfig,
  }
}
