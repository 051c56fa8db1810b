/** What real processes are drilled against. */
export interface LiveOptions {
  readonly kubeconfig: string
  readonly context?: string | undefined
  /** The API servers' own etcd or kine, as URLs; for leases in etcd, and for kube-apiservers. */
  readonly etcdServers?: readonly string[] | undefined
  readonly etcdPrefix: string
  readonly etcdCafile?: string | undefined
  readonly etcdCertfile?: string | undefined
  readonly etcdKeyfile?: string | undefined
  /** The program that members of the kind kube-apiserver are. */
  readonly kubeApiserver?: string | undefined
  /** One range, or two with a comma. @default what the ServiceCIDR `kubernetes` says */
  readonly serviceClusterIpRange?: string | undefined
  /** How this program is started: a command, and what stands before `run`. */
  readonly program: readonly string[]
  /** Takes a line for people, seldom. */
  readonly log: (line: string) => void
}
