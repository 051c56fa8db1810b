import { isLoopbackHost, type ProxyEnvironment, proxyFromEnvironment } from './http-proxy.ts'
import type { Access } from './kube-config-access.ts'

/**
 * How to reach the readiness URL of one API server of the cluster that `access` leads to (`--readyz-url`), for `fromKubeConfig`.
 *
 * The kubeconfig's certificate authority is trusted there too, but credentials go only where nobody else can take them:
 * - to the kubeconfig's own server (same scheme, host and port);
 * - to https on a loopback address, if the server shows a certificate of that authority for the loopback address or for the name
 *   under which the kubeconfig knows the cluster. A certificate for the cluster's shared name is what every one of its servers has.
 *
 * Anywhere else the probe is anonymous, which Kubernetes allows for /readyz unless anonymous requests are switched off.
 */
export function readyzAccess(access: Access, url: URL, environment: ProxyEnvironment): Access {
  const server = new URL(url.origin)
  // They are about the kubeconfig, and said where that is connected to.
  const warnings: readonly string[] = []
  if (url.origin === access.server.origin) return { ...access, server, warnings }
  const proxy = proxyFromEnvironment(url, environment)
  const anonymous = {
    ...access,
    server,
    proxy,
    user: undefined,
    clientCertificate: undefined,
    serverName: undefined,
    warnings,
  }
  if (!isLoopbackHost(url)) return anonymous
  const serverNames = [url.hostname, access.serverName ?? access.server.hostname]
  const trusted = url.protocol === 'https:' && access.server.protocol === 'https:' && !access.skipVerify
  return trusted ? { ...access, server, proxy, serverNames, warnings } : { ...anonymous, serverNames }
}
