import { type Address, isLoopbackName, tryParseAddress } from '../net/address.ts'

/** Reads the URL of a readiness endpoint: http or https, without credentials; without a path, /readyz is meant. @throws TypeError */
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
 * What is wrong with a master that was not told its own API server's /readyz: undefined when the kubeconfig's server is evidently its own, or
 * when nobody leaves the list for unreadiness.
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
 * Whether the API server at this URL is evidently the one beside us: at a loopback address, or at an address that this master advertises.
 * A load balancer's is not, and its readiness says nothing of ours.
 */
export function isOwnServer(url: string, advertised: readonly Address[]): boolean {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  if (isLoopbackName(host)) return true
  const address = tryParseAddress(host)
  return address !== undefined && advertised.some((own) => own.text === address.text)
}
