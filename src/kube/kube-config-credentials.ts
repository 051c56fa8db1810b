import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'
import type { Clock } from '../runtime/clock.ts'
import { messageOf } from '../runtime/message-of.ts'
import { abortable } from '../runtime/signals.ts'
import type { Logger } from '../telemetry/logger.ts'
import { KubeError } from './errors.ts'
import type { ClientTls, ExtraHeaders } from './http-transport.ts'
import { type Access, fileProblem, keyPairProblem, type Pem, readPem } from './kube-config-access.ts'
import { type ExecCredential, ExecPlugin } from './kube-config-exec.ts'

/** What a request shows of itself. Two that are equal in content are one object. */
export interface Credentials {
  readonly headers: ExtraHeaders
  readonly tls: ClientTls
}

export interface KubeCredentialsOptions {
  readonly config: KubeConfig
  readonly access: Access
  readonly clock: Clock
  readonly logger: Logger
  /** How often files are looked at again, in milliseconds. */
  readonly rereadMs: number
  /** How long an exec plugin or auth-provider may take, in milliseconds. @default 30000 */
  readonly execTimeoutMs?: number | undefined
}

/** A part of the credentials that may change while the program runs. */
interface Moving {
  readonly ca?: string | undefined
  readonly clientCertificate?: { readonly cert: string; readonly key: string } | undefined
  readonly authorization?: string | undefined
}

/**
 * The credentials of one kubeconfig user, kept up to date: token, certificate, key and CA files are read again every few seconds,
 * exec plugins and auth-providers asked when theirs expire. Callers that come at the same time share one look. What cannot be read
 * for the moment (a file being replaced) is kept as it was; only credentials that were never had reject, with NoCredentials.
 */
export class KubeCredentials {
  readonly #options: KubeCredentialsOptions
  readonly #plugin: ExecPlugin | undefined
  #held: Credentials | undefined
  #execUsed: ExecCredential | undefined
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #renewedAtMs = Number.NEGATIVE_INFINITY
  #looking: Promise<Credentials> | undefined
  #failing = false

