import { hostname } from 'node:os'
import { createMaster } from '../bootstrap/master.ts'
import type { Configuration } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import { masterOptionsOf } from '../config/master-options.ts'
import type { Flags, Resolved } from '../config/resolve.ts'
import type { KubeApi } from '../kube/api.ts'
import { delegatedAccess } from '../kube/delegated-access.ts'
import { isOwnServer } from '../kube/readiness.ts'
import { LifecycleError } from '../lifecycle/lifecycle.ts'
import { isLoopbackName } from '../net/address.ts'
import { portOf } from '../net/host-port.ts'
import { shellWord } from '../runtime/shell.ts'
import { limitHeap, releaseMemory } from '../runtime/system-heap.ts'
import { type HealthEndpoint, isAlwaysAllowed } from '../telemetry/health.ts'
import { ListenError } from '../telemetry/http-bounded-server.ts'
import { type HealthServerOptions, serveHealth } from '../telemetry/http-health-server.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import { observeProcess, watchEventLoop } from '../telemetry/process-metrics.ts'
import { auditUser, isGated, openApiServer, openSurroundings, type Surroundings } from './api-server.ts'
import { EmbeddedScreen } from './embedded.ts'
import { checkCertificates, healthFiles, openEtcd } from './etcd-store.ts'
import { watchOutput } from './output.ts'
import type { StatusPage } from './status-page/http-status-page.ts'
import { dieOfUnhandled, stopSignals } from './stop-signals.ts'

/**
 * Runs a master until SIGTERM or SIGINT (with `--embedded` also SIGHUP), or until standard output cannot be written.
 * Then shuts down in order. Resolves with 0, or with 1 after a failure. Throws an InvalidInputError for mistakes of the
 * configuration, before it contacts a server.
 */
export async function execute(flags: Flags): Promise<number> {
  limitHeap()
  const resolved = await loadConfiguration(flags)
  await checkCertificates(resolved, healthFiles)
  const { configuration } = resolved
  // A person usually runs an embedded API server in a terminal, so it also shuts down in order when the terminal is
  // closed.
  const embeddedStop = configuration.embedded ? stopSignals(['SIGHUP']) : undefined
  const screen = configuration.embedded ? new EmbeddedScreen(process.stdout) : undefined
  const surroundings = await openSurroundings(configuration, process.stdout.isTTY ? screen : undefined)
  const { clock, logger, metrics } = surroundings
  const gated = isGated(configuration)
  const server = await openApiServer(resolved, surroundings, { gated, awaitsCredentials: true, servesEmbedded: true })
  const etcd = await openEtcd(resolved, surroundings)
  const stop = embeddedStop ?? stopSignals()
  dieOfUnhandled((error) => logger.error({ error }, 'unhandled error'))
  const ends = [watchEventLoop({ clock, logger, metrics }), releaseMemory(clock)]
  try {
    const { api, discovery, readiness } = server
    const master = createMaster(masterOptionsOf(configuration, hostname()), {
      ...surroundings,
      api,
      discovery,
      readiness,
      etcd,
      user: auditUser(server, etcd),
    })
    observeProcess(metrics, clock)
    const checks = (endpoint: HealthEndpoint) => master.lifecycle.checks(endpoint)
    const serving = healthServing(configuration, { ...surroundings, api })
    const health = await serveHealth({ ...serving, checks, metrics, logger })
    const exposure = exposureOf(configuration)
    if (exposure !== undefined) logger.warn({ address: health.address }, exposure)
    const portWarning = portWarningOf(resolved, server.name)
    if (portWarning !== undefined) logger.warn({ server: server.name }, portWarning)
    logger.info({ server: server.name, health: health.address, dryRun: configuration.dryRun }, 'started')
    const screenEnd = new AbortController()
    let page: StatusPage | undefined
    let shown: Promise<void> | undefined
    try {
      if (server.kubeconfigFile !== undefined) page = await openPage(api, configuration, logger)
      shown = screen?.run(
        { ...surroundings, api, logger: silentLogger },
        greeting(
          `${configuration.healthTlsCertFile === undefined ? 'http' : 'https'}://${health.address}`,
          server.kubeconfigFile,
          page?.url,
        ),
        screenEnd.signal,
      )
      await master.run(AbortSignal.any([stop.signal, watchOutput().gone]))
    } finally {
      screenEnd.abort()
      await shown
      await page?.close()
      await health.close()
    }
    return 0
  } catch (error) {
    // The lifecycle has already logged its own failure.
    const flag = error instanceof ListenError ? { flag: '--health-bind-address' } : {}
    if (!(error instanceof LifecycleError)) logger.error({ error, ...flag }, 'failed')
    return 1
  } finally {
    for (const end of ends) end()
    await Promise.all([server.close(), etcd?.kv.close()])
    stop.release()
  }
}

