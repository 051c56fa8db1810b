import { certificateFault, failureCode } from '../net/host-port.ts'
import type { Clock } from '../runtime/clock.ts'
import { systemClock } from '../runtime/system-clock.ts'
import { expiryReporter } from '../telemetry/expiry.ts'
import { type Logger, silentLogger } from '../telemetry/logger.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Outages } from '../telemetry/outages.ts'
import { KubeError } from './errors.ts'
import { type ClientTls, HttpTransport } from './http-transport.ts'
import { type Access, type ResolvedKubeConfig, resolveAccess } from './kube-config-access.ts'
import { type Credentials, KubeCredentials } from './kube-config-credentials.ts'
import type { KubeConfig } from './kube-config-document.ts'
import type { ApiRequest, ApiResponse, Transport } from './transport.ts'

export interface KubeConfigTransportOptions {
  /** The current context, if it was resolved before (by `loadKubeConfig`). */
  readonly access?: Access | undefined
  /** Reads the kubeconfig again (`reload` of the result of `loadKubeConfig`). @default it is never read again */
  readonly reload?: (() => Promise<ResolvedKubeConfig>) | undefined
  /** Receives the expiry times of the credentials as a metric. @default none */
  readonly metrics?: Metrics | undefined
  /** @default the system's */
  readonly clock?: Clock | undefined
  /** @default none */
  readonly logger?: Logger | undefined
  /** The outages of the API server. @default no outage is known */
  readonly outages?: Outages | undefined
  /** How long an exec plugin or auth-provider may take, in milliseconds. @default 30000 */
  readonly execTimeoutMs?: number | undefined
}

/**
 * How long a request that may be anonymous waits for the first credentials of a plugin or issuer, in milliseconds. For
 * those in files it waits four times as long.
 */
const ANONYMOUS_AFTER_MS = 250

/**
 * A Transport to the server of a kubeconfig's current context, with that context's credentials.
 *
 * Credentials are updated as {@link KubeCredentials} describes. After a 401 a request is sent once more if newer
 * credentials are available within a second. A readiness probe waits for the first credentials: a quarter of a second
 * for a plugin or issuer, a second for files. If there are none by then, it is sent without credentials. If a new
 * certificate authority does not verify the server, the probe is sent anonymously, and the previous authority verifies
 * the server.
 *
 * Each risky setting of the kubeconfig is logged once. When certificates change, new requests use new connections, and
 * the old ones close when their requests and watches have ended. Throws a KubeConfigError if the kubeconfig is not
 * usable.
 */
export function fromKubeConfig(config: KubeConfig, options: KubeConfigTransportOptions = {}): Transport {
  return new KubeConfigTransport(config, options)
}

/** The connections with certain TLS settings. `identity` is equal for equal settings. */
interface Lane {
  readonly tls: ClientTls
  readonly identity: string
  readonly transport: HttpTransport
}

class KubeConfigTransport implements Transport {
  readonly #access: Access
  readonly #logger: Logger
  readonly #credentials: KubeCredentials
  readonly #retiring = new Set<HttpTransport>()
  readonly #warnings = new Set<string>()
  #current: Lane | undefined
  /**
   * The certificate authority that last verified the server; undefined if none did. `ca`: undefined for the system's
   * authorities.
   */
  #verified: { readonly ca: string | undefined } | undefined
  #isUnverified = false
  /** The connections of anonymous requests, while there are any. */
  #anonymous: Lane | undefined
  #closed = false

