import type { Resolved } from '../config/resolve.ts'
import { InvalidInputError } from '../documents/validation.ts'
import type { KubeApi } from '../kube/api.ts'
import { httpReadiness } from '../kube/http-readiness.ts'
import type { ResolvedKubeConfig } from '../kube/kube-config-access.ts'
import type { Readiness } from '../kube/readiness.ts'
import { missingReadyzUrl } from '../kube/readyz-url.ts'
import { restKubeApi } from '../kube/rest-api.ts'
import type { Transport } from '../kube/transport.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Random } from '../runtime/random.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'

/** The API server that a command works on: somewhere, or in this process. */
export interface ApiServer {
  /** Where it is, for people. */
  readonly name: string
  /** The user of the kubeconfig, by its name there; undefined for anonymous requests. */
  readonly user: string | undefined
  readonly api: KubeApi
  /** Of this master's own API server. */
  readonly readiness: Readiness
  close(): Promise<void>
}

/** What the connection needs of the process. */
export interface Surroundings {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: Metrics
}

interface Opened extends Omit<ApiServer, 'api'> {
  readonly transport: Transport
}

/**
 * Opens what the configuration names, and contacts nobody. Throws an InvalidInputError for a kubeconfig that cannot be used and, with
 * `gated`, for one that leaves open where this master's own readiness is asked.
 */
export async function openApiServer(
  resolved: Resolved,
  surroundings: Surroundings,
  options: { readonly gated: boolean },
): Promise<ApiServer> {
  const opened = resolved.configuration.embedded
    ? await openEmbedded(resolved, surroundings)
    : await openRemote(resolved, surroundings, options.gated)
  const { transport, ...server } = opened
  return { ...server, api: restKubeApi({ transport, ...surroundings }) }
}

async function openEmbedded({ configuration }: Resolved, surroundings: Surroundings): Promise<Opened> {
  const { createApiServer } = await import('../apiserver/api-server.ts')
  const { inProcessReadiness, inProcessTransport } = await import('../apiserver/in-process.ts')
  const { serviceNodePortRange } = configuration
  const server = createApiServer({ ...surroundings, serviceNodePortRange })
  const transport = inProcessTransport(server)
  const readiness = inProcessReadiness(server)
  return { name: 'embedded', user: undefined, transport, readiness, close: () => transport.close() }
}

async function openRemote(resolved: Resolved, surroundings: Surroundings, gated: boolean): Promise<Opened> {
  const { configuration } = resolved
  const { fromKubeConfig } = await import('../kube/kube-config-transport.ts')
  const { readyzAccess } = await import('../kube/kube-config-readyz.ts')
  const { config, access, reload } = await loadAccess(resolved)
  if (gated) checkReadyzUrl(resolved, access.server)
  const { clock, logger, metrics } = surroundings
  const transport = fromKubeConfig(config, { access, reload, clock, logger, metrics })
  const name = access.server.origin
  const user = access.user?.name
  if (configuration.readyzUrl === undefined) {
    return { name, user, transport, readiness: httpReadiness({ transport, logger }), close: () => transport.close() }
  }
  const url = new URL(configuration.readyzUrl)
  const own = (resolved: ResolvedKubeConfig) => ({
    ...resolved,
    access: readyzAccess(resolved.access, url, process.env),
  })
  const { access: ownAccess } = own({ config, access })
  const ownTransport = fromKubeConfig(config, {
    access: ownAccess,
    reload: async () => own(await reload()),
    clock,
    logger,
  })
  return {
    name,
    user,
    transport,
    readiness: httpReadiness({ transport: ownTransport, path: url.pathname, name: url.href, logger }),
    async close() {
      await Promise.all([transport.close(), ownTransport.close()])
    },
  }
}

async function loadAccess(resolved: Resolved): ReturnType<typeof import('../kube/kube-config.ts').loadKubeConfig> {
  const { loadKubeConfig } = await import('../kube/kube-config.ts')
  const { kubeconfig, context, inCluster } = resolved.configuration
  try {
    return await loadKubeConfig({ kubeconfig, context, inCluster })
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
