import { hostname } from 'node:os'
import { isSelected } from '../bootstrap/controller-selection.ts'
import { createMaster } from '../bootstrap/master.ts'
import { loadConfiguration } from '../config/load-configuration.ts'
import { masterOptionsOf } from '../config/master-options.ts'
import type { Flags } from '../config/resolve.ts'
import { LifecycleError } from '../lifecycle/lifecycle.ts'
import { watchEventLoop } from '../telemetry/event-loop.ts'
import type { HealthEndpoint } from '../telemetry/health.ts'
import { serveHealth } from '../telemetry/http-health-server.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { observeProcess } from '../telemetry/process-metrics.ts'
import { openApiServer } from './api-server.ts'
import { checkCertificates, healthFiles } from './certificate-files.ts'
import { EmbeddedScreen } from './embedded-screen.ts'
import { openEtcd } from './etcd-store.ts'
import { exposureOf, healthServing } from './health-serving.ts'
import { watchOutput } from './output.ts'
import { keepHeapSmall } from './small-heap.ts'
import { dieOfUnhandled, stopSignals } from './stop-signals.ts'
import { auditUser, openSurroundings } from './surroundings.ts'

/**
 * Keeps a cluster bootstrapped until SIGTERM or SIGINT; then shuts down in order and ends with 0, or with 1 after a failure.
 * Throws, before anything is contacted, an InvalidInputError with what is wrong with the configuration.
 */
export async function execute(flags: Flags): Promise<number> {
  keepHeapSmall()
  const resolved = await loadConfiguration(flags)
  await checkCertificates(resolved, healthFiles)
  const { configuration } = resolved
  const stop = stopSignals()
  const screen = configuration.embedded ? new EmbeddedScreen(process.stdout) : undefined
  const surroundings = await openSurroundings(configuration, process.stdout.isTTY ? screen : undefined)
  const { clock, logger, metrics } = surroundings
  const gated = isSelected(configuration.controllers, 'kubernetes-service')
  const server = await openApiServer(resolved, surroundings, { gated })
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
      `An embedded API server, bootstrapped. Health: ${configuration.healthTlsCertFile === undefined ? 'http' : 'https'}://${health.address}/readyz?verbose. Ctrl-C ends it.`,
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
    // A lifecycle logs what ends it.
    if (!(error instanceof LifecycleError)) logger.error({ error }, 'failed')
    return 1
  } finally {
    endWatch()
    await Promise.all([server.close(), etcd?.kv.close()])
    stop.release()
  }
}
