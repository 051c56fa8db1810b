import { type Address, isLoopbackName, tryParseAddress } from '../net/address.ts'

/** A server of ours lists this check in `/readyz?verbose` if it allocates for Services without stored bitmaps. */
export const ALLOCATORS_CHECK = 'service-allocators'

/** One line of `/readyz?verbose`. */
export interface ReadinessCheck {
  /** Such as `etcd` or `poststarthook/bootstrap-controller`. */
  readonly name: string
  readonly ok: boolean
}

/**
 * The answer of an API server about its readiness. Any HTTP answer is `answered: true`: it proves that the server
 * lives.
 *
 * Code that reads only `ready` or `checks` need not handle the refusal: it is never ready, and it lists no checks.
 */
export type ReadinessAnswer =
  /** It answered; `ready` means HTTP 200. `checks` is empty where the server lists none. */
  | {
      readonly answered: true
      readonly ready: boolean
      readonly checks: readonly ReadinessCheck[]
      readonly refused?: undefined
    }
  /**
   * It answered, but refused to report its readiness (401, 403, 404, 429, a redirect): the server lives, its readiness
   * is unknown. A master that was ready stays ready; one that was not does not become ready. `refused` is one short
   * line.
   */
  | { readonly answered: true; readonly ready: false; readonly checks: readonly []; readonly refused: string }
  /** No answer came: connection refused, timed out, cut off. `reason` is one short line. */
  | { readonly answered: false; readonly reason: string }

/** The port through which a master asks its own API server for its health. */
export interface Readiness {
  /** The probed server has another address than the one that gets the requests: it has outages of its own. */
  readonly apart?: boolean
  /** GET /readyz?verbose, once. Never rejects, except with the signal's reason. */
  probe(signal: AbortSignal): Promise<ReadinessAnswer>
  /**
   * Whether the server answers a request that does not use its datastore: while etcd hangs, /readyz waits for it
   * although the server lives. Never rejects, except with the signal's reason. Left out where {@link probe} is the only
   * check.
   */
  answers?(signal: AbortSignal): Promise<boolean>
}

/**
 * Reads the URL of a readiness endpoint: http or https, without credentials; its path defaults to /readyz. @throws
 * TypeError
 */
export function parseReadyzUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new TypeError('must be an http or https URL, such as https://127.0.0.1:6443/readyz')
  }
  if (url.username !== '' || url.password !== '') {
    throw new TypeError("must not hold credentials: the kubeconfig's are used")
  }
  if (url.search !== '' || url.hash !== '')
    throw new TypeError(`must end with its path, not with ${JSON.stringify(url.search + url.hash)}`)
  if (url.pathname === '/') url.pathname = '/readyz'
  return url.href
}

/**
 * The mistake of a master without the URL of its own API server's /readyz: undefined when the kubeconfig's server is
 * evidently its own, or when unreadiness has no consequences.
 */
export function missingReadyzUrl(
  values: {
    readonly readyzUrl: string | undefined
    readonly readinessGate: 'continuous' | 'startup'
    readonly endpointReconcilerType: string
    readonly advertiseAddress: readonly Address[] | undefined
  },
  server: URL,
): string | undefined {
  const { readyzUrl, readinessGate, endpointReconcilerType, advertiseAddress = [] } = values
  if (readyzUrl !== undefined || readinessGate !== 'continuous' || endpointReconcilerType === 'none') return undefined
  if (isOwnServer(server.href, advertiseAddress)) return undefined
  return (
    `is required: the kubeconfig's server, ${server.origin}, is neither at a loopback nor at an advertised address, ` +
    "so its readiness may not be this master's (or give --readiness-gate startup)"
  )
}

/**
 * Whether the API server at this URL is evidently the one beside us: at a loopback address, or at an address that this
 * master advertises. A load balancer's address is not, and its readiness is not ours.
 */
export function isOwnServer(url: string, advertised: readonly Address[]): boolean {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  if (isLoopbackName(host)) return true
  const address = tryParseAddress(host)
  return address !== undefined && advertised.some((own) => own.text === address.text)
}
