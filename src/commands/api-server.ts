import { userInfo } from 'node:os'
import type { ApiServer as EmbeddedServer } from '../apiserver/api-server.ts'
import { isSelected } from '../bootstrap/duties.ts'
import type { Configuration } from '../config/configuration.ts'
import type { Resolved } from '../config/resolve.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { KubeApi } from '../kube/api.ts'
import type { AuditUser } from '../kube/audit.ts'
import { type Discovery, restDiscovery } from '../kube/discovery.ts'
import { httpReadiness } from '../kube/http-readiness.ts'
import type { ResolvedKubeConfig } from '../kube/kube-config-access.ts'
import { missingReadyzUrl, type Readiness } from '../kube/readiness.ts'
import { restKubeApi } from '../kube/rest-api.ts'
import type { Transport } from '../kube/transport.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import { systemClock, systemRandom } from '../runtime/system-clock.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { Outages } from '../telemetry/outages.ts'
import { createPinoLogger } from '../telemetry/pino-logger.ts'
import { prometheusMetrics } from '../telemetry/prometheus-metrics.ts'

/** The API server of a command: a remote server, or a server in this process. */
export interface ApiServer {
  /** The URL of the server, or `embedded`, for messages. */
  readonly name: string
  /** The name of the user in the kubeconfig; undefined if there is none, as for an embedded server. */
  readonly user: string | undefined
  readonly api: KubeApi
  readonly discovery: Discovery
  /** The kubeconfig file for other clients; only of an embedded API server that listens. */
  readonly kubeconfigFile?: string
  readonly readiness: Readiness
  close(): Promise<void>
}

export interface Surroundings {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
  /** Records the outages of the API server. @default no record */
  readonly outages?: Outages | undefined
}

interface Opened extends Omit<ApiServer, 'api' | 'discovery'> {
  readonly transport: Transport
}

/**
 * Opens the configured API server without contacting it. Throws an InvalidInputError if the kubeconfig is unusable.
 * - `gated`: also throws if the URL of this master's own `/readyz` is unknown.
 * - `awaitsCredentials`: files with credentials of the user may be missing.
 * - `servesEmbedded`: an embedded API server listens for kubectl and other clients.
 * - `patient`: for callers that do not retry. If a busy server refuses a request with Retry-After, the request is
 *   repeated for about 12 seconds instead of two.
 */
export async function openApiServer(
  resolved: Resolved,
  surroundings: Surroundings,
  options: {
    readonly gated: boolean
    readonly awaitsCredentials?: boolean
    readonly servesEmbedded?: boolean
    readonly patient?: boolean
  },
): Promise<ApiServer> {
  const opened = resolved.configuration.embedded
    ? await openEmbedded(resolved, surroundings, options.servesEmbedded === true)
    : await openRemote(resolved, surroundings, options)
  const { transport, ...server } = opened
  const retry = options.patient === true ? { attempts: 13 } : {}
  return { ...server, api: restKubeApi({ transport, ...surroundings, retry }), discovery: restDiscovery(transport) }
}

/** Whether `run` needs the URL of this master's own `/readyz`. Only the duty `kubernetes-service` depends on it. */
export function isGated({ controllers }: Configuration): boolean {
  return isSelected(controllers, 'kubernetes-service')
}

async function openEmbedded(
  { configuration }: Resolved,
  surroundings: Surroundings,
  isServed: boolean,
): Promise<Opened> {
  const { createApiServer, inProcessReadiness, inProcessTransport } = await import('../apiserver/api-server.ts')
  const { serviceNodePortRange } = configuration
  const options = { ...surroundings, serviceNodePortRange }
  const opened = (server: EmbeddedServer) => {
    const transport = inProcessTransport(server)
    const readiness = inProcessReadiness(server)
    return { name: 'embedded', user: undefined, transport, readiness, close: () => transport.close() }
  }
  if (!isServed) return opened(createApiServer(options))
  const { startApiServer } = await import('../apiserver/http-start.ts')
  const { writtenKubeconfig } = await import('./kubeconfig-file.ts')
  const started = await startApiServer(options)
  const kubeconfig = await writtenKubeconfig(started, undefined)
  const inside = opened(started.server)
  return {
    ...inside,
    name: started.url,
    kubeconfigFile: kubeconfig.file,
    async close() {
      await Promise.all([inside.close(), started.close()])
      kubeconfig[Symbol.dispose]()
    },
  }
}

