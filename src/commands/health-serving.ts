import type { Configuration } from '../config/configuration.ts'
import type { KubeApi } from '../kube/api.ts'
import { DelegatedAccess } from '../kube/delegated-access.ts'
import { isLoopbackName } from '../net/address.ts'
import { isAlwaysAllowed } from '../telemetry/health-access.ts'
import type { HealthServerOptions } from '../telemetry/http-health-server.ts'
import type { Surroundings } from './api-server.ts'

/** Where and to whom this process shows its health and metrics. */
export function healthServing(
  configuration: Configuration,
  { api, clock, logger }: Surroundings & { readonly api: KubeApi },
): Omit<HealthServerOptions, 'checks' | 'metrics' | 'logger'> {
  const { healthTlsCertFile: certFile, healthTlsPrivateKeyFile: keyFile, clientCaFile } = configuration
  const tokens = configuration.authenticationTokenWebhook
  return {
    ...configuration.healthBindAddress,
    ...(certFile !== undefined && keyFile !== undefined && { tls: { certFile, keyFile, clientCaFile } }),
    ...(asksWho(configuration) && { access: new DelegatedAccess({ api, tokens, clock, logger }) }),
    alwaysAllowPaths: configuration.authorizationAlwaysAllowPaths,
  }
}

/** What others on the network can see or hear that they should not, in one line; undefined when it is nothing. */
export function exposureOf(configuration: Configuration): string | undefined {
  if (isLoopbackName(configuration.healthBindAddress.host)) return undefined
  const lacks = [
    ...(configuration.healthTlsCertFile === undefined ? ['without TLS (--health-tls-cert-file)'] : []),
    ...(!asksWho(configuration) || isAlwaysAllowed('/metrics', configuration.authorizationAlwaysAllowPaths)
      ? ['without authentication (--authentication-token-webhook or --client-ca-file)']
      : []),
  ]
  return lacks.length === 0 ? undefined : `the network is served /metrics ${lacks.join(' and ')}`
}

function asksWho({ authenticationTokenWebhook, clientCaFile }: Configuration): boolean {
  return authenticationTokenWebhook || clientCaFile !== undefined
}
