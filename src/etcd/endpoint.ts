/** Where an etcd server listens. */
export interface EtcdEndpoint {
  /** As it was given, without a path. */
  readonly text: string
  readonly tls: boolean
  /** Of a Unix socket; then host and port have no meaning. */
  readonly socketPath: string | undefined
  readonly host: string
  readonly port: number
}

/** An endpoint or prefix that cannot be used. */
export class EtcdEndpointError extends Error {
  override readonly name = 'EtcdEndpointError'
  readonly code = 'InvalidEtcdEndpoint'
}

/** `https://host:2379`, `http://host:2379` or `unix:///path`, as kube-apiserver takes them. Throws {@link EtcdEndpointError}. */
export function parseEndpoint(text: string): EtcdEndpoint {
  if (text.startsWith('unix:')) {
    const socketPath = text.slice('unix:'.length).replace(/^\/\//, '')
    if (socketPath === '')
      throw new EtcdEndpointError(`${JSON.stringify(text)} names no socket: unix:///path/of/socket`)
    return { text, tls: false, socketPath, host: 'localhost', port: 0 }
  }
  // Looked for before anything of it is quoted.
  if (text.includes('@')) {
    throw new EtcdEndpointError('an endpoint takes no user and password: etcd is asked with a client certificate')
  }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw new EtcdEndpointError(
      `${JSON.stringify(text)} is no endpoint: https://HOST:PORT, http://HOST:PORT or unix:///PATH`,
    )
  }
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    throw new EtcdEndpointError(`${JSON.stringify(text)} has more than a host and a port; keys are below --etcd-prefix`)
  }
  // A URL forgets the port that is its scheme's own.
  const [, port] = /:(\d+)\/?$/.exec(text) ?? []
  if (port === undefined) throw new EtcdEndpointError(`${JSON.stringify(text)} needs a port; etcd's own is 2379`)
  const tls = url.protocol === 'https:'
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  return { text: `${url.protocol}//${url.hostname}:${port}`, tls, socketPath: undefined, host, port: Number(port) }
}

/** The prefix with one leading slash and none at the end, as kube-apiserver reads its own. Throws {@link EtcdEndpointError}. */
export function parsePrefix(text: string): string {
  const parts = text.split('/').filter((part) => part !== '')
  if (parts.length === 0) throw new EtcdEndpointError('needs a name, such as /registry')
  if (parts.some((part) => part === '.' || part === '..')) {
    throw new EtcdEndpointError(`${JSON.stringify(text)} must not hold . or ..`)
  }
  return `/${parts.join('/')}`
}
