import { existsSync, readFileSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { unreadableReason } from '../documents/validation.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { systemClock, systemRandom } from '../runtime/system-clock.ts'
import { readText } from '../runtime/system-file.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { Outages } from '../telemetry/outages.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'
import type { KubeApi } from './api.ts'
import { type Discovery, restDiscovery } from './discovery.ts'
import { isLoopbackHost, type ProxyEnvironment, proxyFromEnvironment } from './http-proxy.ts'
import { httpReadiness } from './http-readiness.ts'
import { type Access, type ResolvedKubeConfig, resolveAccess } from './kube-config-access.ts'
import { type KubeConfigEntries, KubeConfigError, readKubeConfig } from './kube-config-document.ts'
import { fromKubeConfig } from './kube-config-transport.ts'
import type { Readiness } from './readiness.ts'
import { restKubeApi } from './rest-api.ts'

export interface LoadKubeConfigOptions {
  /** @default the files of $KUBECONFIG if set, else ~/.kube/config if it exists, else the Pod's service account */
  readonly kubeconfig?: string | undefined
  /** @default the current-context of the file */
  readonly context?: string | undefined
  /** Uses the service account of the Pod in which this program runs, and no kubeconfig. @default false */
  readonly inCluster?: boolean | undefined
  /**
   * Skips the checks of the user's files at the start. Requests reject while the files cannot be used. @default false
   */
  readonly awaitsCredentials?: boolean | undefined
  /** @default process.env */
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined
  /** @default the user's */
  readonly homeDirectory?: string | undefined
  /** The directory of the Pod's service account. @default '/var/run/secrets/kubernetes.io/serviceaccount' */
  readonly serviceAccountDirectory?: string | undefined
}

export interface LoadedKubeConfig extends ResolvedKubeConfig {
  /**
   * Reads the same kubeconfig files again and resolves the same context. Resolves with the same object as before while
   * their text is unchanged. Rejects with a KubeConfigError when the kubeconfig cannot be used or names another server.
   */
  reload(): Promise<ResolvedKubeConfig>
}

/**
 * Finds, reads, merges and checks a kubeconfig as kubectl does, and contacts no server. Of several files in $KUBECONFIG
 * the first to name a cluster, user, context or current-context wins, and missing files are ignored. Relative paths are
 * resolved against the directory of the file that contains them. Rejects with a KubeConfigError of one line.
 */
export async function loadKubeConfig(options: LoadKubeConfigOptions = {}): Promise<LoadedKubeConfig> {
  const environment = options.environment ?? process.env
  const origin = findOrigin(options, environment)
  // Loading client-node takes a third of a second, so only programs that read a kubeconfig load it.
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js')
  const resolveEntries = (
    entries: KubeConfigEntries,
    context: string | undefined,
    checkedFiles: Parameters<typeof resolveAccess>[3] = options.awaitsCredentials === true ? 'authority' : 'all',
  ): ResolvedKubeConfig => {
    const config = new KubeConfig()
    config.loadFromOptions({ ...entries, currentContext: context ?? entries.currentContext })
    const source = origin === 'in-cluster' ? 'of the Pod' : origin.join(delimiter)
    return { config, access: resolveAccess(config, source, environment, checkedFiles) }
  }
  if (origin === 'in-cluster') {
    // In a Pod everything that changes is in separate files, so the configuration itself stays the same.
    const resolved = resolveEntries(serviceAccount(options, environment), options.context)
    return { ...resolved, reload: async () => resolved }
  }
  const merged = (texts: readonly string[]): KubeConfigEntries => {
    const files = origin.map((file, index) => readKubeConfig(file, texts[index] ?? ''))
    return {
      clusters: files.flatMap(({ clusters }) => clusters),
      users: files.flatMap(({ users }) => users),
      contexts: files.flatMap(({ contexts }) => contexts),
      currentContext: files.find(({ currentContext }) => currentContext !== undefined)?.currentContext,
    }
  }
  let texts = await readTexts(origin)
  let last = resolveEntries(merged(texts), options.context)
  let refused: { readonly texts: readonly string[]; readonly error: unknown } | undefined
  const isSame = (some: readonly string[], others: readonly string[]): boolean =>
    some.every((text, index) => text === others[index])
  const { server } = last.access
  const context = last.config.currentContext
  return {
    ...last,
    async reload() {
      const next = await readTexts(origin)
      if (isSame(next, texts)) return last
      // Parsing takes long, so a refused text must not be parsed again each second.
      if (refused !== undefined && isSame(next, refused.texts)) throw refused.error
      try {
        // We keep the context of the start, because `kubectl config use-context` must not move a running program to
        // another cluster.
        const resolved = resolveEntries(merged(next), context, 'none')
        // A file that names another server is refused, because its credentials would be sent to the server in use.
        if (resolved.access.server.href !== server.href) {
          throw new KubeConfigError(
            `kubeconfig ${resolved.access.source}: the server has changed to ${resolved.access.server.origin}; restart to use it`,
          )
        }
        texts = next
        last = resolved
        return last
      } catch (error) {
        refused = { texts: next, error }
        throw error
      }
    },
  }
}

/**
 * The kubeconfig files that are used, or `in-cluster` for the Pod's service account. @throws KubeConfigError if there
 * is neither
 */
export function findOrigin(
  options: LoadKubeConfigOptions,
  environment: ProxyEnvironment,
): 'in-cluster' | readonly string[] {
  if (options.inCluster === true) return 'in-cluster'
  if (options.kubeconfig !== undefined) return [options.kubeconfig]
  const listed = (environment.KUBECONFIG ?? '').split(delimiter).filter((file) => file !== '')
  if (listed.length > 0) {
    const present = listed.filter((file) => existsSync(file))
    if (present.length === 0)
      throw new KubeConfigError(`kubeconfig ${listed.join(delimiter)} (from $KUBECONFIG): no such file`)
    return present
  }
  const own = join(options.homeDirectory ?? homedir(), '.kube', 'config')
  if (existsSync(own)) return [own]
  if (existsSync(join(accountDirectory(options), 'token'))) return 'in-cluster'
  throw new KubeConfigError(
    'no cluster is configured: set --kubeconfig FILE or KUBECONFIG (~/.kube/config does not exist)',
  )
}

/** Reads one file after the other, so that files that hang take only one of Node's threads for files. */
async function readTexts(files: readonly string[]): Promise<string[]> {
  const texts: string[] = []
  for (const file of files) {
    try {
      texts.push(await readText(file))
    } catch (error) {
      throw new KubeConfigError(`kubeconfig ${file}: ${unreadableReason(error)}`)
    }
  }
  return texts
}

/** The Pod's service account as kubeconfig entries, like client-go's `rest.InClusterConfig`. */
function serviceAccount(options: LoadKubeConfigOptions, environment: ProxyEnvironment): KubeConfigEntries {
  const host = environment.KUBERNETES_SERVICE_HOST ?? ''
  const port = environment.KUBERNETES_SERVICE_PORT ?? ''
  const directory = accountDirectory(options)
  if (host === '' || port === '') {
    throw new KubeConfigError('not in a Pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set')
  }
  const tokenFile = join(directory, 'token')
  if (!existsSync(tokenFile)) {
    throw new KubeConfigError(`this Pod has no service account token: ${tokenFile}: no such file`)
  }
  const server = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`
  const namespaceFile = join(directory, 'namespace')
  const namespace = existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : 'default'
  return {
    clusters: [{ name: 'in-cluster', server, caFile: join(directory, 'ca.crt'), skipTLSVerify: false }],
    users: [{ name: 'service-account', tokenFile, authProvider: { name: 'tokenFile', config: { tokenFile } } }],
    contexts: [{ name: 'in-cluster', cluster: 'in-cluster', user: 'service-account', namespace }],
    currentContext: 'in-cluster',
  }
}

function accountDirectory(options: LoadKubeConfigOptions): string {
  return options.serviceAccountDirectory ?? '/var/run/secrets/kubernetes.io/serviceaccount'
}

/** The clients of a master's API server, with the real clock. */
export interface Connection {
  readonly api: KubeApi
  readonly discovery: Discovery
  /** /readyz of the kubeconfig's server, which must be the master's own. */
  readonly readiness: Readiness
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  /** The outages of the API server, for parts created before the master. @default the master creates its own */
  readonly outages?: Outages | undefined
  close(): Promise<void>
}

/** Creates clients for a kubeconfig's server and contacts no server. Rejects with a KubeConfigError of one line. */
export async function connect(
  options: LoadKubeConfigOptions & { readonly logger: Logger; readonly metrics?: Metrics },
): Promise<Connection> {
  const { logger, metrics = prometheusMetrics() } = options
  const clock = systemClock
  const random = systemRandom()
  const { config, access, reload } = await loadKubeConfig(options)
  const outages = new Outages({ clock })
  const transport = fromKubeConfig(config, { access, reload, clock, logger, metrics, outages })
  const api = restKubeApi({ transport, clock, random, logger, metrics })
  const readiness = httpReadiness({ transport, logger, outages })
  const discovery = restDiscovery(transport)
  return { api, discovery, readiness, clock, random, logger, metrics, outages, close: () => transport.close() }
}

/**
 * The access to the readiness URL (`--readyz-url`) of an API server in the cluster of `access`.
 *
 * The connection to the URL trusts the kubeconfig's certificate authority too. It sends credentials only where nobody
 * else can receive them:
 * - to the kubeconfig's own server (same scheme, host and port);
 * - to https on a loopback address, if the server shows a certificate of that authority for the loopback address or for
 *   the name under which the kubeconfig knows the cluster. Every server of the cluster has a certificate for the shared
 *   name of the cluster. The kubeconfig must use https too, and verify certificates.
 *
 * Anywhere else the probe is anonymous, which Kubernetes allows for /readyz unless anonymous requests are switched off.
 */
export function readyzAccess(access: Access, url: URL, environment: ProxyEnvironment): Access {
  const server = new URL(url.origin)
  // The warnings concern the kubeconfig. The connection to its own server logs them.
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
