import * as z from 'zod/mini'
import { fileName, type OptionGroup, parsedText, type Rule, requires, type ValuesOf } from '../documents/option.ts'

/** The options for the etcd or kine in which the API servers store objects. */
export const etcdOptions = {
  title: 'etcd',
  options: {
    etcdServers: {
      schema: z
        .array(parsedText(parseEndpoint, (endpoint) => endpoint.text))
        .check(z.minLength(1, 'needs at least one endpoint')),
      metavar: 'URL[,URL]',
      description: "the API servers' own etcd or kine: https://, http:// or unix://",
    },
    etcdPrefix: {
      schema: parsedText(parsePrefix, String),
      metavar: 'PREFIX',
      description: "prefix of the API servers' keys, like their own --etcd-prefix",
      default: '/registry',
    },
    etcdCafile: {
      schema: fileName,
      metavar: 'FILE',
      description: 'certificate authorities (PEM) of the etcd servers; read again when it changes',
    },
    etcdCertfile: {
      schema: fileName,
      metavar: 'FILE',
      description: 'client certificate (PEM) for etcd; read again when it changes',
    },
    etcdKeyfile: {
      schema: fileName,
      metavar: 'FILE',
      description: 'key (PEM) of the client certificate; read again when it changes',
    },
  },
} as const satisfies OptionGroup

export type EtcdValues = ValuesOf<typeof etcdOptions>

export const etcdRules: readonly Rule<EtcdValues>[] = [
  {
    on: 'etcdServers',
    needs: ['etcdServers'],
    breach({ etcdServers = [] }) {
      const schemes = new Set(etcdServers.map(({ tls }) => tls))
      return schemes.size > 1 ? 'mixes endpoints with and without TLS' : undefined
    },
  },
  requires('etcdCertfile', 'etcdKeyfile'),
  requires('etcdKeyfile', 'etcdCertfile'),
  ...(['etcdCafile', 'etcdCertfile'] as const).map(
    (key): Rule<EtcdValues> => ({
      on: key,
      needs: [key, 'etcdServers'],
      breach(values) {
        if (values[key] === undefined) return undefined
        if (values.etcdServers === undefined) return 'needs --etcd-servers'
        return values.etcdServers.some(({ tls }) => tls) ? undefined : 'requires an https endpoint'
      },
    }),
  ),
]

/** The address of an etcd server. */
export interface EtcdEndpoint {
  /** The URL with host and port, without a path; for a Unix socket, the text as given. */
  readonly text: string
  readonly tls: boolean
  /** The path of a Unix socket, whose `host` and `port` have no meaning; undefined for TCP. */
  readonly socketPath: string | undefined
  readonly host: string
  readonly port: number
}

/**
 * Matches a host with or without scheme and port. An invalid endpoint of any other form is not quoted in the message,
 * because it may contain a password.
 */
const isAddress = /^(?:[a-z]+:\/\/)?(?:[\w.-]+|\[[\da-f:.]*\]?)(?::\d{0,5})?\/?$/i

class EtcdEndpointError extends Error {
  override readonly name = 'EtcdEndpointError'
  readonly code = 'InvalidEtcdEndpoint'
}

/** Accepts `https://host:2379`, `http://host:2379` or `unix:///path`. Throws {@link EtcdEndpointError}. */
export function parseEndpoint(text: string): EtcdEndpoint {
  if (text.startsWith('unix:')) {
    const socketPath = text.slice('unix:'.length).replace(/^\/\//, '')
    if (socketPath === '')
      throw new EtcdEndpointError(`${JSON.stringify(text)} has no socket path; use unix:///path/to/socket`)
    return { text, tls: false, socketPath, host: 'localhost', port: 0 }
  }
  // This check precedes those below, because their messages quote the text.
  if (text.includes('@')) {
    throw new EtcdEndpointError('an endpoint must not contain a user name or password; use a client certificate')
  }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    const given = isAddress.test(text) ? `endpoint ${JSON.stringify(text)}` : 'an endpoint'
    throw new EtcdEndpointError(`${given} is not valid; use https://HOST:PORT, http://HOST:PORT or unix:///PATH`)
  }
  if (url.pathname !== '/' || /[?#]/.test(text)) {
    throw new EtcdEndpointError(
      `endpoint ${JSON.stringify(url.host)} must have only a host and a port; set the key prefix with --etcd-prefix`,
    )
  }
  // The port is read from the text, because a URL drops the default port of its scheme.
  const [, port] = /:(\d+)\/?$/.exec(text) ?? []
  if (port === undefined)
    throw new EtcdEndpointError(`${JSON.stringify(text)} has no port; the default port of etcd is 2379`)
  const tls = url.protocol === 'https:'
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  return { text: `${url.protocol}//${url.hostname}:${port}`, tls, socketPath: undefined, host, port: Number(port) }
}

/**
 * Normalizes a prefix: one slash at the start, none at the end, none doubled. kube-apiserver normalizes its own prefix
 * too, so the keys are the same. Throws {@link EtcdEndpointError}.
 */
function parsePrefix(text: string): string {
  const parts = text.split('/').filter((part) => part !== '')
  if (parts.length === 0) throw new EtcdEndpointError('needs a name, such as /registry')
  if (parts.some((part) => part === '.' || part === '..')) {
    throw new EtcdEndpointError(`${JSON.stringify(text)} must not contain . or ..`)
  }
  return `/${parts.join('/')}`
}