async function openRemote(
  resolved: Resolved,
  surroundings: Surroundings,
  { gated, awaitsCredentials = false }: Parameters<typeof openApiServer>[2],
): Promise<Opened> {
  const { configuration } = resolved
  const { fromKubeConfig } = await import('../kube/kube-config-transport.ts')
  const { readyzAccess } = await import('../kube/kube-config.ts')
  const { config, access, reload } = await loadAccess(resolved, awaitsCredentials)
  if (gated) checkReadyzUrl(resolved, access.server)
  const { clock, logger, metrics, outages } = surroundings
  const transport = fromKubeConfig(config, { access, reload, clock, logger, metrics, outages })
  const opened = { name: access.server.origin, user: access.user?.name, transport }
  if (configuration.readyzUrl === undefined) {
    return { ...opened, readiness: httpReadiness({ transport, logger, outages }), close: () => transport.close() }
  }
  const url = new URL(configuration.readyzUrl)
  const hasOwnAddress = url.origin !== access.server.origin
  const own = ({ config, access }: ResolvedKubeConfig) => ({ config, access: readyzAccess(access, url, process.env) })
  const ownTransport = fromKubeConfig(config, {
    access: own({ config, access }).access,
    reload: async () => own(await reload()),
    clock,
    logger,
    ...(hasOwnAddress ? {} : { outages }),
  })
  const probe = { transport: ownTransport, path: url.pathname, name: url.href, logger }
  return {
    ...opened,
    readiness: hasOwnAddress ? { ...httpReadiness(probe), hasOwnAddress } : httpReadiness({ ...probe, outages }),
    async close() {
      await Promise.all([transport.close(), ownTransport.close()])
    },
  }
}

/** Reads the configured kubeconfig. Throws an InvalidInputError if it is unusable. */
export async function loadAccess(
  resolved: Resolved,
  awaitsCredentials: boolean,
): ReturnType<typeof import('../kube/kube-config.ts').loadKubeConfig> {
  const { loadKubeConfig } = await import('../kube/kube-config.ts')
  const { kubeconfig, context, inCluster } = resolved.configuration
  try {
    return await loadKubeConfig({ kubeconfig, context, inCluster, awaitsCredentials })
  } catch (cause) {
    if (!(cause instanceof Error) || cause.name !== 'KubeConfigError') throw cause
    const where = resolved.placeOf(inCluster ? 'inCluster' : 'kubeconfig')
    throw new InvalidInputError([{ where, message: cause.message }], { cause })
  }
}

function checkReadyzUrl({ configuration, placeOf }: Resolved, server: URL): void {
  const message = missingReadyzUrl(configuration, server)
  if (message !== undefined) throw new InvalidInputError([{ where: placeOf('readyzUrl'), message }])
}

/**
 * The real clock, randomness, log and metrics. With a `terminal`, log lines go there in the format `pretty`, instead of
 * to standard error.
 */
export async function openSurroundings(
  configuration: Configuration,
  terminal?: { write(line: string): void },
): Promise<Surroundings> {
  const { logLevel: level, logFormat: format } = configuration
  const logger = await createPinoLogger(
    terminal === undefined ? { level, format } : { level, format: 'pretty', destination: terminal },
  )
  const clock = systemClock
  return { clock, random: systemRandom(), logger, metrics: prometheusMetrics(), outages: new Outages({ clock }) }
}

/** As {@link openSurroundings}, but without a log: for a command that reports only to its user. */
export function silentSurroundings(): Surroundings {
  return { clock: systemClock, random: systemRandom(), logger: silentLogger, metrics: prometheusMetrics() }
}

/**
 * Who uses the opened servers and this machine, for the audit trail. `etcd.user`: the common name in the certificate
 * for etcd.
 */
export function auditUser(
  server: Pick<ApiServer, 'user'> | undefined,
  etcd: { readonly user?: string | undefined } | undefined,
): Omit<AuditUser, 'host'> {
  const { SUDO_USER: sudoUser } = process.env
  return { kubeconfigUser: server?.user, etcdUser: etcd?.user, localUser: localUser(), sudoUser }
}

/** The name of the user, or the uid if the system knows no name for it, as in most containers. */
function localUser(): string | undefined {
  try {
    return userInfo().username
  } catch {
    return process.getuid?.().toString()
  }
}