  constructor(options: KubeCredentialsOptions) {
    this.#options = options
    const { access, clock } = options
    const { user } = access
    if (user?.exec) {
      this.#plugin = new ExecPlugin({
        config: user.exec,
        userName: user.name,
        clusterInfo: clusterInfo(access),
        wallMs: () => clock.wallMs(),
        timeoutMs: options.execTimeoutMs,
      })
    }
  }

  /** The credentials in force. */
  async current(signal: AbortSignal): Promise<Credentials> {
    const { clock, rereadMs } = this.#options
    const fresh = this.#held !== undefined && clock.monotonicMs() - this.#lookedAtMs < rereadMs
    if (fresh && this.#held !== undefined) return this.#held
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return abortable(this.#looking, signal)
  }

  /**
   * The server refused `rejected`: gives newer credentials, or the same object if there are none. Plugins are asked at most once in
   * `rereadMs` for this reason, so that a user who was locked out does not start one for each request.
   */
  async renew(rejected: Credentials, signal: AbortSignal): Promise<Credentials> {
    const { clock, rereadMs } = this.#options
    if (this.#held !== rejected) return this.current(signal)
    if (this.#looking !== undefined) return abortable(this.#looking, signal)
    if (clock.monotonicMs() - this.#renewedAtMs < rereadMs) return rejected
    this.#renewedAtMs = clock.monotonicMs()
    if (this.#execUsed !== undefined) this.#plugin?.invalidate(this.#execUsed)
    this.#lookedAtMs = Number.NEGATIVE_INFINITY
    return this.current(signal)
  }

  close(): void {
    this.#plugin?.close()
  }

  async #look(): Promise<Credentials> {
    const { clock, access, logger } = this.#options
    const startedMs = clock.monotonicMs()
    try {
      const next = assemble(access, await this.#read())
      // The same content stays the same object: whoever compares, compares by identity.
      if (this.#held === undefined || JSON.stringify(next) !== JSON.stringify(this.#held)) this.#held = next
      if (this.#failing) logger.info({ source: access.source }, 'credentials can be read again')
      this.#failing = false
    } catch (error) {
      const reason = error instanceof KubeError ? error : new KubeError('NoCredentials', problemOf(error))
      if (this.#held === undefined) throw reason
      if (!this.#failing)
        logger.warn(
          { source: access.source, error: reason },
          'credentials cannot be renewed; the last ones stay in use',
        )
      this.#failing = true
    }
    this.#lookedAtMs = startedMs
    return this.#held
  }

  async #read(): Promise<Moving> {
    const { access } = this.#options
    const { user } = access
    const ca = access.ca === undefined ? undefined : await read(access.ca)
    const own = await this.#readPair()
    if (user === undefined) return { ca }
    if (user.tokenFile)
      return { ca, clientCertificate: own, authorization: `Bearer ${await readToken(user.tokenFile)}` }
    if (user.token) return { ca, clientCertificate: own, authorization: `Bearer ${user.token}` }
    if (user.username) {
      const basic = Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64')
      return { ca, clientCertificate: own, authorization: `Basic ${basic}` }
    }
    if (this.#plugin !== undefined) {
      const credential = await this.#plugin.credential(new AbortController().signal)
      this.#execUsed = credential
      const authorization = credential.token === undefined ? undefined : `Bearer ${credential.token}`
      return { ca, clientCertificate: credential.clientCertificate ?? own, authorization }
    }
    if (user.authProvider) return { ca, clientCertificate: own, authorization: await this.#askProvider() }
    return { ca, clientCertificate: own }
  }

  async #readPair(): Promise<Moving['clientCertificate']> {
    const { clientCertificate: pair, source } = this.#options.access
    if (pair === undefined) return undefined
    const [cert, key] = await Promise.all([read(pair.cert), read(pair.key)])
    // Two files are not replaced in one step; between the steps they do not fit.
    const problem = keyPairProblem(cert, key)
    if (problem !== undefined) throw new KubeError('NoCredentials', `${source}: ${problem}`)
    return { cert, key }
  }

  /** The authorization that client-node's own provider (oidc, azure, gcp, or one that was added to it) puts into a request. */
  async #askProvider(): Promise<string | undefined> {
    const { config, access } = this.#options
    const request: RequestOptions = {}
    try {
      await within(config.applyToHTTPSOptions(request), this.#options.execTimeoutMs ?? 30_000)
    } catch (error) {
      const provider = `auth-provider ${JSON.stringify(access.user?.authProvider?.name)}`
      throw new KubeError('NoCredentials', `${access.source}: ${provider}: ${problemOf(error)}`)
    }
    const headers = (request.headers ?? {}) as Readonly<Record<string, unknown>>
    return typeof headers.Authorization === 'string' ? headers.Authorization : undefined
  }
}

/** client-node's providers know no limit of time; one that hangs would hold up every request for ever. */
function within<T>(promise: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    promise.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

function assemble(access: Access, moving: Moving): Credentials {
  const { user } = access
  const headers: Record<string, string | readonly string[]> = {}
  if (moving.authorization !== undefined) headers.authorization = moving.authorization
  if (user?.impersonateUser) headers['impersonate-user'] = user.impersonateUser
  if (user?.impersonateUid) headers['impersonate-uid'] = user.impersonateUid
  if (user?.impersonateGroups?.length) headers['impersonate-group'] = user.impersonateGroups
  for (const [key, values] of Object.entries(user?.impersonateExtra ?? {})) {
    headers[`impersonate-extra-${escapeHeaderKey(key)}`] = values
  }
  return {
    headers,
    tls: {
      ca: moving.ca,
      cert: moving.clientCertificate?.cert,
      key: moving.clientCertificate?.key,
      serverName: access.serverName,
      serverNames: access.serverNames,
      skipVerify: access.skipVerify,
    },
  }
}

/** As client-go's `transport.headerKeyEscape`: bytes that a header name cannot hold are percent-encoded, and so is the percent sign. */
export function escapeHeaderKey(key: string): string {
  let escaped = ''
  for (const byte of Buffer.from(key)) {
    const character = String.fromCharCode(byte)
    escaped += /[A-Za-z0-9!#$&'*+.^_`|~-]/.test(character)
      ? character
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return escaped
}

async function read(pem: Pem): Promise<string> {
  return 'text' in pem ? pem.text : await readFileOr(pem.file)
}

async function readToken(file: string): Promise<string> {
  const token = (await readFileOr(file)).trim()
  if (token === '') throw new KubeError('NoCredentials', `token file ${file} is empty`)
  return token
}

async function readFileOr(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new KubeError('NoCredentials', `${file}: ${fileProblem(error)}`)
  }
}

/** What exec plugins are told of the cluster, as `client.authentication.k8s.io/v1` names it. */
function clusterInfo(access: Access): unknown {
  const { cluster } = access
  return {
    server: cluster.server,
    'tls-server-name': cluster.tlsServerName,
    'insecure-skip-tls-verify': cluster.skipTLSVerify,
    'certificate-authority-data':
      access.ca === undefined ? undefined : Buffer.from(readPem(access.ca)).toString('base64'),
    'proxy-url': cluster.proxyUrl,
    config: cluster.execConfig ?? null,
  }
}

function problemOf(error: unknown): string {
  const message = messageOf(error)
  return message.replace(/\s+/g, ' ').trim().slice(0, 200)
}
