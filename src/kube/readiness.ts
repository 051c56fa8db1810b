import { type Address, isLoopbackName, tryParseAddress } from '../net/address.ts'

/**
 * The check that the in-process API server lists in `/readyz?verbose` if it allocates ClusterIPs and NodePorts without
 * bitmaps.
 */
export const ALLOCATORS_CHECK = 'service-allocators'

/** One line of `/readyz?verbose`. */
export interface ReadinessCheck {
  /** Such as `etcd` or `poststarthook/bootstrap-controller`. */
  readonly name: string
  readonly ok: boolean
}

/**
 * The answer of an API server about its readiness. Any HTTP answer is `answered: true`: the server is alive. Code that
 * reads only `ready` or `checks` need not handle a refusal, which is never ready and lists no checks.
 */
export type ReadinessAnswer =
  /** The server answered. `ready` means HTTP 200. `checks` is empty if the server lists none. */
  | {
      readonly answered: true
      readonly ready: boolean
      readonly checks: readonly ReadinessCheck[]
      readonly refused?: undefined
      readonly passing?: undefined
    }
  /**
   * The server answered with 3xx or 4xx, which does not show whether it is ready. It is alive, and its master's state,
   * ready or unready, stays the same. `refused` is one short line. `passing`: the next probe may be answered (429).
   */
  | {
      readonly answered: true
      readonly ready: false
      readonly checks: readonly []
      readonly refused: string
      readonly passing?: boolean
    }
  /** No answer came: connection refused, timed out, cut off. `reason` is one short line. */
  | { readonly answered: false; readonly reason: string }

/** Reads the health of a master's own API server. */
export interface Readiness {
  /**
   * Whether probes go to another origin than other requests. If so, known outages of the API server do not explain
   * failed probes. @default false
   */
  readonly hasOwnAddress?: boolean
  /** GET /readyz?verbose, once. Never rejects, except with the signal's reason. */
  probe(signal: AbortSignal): Promise<ReadinessAnswer>
  /**
   * Whether the server answers a request that does not use its datastore: while etcd hangs, /readyz hangs too, although
   * the server is alive. Never rejects, except with the signal's reason. Left out if {@link probe} is the only check.
   */
  answers?(signal: AbortSignal): Promise<boolean>
}

/** Reads an http(s) URL without credentials, query or fragment. The path defaults to /readyz. @throws TypeError */
export function parseReadyzUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError('must be an http or https URL, such as https://127.0.0.1:6443/readyz')
  }
  if (url.username !== '' || url.password !== '') {
    throw new TypeError("must not contain credentials; the kubeconfig's are used")
  }
  if (url.search !== '' || url.hash !== '')
    throw new TypeError(`must not have a query or fragment: ${JSON.stringify(url.search + url.hash)}`)
  if (url.pathname === '/') url.pathname = '/readyz'
  return url.href
}

/**
 * The error text if a master needs `--readyz-url` and lacks it; otherwise undefined. The URL is not needed with the
 * reconciler `none`, nor if the kubeconfig's server is evidently the master's own. It is needed even with
 * `--readiness-gate=startup`: a master whose probes another server answers would renew its lease for ever after its own
 * server has died.
 */
export function missingReadyzUrl(
  values: {
    readonly readyzUrl: string | undefined
    readonly endpointReconcilerType: string
    readonly advertiseAddress: readonly Address[] | undefined
  },
  server: URL,
): string | undefined {
  const { readyzUrl, endpointReconcilerType, advertiseAddress = [] } = values
  if (readyzUrl !== undefined || endpointReconcilerType === 'none') return undefined
  if (isOwnServer(server.href, advertiseAddress)) return undefined
  return (
    `is required: the kubeconfig's server, ${server.origin}, is at neither a loopback nor an advertised address, ` +
    'so its /readyz may report another master'
  )
}

/**
 * Whether the API server at this URL is evidently the one beside us: at a loopback address, or at an address that this
 * master advertises. The address of a load balancer is neither, and a probe through it may reach another server.
 */
export function isOwnServer(url: string, advertised: readonly Address[]): boolean {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  if (isLoopbackName(host)) return true
  const address = tryParseAddress(host)
  return address !== undefined && advertised.some((own) => own.text === address.text)
}