/** Opens the live page. Its code is imported here, because `run` needs it only with an embedded API server. */
async function openPage(api: KubeApi, { leaseNamespace }: Configuration, logger: Logger): Promise<StatusPage> {
  const { openStatusPage } = await import('./status-page/http-status-page.ts')
  const page = await openStatusPage({ host: '127.0.0.1', port: 0 }, logger)
  page.start(async () => {
    const { embeddedSource } = await import('./status-page/embedded-source.ts')
    return embeddedSource(api, leaseNamespace)
  })
  return page
}

/** The text above the objects, with commands to try. One of these deletes an object, to show its repair. */
function greeting(health: string, kubeconfigFile: string | undefined, page: string | undefined): string {
  return `Embedded API server. Ctrl-C ends it. Health: ${health}/readyz?verbose. Live page: ${page}. To try it:
  export KUBECONFIG=${shellWord(kubeconfigFile ?? '')}
  kubectl get services,endpointslices
  kubectl delete endpointslice kubernetes
  kubectl get events --sort-by=.metadata.creationTimestamp`
}

/** Where this process serves health and metrics, and which callers may read these. */
function healthServing(
  configuration: Configuration,
  { api, clock, logger, outages }: Surroundings & { readonly api: KubeApi },
): Omit<HealthServerOptions, 'checks' | 'metrics' | 'logger'> {
  const { healthTlsCertFile: certFile, healthTlsPrivateKeyFile: keyFile, clientCaFile } = configuration
  const tokens = configuration.authenticationTokenWebhook
  return {
    ...configuration.healthBindAddress,
    ...(certFile !== undefined && keyFile !== undefined && { tls: { certFile, keyFile, clientCaFile } }),
    ...(requiresAuthentication(configuration) && {
      access: delegatedAccess({ api, tokens, clock, logger, outages }),
    }),
    alwaysAllowPaths: configuration.authorizationAlwaysAllowPaths,
  }
}

/** A warning if the metrics are served to the network without TLS or without authentication; else undefined. */
export function exposureOf(configuration: Configuration): string | undefined {
  if (isLoopbackName(configuration.healthBindAddress.host)) return undefined
  const lacks = [
    ...(configuration.healthTlsCertFile === undefined ? ['without TLS (--health-tls-cert-file)'] : []),
    ...(!requiresAuthentication(configuration) ||
    isAlwaysAllowed('/metrics', configuration.authorizationAlwaysAllowPaths)
      ? ['without authentication (--authentication-token-webhook or --client-ca-file)']
      : []),
  ]
  return lacks.length === 0 ? undefined : `/metrics is served to the network ${lacks.join(' and ')}`
}

/**
 * A warning if `--secure-port` is not given although this master's own API server, by its URL, listens on another port
 * than the default; else undefined. `server`: the URL of the kubeconfig's server.
 */
export function portWarningOf({ configuration, settings }: Resolved, server: string): string | undefined {
  const { securePort, advertiseAddress = [], readyzUrl = server, embedded } = configuration
  const isDefault = settings.some(({ key, source }) => key === 'securePort' && source.type === 'default')
  if (embedded || !isDefault || !isGated(configuration) || !isOwnServer(readyzUrl, advertiseAddress)) return undefined
  const found = portOf(new URL(readyzUrl))
  if (found === securePort) return undefined
  return `default/kubernetes gets port ${securePort}, the default of --secure-port, but this master's API server is at port ${found}: clients reach nothing unless it listens on ${securePort} too; else give --secure-port=${found}`
}

function requiresAuthentication({ authenticationTokenWebhook, clientCaFile }: Configuration): boolean {
  return authenticationTokenWebhook || clientCaFile !== undefined
}
