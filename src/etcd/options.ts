import * as z from 'zod/mini'
import { type OptionGroup, parsedText, type Rule, type ValuesOf } from '../documents/option.ts'
import { parseEndpoint, parsePrefix } from './endpoint.ts'

const file = z.string().check(z.minLength(1, 'needs the name of a file'))

/** The etcd, or kine, that the API servers store into. */
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
      schema: file,
      metavar: 'FILE',
      description: 'certificate authorities (PEM) of the etcd servers; read again when it changes',
    },
    etcdCertfile: {
      schema: file,
      metavar: 'FILE',
      description: 'client certificate (PEM) for etcd; read again when it changes',
    },
    etcdKeyfile: {
      schema: file,
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
  {
    on: 'etcdCertfile',
    needs: ['etcdCertfile', 'etcdKeyfile'],
    breach: ({ etcdCertfile, etcdKeyfile }) =>
      etcdCertfile !== undefined && etcdKeyfile === undefined ? 'needs --etcd-keyfile' : undefined,
  },
  {
    on: 'etcdKeyfile',
    needs: ['etcdCertfile', 'etcdKeyfile'],
    breach: ({ etcdCertfile, etcdKeyfile }) =>
      etcdKeyfile !== undefined && etcdCertfile === undefined ? 'needs --etcd-certfile' : undefined,
  },
  ...(['etcdCafile', 'etcdCertfile'] as const).map(
    (key): Rule<EtcdValues> => ({
      on: key,
      needs: [key, 'etcdServers'],
      breach(values) {
        if (values[key] === undefined) return undefined
        if (values.etcdServers === undefined) return 'needs --etcd-servers'
        return values.etcdServers.some(({ tls }) => tls) ? undefined : 'has no use without an https endpoint'
      },
    }),
  ),
]
