import * as z from 'zod/mini'
import { duration } from '../documents/duration.ts'
import { fileName, type OptionGroup, parsedText, type Rule, requires, type ValuesOf } from '../documents/option.ts'
import type { ConnectionValues } from '../kube/options.ts'
import { formatHostPort, parseHostPort } from '../net/host-port.ts'

const paths = z.array(
  z.string().check(z.regex(/^\/[^*\s]*\*?$/, 'must begin with / and may have a * as its last character only')),
)

export const lifecycleOptions = {
  title: 'Health and shutdown of this process',
  options: {
    healthBindAddress: {
      schema: parsedText(parseHostPort, formatHostPort),
      metavar: 'HOST:PORT',
      description: 'where /livez, /readyz, /healthz and /metrics are served; port 0 picks a free one and logs it',
      default: '127.0.0.1:10269',
      conditionalDefault: {
        description: '127.0.0.1:10269; 127.0.0.1:0 with --embedded',
        value: (given) => (given('embedded') ? '127.0.0.1:0' : undefined),
      },
    },
    healthTlsCertFile: {
      schema: fileName,
      metavar: 'FILE',
      description: 'certificate (PEM); with it, --health-bind-address serves HTTPS only; reloaded when it changes',
    },
    healthTlsPrivateKeyFile: {
      schema: fileName,
      metavar: 'FILE',
      description: 'private key (PEM) of --health-tls-cert-file; reloaded when it changes',
    },
    authenticationTokenWebhook: {
      schema: z.boolean(),
      description:
        'authenticate bearer tokens by TokenReview, and authorize their users by SubjectAccessReview for /metrics and every other path that is not always allowed',
      default: false,
    },
    clientCaFile: {
      schema: fileName,
      metavar: 'FILE',
      description:
        'certificate authorities (PEM) of client certificates: the common name is the user, the organizations are the groups, and SubjectAccessReview authorizes them; reloaded when it changes',
    },
    authorizationAlwaysAllowPaths: {
      schema: paths,
      metavar: 'LIST',
      description: 'paths that need no authentication; /path/* stands for every path below it',
      default: ['/healthz', '/livez', '/readyz'],
    },
    shutdownDelayDuration: {
      schema: duration({ minMs: 0 }),
      metavar: 'DURATION',
      description: 'how long the process runs on after its address is withdrawn',
      default: '0s',
    },
  },
} as const satisfies OptionGroup

export type LifecycleValues = ValuesOf<typeof lifecycleOptions>

const alwaysAllowed = lifecycleOptions.options.authorizationAlwaysAllowPaths.default.join()

export const lifecycleRules: readonly Rule<LifecycleValues & ConnectionValues>[] = [
  requires('healthTlsCertFile', 'healthTlsPrivateKeyFile'),
  requires('healthTlsPrivateKeyFile', 'healthTlsCertFile'),
  {
    on: 'authorizationAlwaysAllowPaths',
    needs: ['authenticationTokenWebhook', 'clientCaFile'],
    // kube-controller-manager always authenticates, so its list of this name always applies. Here, if no authentication
    // is configured, a shorter list would not protect /metrics.
    breach: ({ authorizationAlwaysAllowPaths: paths, authenticationTokenWebhook, clientCaFile }) =>
      paths.join() !== alwaysAllowed && !authenticationTokenWebhook && clientCaFile === undefined
        ? 'requires --authentication-token-webhook or --client-ca-file: without them anyone can read every path'
        : undefined,
  },
  ...(['authenticationTokenWebhook', 'clientCaFile'] as const).map(
    (key): Rule<LifecycleValues & ConnectionValues> => ({
      on: key,
      needs: ['healthTlsCertFile', 'embedded'],
      breach(values) {
        if (values[key] === undefined || values[key] === false) return undefined
        if (values.healthTlsCertFile === undefined) {
          return 'needs --health-tls-cert-file: without TLS, credentials are sent in plain text'
        }
        return values.embedded ? 'has no use with --embedded: that API server has no users' : undefined
      },
    }),
  ),
]