  constructor(config: KubeConfig, options: KubeConfigTransportOptions) {
    this.#access = options.access ?? resolveAccess(config, 'given by the program', process.env)
    const { clock = systemClock, logger = silentLogger, metrics, reload } = options
    this.#logger = logger
    this.#credentials = new KubeCredentials({
      config,
      access: this.#access,
      reload:
        reload &&
        (async () => {
          const resolved = await reload()
          this.#warnOf(resolved.access)
          return resolved
        }),
      onExpiry: metrics && expiryReporter({ metrics, clock, logger }),
      clock,
      logger,
      outages: options.outages,
      execTimeoutMs: options.execTimeoutMs,
    })
    this.#warnOf(this.#access)
  }

  async send(request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
    if (request.mayBeAnonymous === true && !(await this.#credentials.waitForAny(ANONYMOUS_AFTER_MS, signal))) {
      return this.#sendAnonymously(await this.#credentials.anonymous(signal), request, signal)
    }
    let credentials = await this.#credentials.current(signal)
    let response: ApiResponse
    try {
      response = await this.#sendAs(credentials, request, signal)
    } catch (error) {
      const verified = request.mayBeAnonymous === true ? this.#authorityBefore(credentials, error) : undefined
      if (verified === undefined) throw error
      const tls = { ...credentials.tls, ...verified, cert: undefined, key: undefined }
      return this.#sendAnonymously({ headers: {}, tls }, request, signal)
    }
    this.#verifiedUnder(credentials)
    if (response.status === 401) {
      const rejected = credentials
      credentials = await this.#credentials.replace(rejected, signal)
      if (credentials !== rejected) response = await this.#sendAs(credentials, request, signal)
    }
    this.#credentials.answered(credentials, response.status)
    return response
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#credentials.close()
    const open = [this.#current, this.#anonymous].filter((lane) => lane !== undefined)
    const transports = [...this.#retiring, ...open.map(({ transport }) => transport)]
    await Promise.all(transports.map((transport) => transport.close()))
  }

  /** Logs the warnings that were not logged before: a kubeconfig may become risky while the program runs. */
  #warnOf({ source, warnings }: Access): void {
    for (const warning of warnings) {
      if (this.#warnings.has(warning)) continue
      this.#warnings.add(warning)
      this.#logger.warn({ source }, warning)
    }
  }

  #sendAs(credentials: Credentials, request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
    this.#current = this.#laneFor(credentials.tls, this.#current)
    return this.#current.transport.send(request, signal, credentials.headers)
  }

  /**
   * The authority that last verified the server, if `error` shows that the authority of these credentials does not;
   * otherwise undefined. The new authority may belong to another cluster, or arrive before the server's new
   * certificate. In both cases the server is alive. Only probes use the previous authority.
   */
  #authorityBefore({ tls }: Credentials, error: unknown): { readonly ca: string | undefined } | undefined {
    const isOther = this.#verified !== undefined && tls.ca !== this.#verified.ca
    const cause = error instanceof KubeError ? error.cause : undefined
    if (!isOther || certificateFault(failureCode(cause)) === undefined) return undefined
    const { source, server } = this.#access
    const message =
      'the new certificate authority does not verify the certificate of the API server: only readiness is read, anonymously, with the previous certificate authority'
    if (!this.#isUnverified) this.#logger.warn({ source, server: server.origin, error }, message)
    this.#isUnverified = true
    return this.#verified
  }

  #verifiedUnder({ tls }: Credentials): void {
    if (this.#anonymous !== undefined) this.#retire(this.#anonymous.transport)
    this.#anonymous = undefined
    this.#verified = tls.skipVerify === true ? undefined : { ca: tls.ca }
    const { source, server } = this.#access
    if (this.#isUnverified) {
      this.#logger.info(
        { source, server: server.origin },
        'the certificate authority verifies the certificate of the API server again',
      )
    }
    this.#isUnverified = false
  }

  #sendAnonymously({ headers, tls }: Credentials, request: ApiRequest, signal: AbortSignal): Promise<ApiResponse> {
    this.#anonymous = this.#laneFor(tls, this.#anonymous)
    return this.#anonymous.transport.send(request, signal, headers)
  }

  /** `lane` if it has these settings; otherwise a new lane, and `lane` accepts no more requests. */
  #laneFor(tls: ClientTls, lane: Lane | undefined): Lane {
    if (lane?.tls === tls) return lane
    const identity = JSON.stringify(tls)
    if (lane?.identity === identity) return lane
    if (lane !== undefined) this.#retire(lane.transport)
    const { server, proxy } = this.#access
    const transport = new HttpTransport({ server, proxy, tls })
    if (this.#closed) void transport.close()
    return { tls, identity, transport }
  }

  #retire(transport: HttpTransport): void {
    this.#retiring.add(transport)
    const forget = (): boolean => this.#retiring.delete(transport)
    transport.retire().then(forget, forget)
  }
}
