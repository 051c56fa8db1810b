import { hostname } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { isSelected } from '../bootstrap/duties.ts'
import { createMaster } from '../bootstrap/master.ts'
import type { Configuration } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import { masterOptionsOf } from '../config/master-options.ts'
import type { Flags } from '../config/resolve.ts'
import type { KubeApi } from '../kube/api.ts'
import { DelegatedAccess } from '../kube/delegated-access.ts'
import { LifecycleError } from '../lifecycle/lifecycle.ts'
import { isLoopbackName } from '../net/address.ts'
import { type HealthEndpoint, isAlwaysAllowed } from '../telemetry/health.ts'
import { type HealthServerOptions, serveHealth } from '../telemetry/http-health-server.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { observeProcess, watchEventLoop } from '../telemetry/process-metrics.ts'
import { auditUser, openApiServer, openSurroundings, type Surroundings } from './api-server.ts'
import { EmbeddedScreen } from './embedded.ts'
import { checkCertificates, healthFiles, openEtcd } from './etcd-store.ts'
import { watchOutput } from './output.ts'
import { dieOfUnhandled, stopSignals } from './stop-signals.ts'

/**
 * Manages a cluster's bootstrap until SIGTERM or SIGINT; then shuts down in order and resolves with 0, or with 1 after
 * a failure. Throws, before anything is contacted, an InvalidInputError with the mistakes of the configuration.
 */
export async function execute(flags: Flags): Promise<number> {
  limitHeap()
  const resolved = await loadConfiguration(flags)
  await checkCertificates(resolved, healthFiles)
  const { configuration } = resolved
  const stop = stopSignals()
  const screen = configuration.embedded ? new EmbeddedScreen(process.stdout) : undefined
  const surroundings = await openSurroundings(configuration, process.stdout.isTTY ? screen : undefined)
  const { clock, logger, metrics } = surroundings
  const gated = isSelected(configuration.controllers, 'kubernetes-service')
  const server = await openApiServer(resolved, surroundings, { gated, awaitsCredentials: true })
  const etcd = await openEtcd(resolved, surroundings)
  dieOfUnhandled((error) => logger.error({ error }, 'unhandled error'))
  const endWatch = watchEventLoop({ clock, logger, metrics })
  try {
    const { api, readiness } = server
    const master = createMaster(masterOptionsOf(configuration, hostname()), {
      ...surroundings,
      api,
      readiness,
      etcd,
      user: auditUser(server, etcd),
    })
    observeProcess(metrics, clock)
    const checks = (endpoint: HealthEndpoint) => master.lifecycle.checks(endpoint)
    const health = await serveHealth({
      ...healthServing(configuration, { ...surroundings, api }),
      checks,
      metrics,
      logger,
    })
    const exposure = exposureOf(configuration)
    if (exposure !== undefined) logger.warn({ address: health.address }, exposure)
    logger.info({ server: server.name, health: health.address, dryRun: configuration.dryRun }, 'started')
    const screenEnd = new AbortController()
    const shown = screen?.run(
      { ...surroundings, api, logger: silentLogger },
      `Embedded API server. Health: ${configuration.healthTlsCertFile === undefined ? 'http' : 'https'}://${health.address}/readyz?verbose. Ctrl-C ends it.`,
      screenEnd.signal,
    )
    try {
      await master.run(AbortSignal.any([stop.signal, watchOutput().gone]))
    } finally {
      screenEnd.abort()
      await shown
      await health.close()
    }
    return 0
  } catch (error) {
    // A lifecycle logs its own end.
    if (!(error instanceof LifecycleError)) logger.error({ error }, 'failed')
    return 1
  } finally {
    endWatch()
    await Promise.all([server.close(), etcd?.kv.close()])
    stop.release()
  }
}

/** Where this process serves its health and metrics, and which callers may read them. */
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

/** A warning about what others on the network can read, in one line; undefined when there is nothing. */
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

/**
 * Makes V8 use a little more time for garbage collection and far less memory. Its defaults let the heap grow to a
 * multiple of its contents, and the young generation to 32 MiB: right for a server that owns its machine, wrong beside
 * one. With 10,000 Pods in the copies it is 160 MiB instead of 290, and a fifth more processor time.
 *
 * Both flags are read at each decision, so they take effect in a running process, without a wrapper. A V8 that does not
 * know one prints that and continues.
 */
export function limitHeap(): void {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=40')
}
